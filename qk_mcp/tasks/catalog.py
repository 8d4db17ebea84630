"""A project's tasks, parsed from a guest's report.

The report comes from a foreign process. Its values may have any type and length, and its texts may contain characters
that a reader does not see; parsing checks, bounds and cleans them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os.path import relpath
from pathlib import Path
from typing import Any

from qk_mcp.text import one_line, printable

__all__ = ["HELP_LENGTH", "Argument", "Catalog", "Syntax", "Task", "parse_entry", "parse_report", "relative_location"]

TASKS = 10_000
"""Tasks of one project."""
NAMES = 200
"""Names of one task."""
ARGUMENTS = 500
"""Arguments of one task."""
ITEMS = 200
"""Flags, choices, and items of a default."""
NAME_LENGTH = 300
"""Characters of a name, a flag, a type."""
HELP_LENGTH = 10_000
"""Characters of a help text or a usage."""
VALUE_LENGTH = 2_000
"""Characters of a text in a default or a choice."""
SHORT_HELP_LENGTH = 300
"""Characters of a short help; quickie itself cuts it after 50."""
ERROR_LENGTH = 1_000
"""Characters of an error of a task or a namespace."""
_DEPTH = 6
_ELSEWHERE = "files of another machine"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a task, with the attributes of an argparse action."""

    flags: tuple[str, ...]
    dest: str
    type: str | None
    default: Any
    required: bool
    choices: tuple[Any, ...] | None
    help: str | None
    nargs: str | int | None
    action: str = "store"
    """What an occurrence does: store, append, extend, switch, count, boolean, command, version."""
    number: str | None = None
    """`int` or `float` if exactly that type reads the value."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a task's parser tells words apart."""

    prefixes: str = "-"
    """The characters with which an option begins."""
    files: str = ""
    """The characters with which the name of a file of arguments begins."""
    extra: bool = False
    """Whether the task takes words that its parser does not know."""
    hidden: bool = False
    """Whether there is a positional that the help does not show."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task, under its main name."""

    name: str
    aliases: tuple[str, ...]
    short_help: str
    help: str
    usage: str
    location: str | None
    """`file:line`, relative to the project's root."""
    args: tuple[Argument, ...]
    error: str = ""
    """Why the description is incomplete; empty if it is complete."""
    syntax: Syntax = Syntax()


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tasks of a project at one moment."""

    root: Path
    tasks: tuple[Task, ...]
    problems: tuple[str, ...]
    """The parts of the module that could not be turned into tasks, and why."""
    python: str
    quickie: str
    uncacheable: str
    """What the module uses that files do not show, so that each listing describes it again; empty if nothing."""
    note: str = ""
    """What is unusual about the Python that runs the tasks (`Plan.note`); else empty."""


def parse_report(report: Mapping[str, Any], root: Path, note: str = "") -> Catalog:
    """Return the catalogue in a guest's report on the project at `root`, cleaned and within this module's bounds."""
    tasks = _mappings(report.get("tasks"))
    problems = [_problem(each, root) for each in _mappings(report.get("problems"))[:ITEMS]]
    if len(tasks) > TASKS:
        problems.append(f"it has {len(tasks)} tasks; only the first {TASKS} are listed")
    return Catalog(
        root,
        tuple(_task(each, root) for each in tasks[:TASKS]),
        tuple(problems),
        one_line(_text(report.get("python")), NAME_LENGTH),
        one_line(_text(report.get("quickie")), NAME_LENGTH),
        one_line(_text(_mapping(report.get("trace")).get("uncacheable")), NAME_LENGTH),
        note,
    )


def parse_entry(entry: Mapping[str, Any]) -> Catalog:
    """Return the catalogue in an entry of another server's `list_tasks`, in the full form, cleaned and bounded."""
    tasks = []
    for each in _mappings(entry.get("tasks")):
        task = _task({**each, "args": each.get("args_schema"), "error": None}, Path())
        location, error = _text(each.get("location")), _text(each.get("error"))
        tasks.append(
            replace(
                task,
                location=one_line(location, NAME_LENGTH) or None,
                error=task.error or printable(error, ERROR_LENGTH),
            )
        )
    note = printable(_text(entry.get("note")), HELP_LENGTH)
    return Catalog(Path(_text(entry.get("project_root"))), tuple(tasks[:TASKS]), (), "", "", _ELSEWHERE, note)


