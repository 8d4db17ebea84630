"""The tasks of a project, cached between presses of Tab.

A child process describes the project, so that Tab waits only briefly; a later press gets what this one did not
wait for.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from qk_mcp import __version__
from qk_mcp.editing.files import locked, replace_file
from qk_mcp.errors import QkMcpError
from qk_mcp.guest.file_trace import unchanged
from qk_mcp.interpreters.plan import resolve
from qk_mcp.projects.project import Project
from qk_mcp.tasks.catalog import Argument, Task

__all__ = ["cached_tasks"]

_PATIENCE = 1.5
"""Seconds that Tab waits at most."""
_FRESH = 5.0
"""Seconds for which tasks are used again although files cannot show that they are unchanged."""
_KEPT = 30 * 24 * 3600
"""Seconds after which an unused entry is deleted."""


def cached_tasks(project: Project, environ: Mapping[str, str]) -> Sequence[Task]:
    """Return the project's tasks: current ones, otherwise older ones, otherwise none. Raises what `resolve` raises."""
    plan = resolve(project, environ)
    key = repr((__version__, plan.location, plan.interpreter))
    file = user_cache_path("qk-mcp") / "completion" / hashlib.sha256(os.fsencode(plan.location.tasks)).hexdigest()[:32]
    entry = _read(file)
    if not _is_valid(entry, key):
        _wait(_describe_in_child(project, environ, key, file))
        entry = _read(file)
    return [_task(task) for task in entry.get("tasks", ())]


def _task(stored: Mapping[str, Any]) -> Task:
    """Return a task that was stored as JSON, which has no tuples."""
    arguments = (Argument(**each | {"flags": tuple(each["flags"])}) for each in stored["args"])
    return Task(**{**stored, "args": tuple(arguments)})


def _read(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        entry: dict[str, Any] = json.loads(file.read_bytes())
        return entry
    return {}


def _is_valid(entry: Mapping[str, Any], key: str) -> bool:
    """Return whether an entry is still valid: nothing has changed, or the entry is a few seconds old."""
    trace = entry.get("trace")
    fresh: bool = 0 <= time.time() - entry.get("time", 0) < _FRESH
    if entry.get("key") != key:
        return False
    if not trace:
        return fresh
    return (fresh or (trace["settled"] and not trace["uncacheable"])) and unchanged(trace)


def _wait(child: int) -> None:
    """Wait for a child process, at most `_PATIENCE` seconds."""
    deadline = time.monotonic() + _PATIENCE
    while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)


def _describe_in_child(project: Project, environ: Mapping[str, str], key: str, file: Path) -> int:
    """Start a process that describes the project and writes the file, and may outlive this one; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):  # otherwise the shell, which reads our output, waits for this process too
            os.dup2(null, descriptor)
        os.closerange(3, 256)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(file):
            entry = _read(file)
            if not _is_valid(entry, key):  # otherwise another process has just written it
                _write(file, {"key": key, "time": time.time()} | _described(project, environ, entry))
    finally:
        os._exit(0)


def _described(project: Project, environ: Mapping[str, str], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the project's tasks and their trace; if the project is broken, its previous tasks."""
    import asyncio

    from qk_mcp.tasks.cache import CatalogCache

    async def describe() -> dict[str, Any]:
        catalogs = CatalogCache(environ)
        try:
            catalog = await catalogs.get(project)
            tasks = [asdict(replace(task, help="", usage="")) for task in catalog.tasks]
        except QkMcpError:
            tasks = entry.get("tasks", [])
        return {"tasks": tasks, "trace": catalogs.trace(project)}

    return asyncio.run(describe())


def _write(file: Path, entry: Mapping[str, Any]) -> None:
    for old in file.parent.iterdir():
        if time.time() - old.stat().st_mtime > _KEPT:
            old.unlink()
    replace_file(file, json.dumps(entry).encode())
