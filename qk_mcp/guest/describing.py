"""Describes the tasks of a module in plain values, each guarded from the faults of the others."""

import os
import sys
from typing import Any

from . import arguments, footprint, loading
from .explaining import explain

__all__ = ["describe"]

_HELP = 50_000
"""Characters of a task's help."""
_UNWRAPPINGS = 100


def describe(request: "dict[str, Any]") -> "dict[str, Any]":
    """Load the tasks module that `request` names and return what it defines, as JSON can hold it.

    `error` is there when the module could not be loaded. Each task has `name`, `aliases`, `help`, `short_help`,
    `usage`, `file`, `line` and `args`, and `error` where one of these could not be told. `problems` tells of what
    could not be registered, `footprint` of the files that all this depends on.
    """
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a module that catches everything must not outlive a stop
    process = os.getpid()
    arguments.bound_choices()
    report: dict[str, Any] = {"python": ".".join(map(str, sys.version_info[:3])), "tasks": [], "problems": []}
    seen = footprint.start(os.path.dirname(os.path.abspath(request["tasks"])), loading.began)
    try:
        with loading.fresh_sources():
            tasks = loading.load(request["tasks"], running=False, argv=[":list"])
            report["tasks"] = _tasks(tasks.by_name())
            report["problems"] = tasks.problems
    except BaseException as failure:
        report["error"] = explain(failure)
    if os.getpid() != process:
        os._exit(0)  # a child that the module forked: one answer is enough
    report["quickie"] = getattr(sys.modules.get("quickie._meta"), "__version__", None)
    report["footprint"] = seen.report()
    return report


def _tasks(by_name: "dict[str, Any]") -> "list[dict[str, Any]]":
    names: dict[int, tuple[Any, list[str]]] = {}
    for name, task in by_name.items():
        names.setdefault(id(task), (task, []))[1].append(name)
    return sorted((_describe(task, own) for task, own in names.values()), key=lambda entry: entry["name"])


def _describe(task: Any, names: "list[str]") -> "dict[str, Any]":
    name = _principal(task, names)
    entry: dict[str, Any] = {
        "name": name,
        "aliases": sorted(each for each in names if each != name),
        "help": "",
        "short_help": "",
        "usage": "",
        "file": None,
        "line": None,
        "args": [],
    }

    for tell in (_tell_place, _tell_help, _tell_arguments):
        try:
            tell(task, entry)
        except BaseException as failure:  # SystemExit, too, from a parser
            entry.setdefault("error", explain(failure))
    return entry


def _tell_help(task: Any, entry: "dict[str, Any]") -> None:
    entry["help"] = str(task.get_help() or "")[:_HELP]
    entry["short_help"] = str(task.get_short_help() or "")[:_HELP]


def _tell_arguments(task: Any, entry: "dict[str, Any]") -> None:
    parser = task.parser
    if hasattr(parser, "color"):  # Python 3.14
        parser.color = False
    entry["usage"] = arguments.usage_of(parser, extra=bool(task.extra_args))
    entry["args"] = arguments.describe_arguments(parser)


def _principal(task: Any, names: "list[str]") -> str:
    """The name that quickie's own listing chooses (`ListCommand._task_list_entries` in 1.0.0)."""
    own = getattr(task, "name", None)
    if own in names:
        return str(own)
    return min([each for each in names if each.endswith(f":{own}")] or names, key=lambda each: each.split(":"))


def _tell_place(task: Any, entry: "dict[str, Any]") -> None:
    """The file and line where the task's function or class stands; a callable object has none."""
    thing = task.__wrapped__
    for _ in range(_UNWRAPPINGS):
        if hasattr(thing, "__wrapped__"):
            thing = thing.__wrapped__
        elif hasattr(thing, "func"):
            thing = thing.func  # functools.partial
        else:
            break
    thing = getattr(thing, "__func__", thing)
    code = getattr(thing, "__code__", None)
    if code is not None:
        entry["file"], entry["line"] = os.path.abspath(code.co_filename), code.co_firstlineno
    elif isinstance(thing, type):
        file = getattr(sys.modules.get(thing.__module__), "__file__", None)
        if file:
            entry["file"], entry["line"] = os.path.abspath(file), _line_of_class(thing)


def _line_of_class(class_: type) -> "int | None":
    line = class_.__dict__.get("__firstlineno__")  # Python 3.13
    if isinstance(line, int):
        return line
    import inspect

    try:
        return inspect.findsource(class_)[1] + 1
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