def _task(report: Mapping[str, Any], root: Path) -> Task:
    name, *aliases = [_text(report.get("name")), *_texts(report.get("aliases"))]
    failure = _mapping(report.get("error"))
    error = _failure(failure, root) if failure else ""
    if not _callable_by(name):
        error = error or "it cannot be run by this name: the name is too long or contains characters that are not shown"
    return Task(
        name=printable(name, NAME_LENGTH),
        aliases=tuple(alias for alias in aliases[:NAMES] if _callable_by(alias)),
        short_help=one_line(_text(report.get("short_help")), SHORT_HELP_LENGTH),
        help=printable(_text(report.get("help")), HELP_LENGTH),
        usage=printable(_text(report.get("usage")), HELP_LENGTH),
        location=relative_location(report, root),
        args=tuple(_argument(each) for each in _mappings(report.get("args"))[:ARGUMENTS]),
        error=error,
        syntax=_syntax(_mapping(report.get("syntax"))),
    )


def _syntax(report: Mapping[str, Any]) -> Syntax:
    return Syntax(
        prefixes=_text(report.get("prefixes"))[:ITEMS] or "-",
        files=_text(report.get("files"))[:ITEMS],
        extra=report.get("extra") is True,
        hidden=report.get("hidden") is True,
    )


def _callable_by(name: str) -> bool:
    """Return whether an agent sees the exact name, which is what `run_task` needs."""
    return printable(name, NAME_LENGTH) == name


def _argument(report: Mapping[str, Any]) -> Argument:
    kind, text, nargs, choices = (report.get(key) for key in ("type", "help", "nargs", "choices"))
    return Argument(
        flags=tuple(printable(flag, NAME_LENGTH) for flag in _texts(report.get("flags"))[:ITEMS]),
        dest=printable(_text(report.get("dest")), NAME_LENGTH),
        type=one_line(kind, NAME_LENGTH) if isinstance(kind, str) else None,
        default=_value(report.get("default")),
        required=report.get("required") is True,
        choices=tuple(_value(each) for each in choices[:ITEMS]) if isinstance(choices, list) else None,
        help=printable(text, HELP_LENGTH) if isinstance(text, str) else None,
        nargs=one_line(nargs, NAME_LENGTH) if isinstance(nargs, str) else nargs if isinstance(nargs, int) else None,
        action=_text(report.get("action")) or "store",
        number=_text(report.get("number")) or None,
    )


def relative_location(report: Mapping[str, Any], root: Path) -> str | None:
    """Return the `file` and `line` of a report as `file:line`, relative to `root`; None if they are not known."""
    file, line = report.get("file"), report.get("line")
    if not isinstance(file, str) or "\0" in file:
        return None
    place = one_line(relpath(file, root), NAME_LENGTH)
    return f"{place}:{line}" if isinstance(line, int) else place


def _problem(report: Mapping[str, Any], root: Path) -> str:
    name = one_line(_text(report.get("name")), 60)
    return f"{name}: {_failure(_mapping(report.get('error')), root)}"


def _failure(report: Mapping[str, Any], root: Path) -> str:
    """Return an exception in one line: its type, its message, and the innermost place in the project's code."""
    kind, message = one_line(_text(report.get("type")), 100), one_line(_text(report.get("message")), ERROR_LENGTH)
    text = ": ".join(filter(None, (kind, message)))
    frames = _mappings(report.get("frames"))
    place = relative_location(frames[-1], root) if frames else None
    return f"{text} ({place})" if place else text


def _value(value: Any, depth: int = 0) -> Any:
    """Return a default or a choice with every text in it made printable."""
    if isinstance(value, str):
        return printable(value, VALUE_LENGTH)
    if depth < _DEPTH and isinstance(value, list):
        return [_value(each, depth + 1) for each in value[:ITEMS]]
    if depth < _DEPTH and isinstance(value, dict):
        return {printable(key, VALUE_LENGTH): _value(each, depth + 1) for key, each in list(value.items())[:ITEMS]}
    finite = isinstance(value, float) and value - value == 0
    return value if value is None or finite or isinstance(value, int) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
