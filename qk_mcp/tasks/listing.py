"""The listing that agents read: one entry per project, filtered, and shrunk if it is too long."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import Project, locate
from qk_mcp.tasks.catalog import HELP_LENGTH, Argument, Catalog, Task
from qk_mcp.text import shorten

__all__ = ["ANSWER_LIMIT", "broken_entry", "matches", "project_entry", "shrink"]

ANSWER_LIMIT = 200_000
"""Bytes of JSON above which entries are shrunk."""


def project_entry(alias: str, catalog: Catalog, pattern: str | None = None) -> dict[str, Any]:
    """Return a project's entry in a listing.

    `pattern` keeps the tasks that `matches` accepts.
    """
    tasks = [_task_json(task) for task in catalog.tasks if not pattern or matches(task, pattern)]
    entry: dict[str, Any] = {"project": alias, "project_root": str(catalog.root), "tasks": tasks}
    notes = [catalog.note] if catalog.note else []
    if catalog.problems:
        notes.append("not listed because it failed to load: " + shorten("; ".join(catalog.problems), HELP_LENGTH))
    if notes:
        entry["note"] = "; ".join(notes)
    return entry


def broken_entry(project: Project, failure: QkMcpError) -> dict[str, Any]:
    """Return the entry of a project whose tasks cannot be listed."""
    try:
        root = str(locate(project).root)
    except QkMcpError:
        root = None
    return {"project": project.alias, "project_root": root, "tasks": [], "error": str(failure)}


def _task_json(task: Task) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": task.name,
        "aliases": list(task.aliases),
        "short_help": task.short_help,
        "help": task.help,
        "usage": task.usage,
        "location": task.location,
        "args_schema": [_argument_json(argument) for argument in task.args],
    }
    if task.error:
        entry["error"] = task.error
    return entry


def _argument_json(argument: Argument) -> dict[str, Any]:
    return {
        "flags": list(argument.flags),
        "dest": argument.dest,
        "type": argument.type,
        "default": argument.default,
        "required": argument.required,
        "choices": None if argument.choices is None else list(argument.choices),
        "help": argument.help,
        "nargs": argument.nargs,
    }


def matches(task: Task, pattern: str) -> bool:
    """Return whether a name of the task contains `pattern`, or matches it as a glob if it has one of `*?[`.

    Case does not count.
    """
    wanted = pattern.casefold()
    names = [name.casefold() for name in (task.name, *task.aliases)]
    if any(wanted in name for name in names):
        return True
    return any(sign in wanted for sign in "*?[") and any(fnmatchcase(name, wanted) for name in names)


def _without_help(task: Mapping[str, Any]) -> dict[str, Any]:
    arguments = [{**argument, "help": None} for argument in task["args_schema"]]
    return {**task, "help": None, "args_schema": arguments}


def _without_arguments(task: Mapping[str, Any]) -> dict[str, Any]:
    return {**task, "args_schema": None}


def _only_names(task: Mapping[str, Any]) -> dict[str, Any]:
    return {**task, "usage": None, "location": None}


_TIERS: Sequence[tuple[Callable[[Mapping[str, Any]], dict[str, Any]], str]] = (
    (_without_help, "help texts"),
    (_without_arguments, "help texts and arguments"),
    (_only_names, "everything but names and short help"),
)
"""How the tasks of an entry are shrunk, one step after the other, and what is gone by then."""


def shrink(entries: Iterable[dict[str, Any]], limit: int = ANSWER_LIMIT) -> list[dict[str, Any]]:
    """Return the entries, the largest of them shrunk until all fit into `limit` bytes of JSON or nothing more can go.

    Every key stays; what is left out is null, and a `note` says so.
    """
    full = list(entries)
    shrunk = list(full)
    sizes = [_size(each) for each in shrunk]
    steps = [0] * len(full)
    while sum(sizes) > limit:
        largest = max(range(len(full)), key=lambda index: sizes[index] if steps[index] < len(_TIERS) else -1)
        if steps[largest] == len(_TIERS):
            break
        steps[largest] += 1
        shrunk[largest] = _shrunk(full[largest], steps[largest])
        sizes[largest] = _size(shrunk[largest])
    return shrunk


def _shrunk(full: Mapping[str, Any], steps: int) -> dict[str, Any]:
    tasks = full["tasks"]
    for step, _ in _TIERS[:steps]:
        tasks = [step(task) for task in tasks]
    told = {**full, "tasks": tasks}
    if tasks:
        gone = _TIERS[steps - 1][1]
        note = f"left out, for the answer would be too long: {gone}; list fewer tasks, with `filter`, to see them"
        told["note"] = "; ".join(filter(None, (full.get("note"), note)))
    return told


def _size(value: Any) -> int:
    """The bytes that an entry takes in the answer, with what parts it from the next."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) + len(", ")
