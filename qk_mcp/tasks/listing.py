"""The listing that agents read: one entry per project, filtered, and shortened if it is too long for a client.

Three forms of a task: full, short (name, aliases, short help, usage line), and the name alone. All tasks of an answer
have the same form.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal

from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import Project, locate
from qk_mcp.tasks.catalog import HELP_LENGTH, Argument, Catalog, Task
from qk_mcp.tasks.usage import usage_line
from qk_mcp.text import composed, encoded_size, nearest, shorten

__all__ = ["ANSWER_LIMIT", "FULL_LIMIT", "Detail", "Listed", "listing_text", "make_entries", "matches", "task_entry"]

type Detail = Literal["auto", "full", "short", "parsers"]
"""The form of the tasks; `parsers` is the full one with `syntax`, `action` and `number`, for another server of ours."""
"""`auto` means full if that fits, otherwise short."""
type Listed = tuple[Project, Catalog | QkMcpError]
"""A project, and its tasks or why there are none."""

ANSWER_LIMIT = 40_000
"""Bytes of JSON of an answer: several clients cut longer ones, in the middle or down to a preview."""
FULL_LIMIT = 200_000
"""Bytes of JSON of an answer if the caller asks for full detail."""
_NEAREST = 5
"""Names that a note suggests for a filter without matches."""
_FILTER_LENGTH = 600
"""Characters of a filter that can match a name. `fnmatch` takes minutes to translate 100,000 brackets."""
_COMPARED = 2_000
"""Names compared for that; more would hold up other calls."""


def make_entries(
    projects: Sequence[Listed],
    *,
    pattern: str | None = None,
    detail: Detail = "auto",
    limit: int = ANSWER_LIMIT,
    note: str = "",
    usual: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return an entry per project, in at most `limit` bytes of JSON (`FULL_LIMIT` with `detail="full"`).

    `pattern` keeps the tasks that `matches` accepts. If the form is shorter than asked for, a `note` says so. The first
    entry also has the caller's `note`. `usual` has the seconds that tasks usually take, by root and name.
    """

    matched = not pattern or any(matches(task, pattern) for _, each in projects for task in _tasks(each))

    def entries_with(form: _Form, form_note: str = "") -> list[dict[str, Any]]:
        entries = [
            _entry(listed, pattern, form, form_note, note if position == 0 else "", matched=matched)
            for position, listed in enumerate(projects)
        ]
        return _bound_texts(entries, limit // 2)

    if detail in ("full", "parsers"):
        limit = max(limit, FULL_LIMIT)
    if detail != "short":
        entries = entries_with(_parser_entry if detail == "parsers" else task_entry)
        _add_durations(entries, usual)
        if _size(entries) <= limit:
            return entries
    entries = entries_with(_short_task, "" if detail == "short" else _SHORT_NOTE)
    if _size(entries) <= limit:
        return entries
    return _cut(entries_with(_named_task, _NAMES_NOTE), limit)


def task_entry(task: Task) -> dict[str, Any]:
    """Return the full form of a task."""
    entry: dict[str, Any] = {
        "name": task.name,
        "aliases": list(task.aliases),
        "short_help": task.short_help,
        "help": task.help,
        "usage": task.usage,
        "location": task.location,
        "args_schema": [_argument_entry(argument) for argument in task.args],
    }
    return entry | ({"error": task.error} if task.error else {})


def _parser_entry(task: Task) -> dict[str, Any]:
    arguments = [
        _argument_entry(argument) | {"action": argument.action, "number": argument.number} for argument in task.args
    ]
    return task_entry(task) | {"args_schema": arguments, "syntax": asdict(task.syntax)}


def _add_durations(entries: Iterable[dict[str, Any]], usual: Mapping[tuple[str, str], float]) -> None:
    for entry in entries if usual else ():
        for task in entry["tasks"]:
            keys = [(entry["project_root"], name) for name in (task["name"], *task["aliases"])]
            if found := [usual[key] for key in keys if key in usual]:
                task["usually"] = found[0]


def matches(task: Task, pattern: str) -> bool:
    """Return whether a name of the task contains `pattern`, or matches it as a glob if it has one of `*?[`.

    Neither case nor the Unicode normal form counts.
    """
    if len(pattern) > _FILTER_LENGTH:
        return False
    folded = composed(pattern).casefold()
    names = [composed(name).casefold() for name in (task.name, *task.aliases)]
    if any(folded in name for name in names):
        return True
    return any(sign in folded for sign in "*?[") and any(fnmatchcase(name, folded) for name in names)


def listing_text(entries: Iterable[dict[str, Any]]) -> str:
    """Return the JSON of the entries with each task on its own line: some clients drop a long line as a whole."""
    parts = []
    for entry in entries:
        head = _json({key: value for key, value in entry.items() if key != "tasks"})
        tasks = ",\n".join(map(_json, entry["tasks"]))
        parts.append(f'{head[:-1]}, "tasks": [\n{tasks}\n]}}' if tasks else f'{head[:-1]}, "tasks": []}}')
    return "[" + ",\n".join(parts) + "]"


_SHORT_NOTE = "short form, because the answer would be too long; `filter` with a task's exact name shows all of it"
_NAMES_NOTE = "names only, because the answer would be too long; `filter` shows fewer tasks with more detail"


type _Form = Callable[[Task], dict[str, Any]]


def _entry(
    listed: Listed, pattern: str | None, form: _Form, form_note: str, note: str, *, matched: bool
) -> dict[str, Any]:
    project, outcome = listed
    notes = [note] if note else []
    if isinstance(outcome, QkMcpError):
        broken = {"project": project.alias, "project_root": _root(project), "error": str(outcome)}
        return broken | _note(notes) | {"tasks": []}
    tasks = [task for task in outcome.tasks if not pattern or matches(task, pattern)]
    notes += [outcome.note] if outcome.note else []
    notes += [form_note] if tasks and form_note else []
    if pattern and not matched:
        notes.append(_no_match(pattern, outcome))
    if outcome.problems:
        notes.append("not listed because it failed to load: " + shorten("; ".join(outcome.problems), HELP_LENGTH))
    entry: dict[str, Any] = {"project": project.alias, "project_root": str(outcome.root)}
    return entry | _note(notes) | {"tasks": [form(task) for task in tasks]}


def _tasks(outcome: Catalog | QkMcpError) -> Sequence[Task]:
    return () if isinstance(outcome, QkMcpError) else outcome.tasks


def _note(notes: Sequence[str]) -> dict[str, Any]:
    return {"note": "; ".join(notes)} if notes else {}


def _root(project: Project) -> str | None:
    try:
        return str(locate(project).root)
    except QkMcpError:
        return None


def _no_match(pattern: str, catalog: Catalog) -> str:
    match len(catalog.tasks):
        case 0:
            return "it has no tasks"
        case 1:
            subject = "its only task has no name"
        case count:
            subject = f"none of its {count} tasks has a name"
    note = f"{subject} that matches {shorten(pattern, 100)!r}"
    names = (name for task in catalog.tasks for name in (task.name, *task.aliases))
    near = nearest(shorten(pattern, 100), islice(names, _COMPARED), _NEAREST)
    return f"{note}; the nearest names are {', '.join(map(repr, near))}" if near else note


def _short_task(task: Task) -> dict[str, Any]:
    entry = {
        "name": task.name,
        "aliases": list(task.aliases),
        "short_help": task.short_help,
        "usage": usage_line(task),
        "error": task.error,
    }
    return {key: value for key, value in entry.items() if value}


def _named_task(task: Task) -> dict[str, Any]:
    return {"name": task.name}


def _argument_entry(argument: Argument) -> dict[str, Any]:
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


def _bound_texts(entries: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return the entries, whose errors and notes are cut if all of them together have more than `limit` bytes."""
    texts = [(entry, key) for entry in entries for key in ("error", "note") if key in entry]
    sizes = [encoded_size(entry[key]) for entry, key in texts]
    if sum(sizes) <= limit:
        return entries
    left = limit
    for position, (size, (entry, key)) in enumerate(sorted(zip(sizes, texts, strict=True), key=lambda each: each[0])):
        share = left // (len(texts) - position)  # what a short text does not need, the longer ones get
        entry[key] = shorten(entry[key], len(entry[key]) * share // max(share, size))
        left -= encoded_size(entry[key])
    return entries


def _cut(entries: Sequence[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return the entries with as many tasks as fit into `limit` bytes; a note counts those left out."""
    left = limit - _size([{**entry, "tasks": []} for entry in entries]) - _COUNT_NOTE * len(entries)
    cut = []
    for position, entry in enumerate(entries):
        share = left // (len(entries) - position)
        tasks: list[dict[str, Any]] = []
        used = 0
        for task in entry["tasks"]:
            size = encoded_size(task) + 2
            if used + size > share:
                break
            used += size
            tasks.append(task)
        left -= used
        missing = len(entry["tasks"]) - len(tasks)
        if missing:
            entry = {**entry, "note": f"{entry['note']}; {missing} more tasks are left out", "tasks": tasks}
        cut.append(entry)
    return cut


_COUNT_NOTE = 60
"""Bytes reserved in an entry for the number of tasks left out."""


def _size(entries: Iterable[dict[str, Any]]) -> int:
    return len(listing_text(entries).encode("utf-8", "surrogatepass"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
