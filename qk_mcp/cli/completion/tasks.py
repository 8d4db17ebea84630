"""The tasks of a project, remembered from one press of Tab to the next.

What a project defines is described in a process of its own, so that Tab waits no
longer than a moment for it, and the next press has what this one did not wait for.
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

__all__ = ["known"]

_PATIENCE = 1.5
"""Seconds that Tab waits."""
_FRESH = 5.0
"""Seconds for which tasks are taken to be what they were, where files cannot tell."""
_KEPT = 30 * 24 * 3600
"""Seconds after which tasks that nobody asks for are forgotten."""


def known(project: Project, environ: Mapping[str, str]) -> Sequence[Task]:
    """Return the project's tasks as they are, or else as they were, or none. Raises what finding the project raises."""
    plan = resolve(project, environ)
    key = repr((__version__, plan.location, plan.interpreter))
    file = user_cache_path("qk-mcp") / "completion" / hashlib.sha256(os.fsencode(plan.location.tasks)).hexdigest()[:32]
    remembered = _read(file)
    if not _holds(remembered, key):
        _wait(_describe_beside(project, environ, key, file))
        remembered = _read(file)
    return [_task(task) for task in remembered.get("tasks", ())]


def _task(remembered: Mapping[str, Any]) -> Task:
    """Return a task that was written as JSON, which has no tuples."""
    arguments = (Argument(**each | {"flags": tuple(each["flags"])}) for each in remembered["args"])
    return Task(**{**remembered, "args": tuple(arguments)})


def _read(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        remembered: dict[str, Any] = json.loads(file.read_bytes())
        return remembered
    return {}


def _holds(remembered: Mapping[str, Any], key: str) -> bool:
    """Say whether nothing has changed, or had no time to."""
    trace = remembered.get("trace")
    fresh: bool = 0 <= time.time() - remembered.get("time", 0) < _FRESH
    if remembered.get("key") != key:
        return False
    if not trace:
        return fresh
    return (fresh or (trace["settled"] and not trace["uncacheable"])) and unchanged(trace)


def _wait(child: int) -> None:
    """Wait for a process, but not for long."""
    deadline = time.monotonic() + _PATIENCE
    while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)


def _describe_beside(project: Project, environ: Mapping[str, str], key: str, file: Path) -> int:
    """Have another process describe the project and write the file; return its id. It outlives this one."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):  # a shell that reads what we print would wait until this process has ended, too
            os.dup2(null, descriptor)
        os.closerange(3, 256)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(file):
            remembered = _read(file)
            if not _holds(remembered, key):  # else another one was quicker
                _write(file, {"key": key, "time": time.time()} | _described(project, environ, remembered))
    finally:
        os._exit(0)


def _described(project: Project, environ: Mapping[str, str], remembered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the project's tasks and what they depend on; while it is broken, the tasks that it had."""
    import asyncio

    from qk_mcp.tasks.cache import CatalogCache

    async def describe() -> dict[str, Any]:
        catalogs = CatalogCache(environ)
        try:
            catalog = await catalogs.get(project)
            tasks = [asdict(replace(task, help="", usage="")) for task in catalog.tasks]
        except QkMcpError:
            tasks = remembered.get("tasks", [])
        return {"tasks": tasks, "trace": catalogs.trace(project)}

    return asyncio.run(describe())


def _write(file: Path, remembered: Mapping[str, Any]) -> None:
    for old in file.parent.iterdir():
        if time.time() - old.stat().st_mtime > _KEPT:
            old.unlink()
    replace_file(file, json.dumps(remembered).encode())
