"""Describes the tasks of a module in plain values, each guarded from the faults of the others."""

import json
import os
import sys
from typing import Any

from . import argparse_schema as arguments
from . import file_trace as footprint
from . import load as loading
from . import warmup as warming
from .exceptions import explain

__all__ = ["describe"]

_HELP = 50_000
"""Characters of a task's help."""
_UNWRAPPINGS = 100


def describe(request: "dict[str, Any]") -> None:
    """Load the tasks module that `request` names and write what it defines, as JSON can hold it.

    The report is written bit by bit, an object a line, so that what hangs or ends the process costs only
    itself: `python` and `quickie`, the versions; `names`, those of each task, the principal one first, again
    once more are known; `at`, what is asked for its tasks (`namespace`) or described (`task`) next; `task`, with
    `name`, `aliases`, `help`, `short_help`, `usage`, `file`, `line` and `args`, and `error` where one of these
    could not be told; at the end `problems`, what could not be registered, and `trace`, the files that all
    this depends on, or `error` and `trace` when the module could not be loaded.
    """
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a module that catches everything must not outlive a stop
    report = _Report(request["result"])
    quickie = getattr(sys.modules.get("quickie._meta"), "__version__", None)
    report.say({"python": ".".join(map(str, sys.version_info[:3])), "quickie": quickie})
    arguments.bound_choices()
    seen = footprint.start(os.path.dirname(os.path.abspath(request["tasks"])), warming.began)
    try:
        with loading.fresh_sources():
            tasks = loading.load(request["tasks"], running=False, argv=[":list"])
            report.say({"names": [names for _, names in _grouped(tasks.known())]})
            grouped = _grouped(tasks.by_name(lambda path: report.say({"at": {"namespace": path}})))
            report.say({"names": [names for _, names in grouped]})
            for task, names in grouped:
                report.say({"at": {"task": names[0]}})
                report.say({"task": _describe(task, names)})
        report.say({"problems": tasks.problems, "trace": seen.report()})
    except BaseException as failure:
        report.say({"error": explain(failure), "trace": seen.report()})


class _Report:
    """Written by its path, anew each time: a module may have closed every descriptor."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._process = os.getpid()
        self._open, self._dumps = open, json.dumps  # a module may put others in their places

    def say(self, line: "dict[str, Any]") -> None:
        if os.getpid() != self._process:
            os._exit(0)  # a child that the module forked: one report is enough
        with self._open(self._path, "a", encoding="utf-8") as file:
            file.write(self._dumps(line) + "\n")


def _grouped(by_name: "dict[str, Any]") -> "list[tuple[Any, list[str]]]":
    """Return each task with its names, the principal one first."""
    tasks: dict[int, tuple[Any, list[str]]] = {}
    for name, task in by_name.items():
        tasks.setdefault(id(task), (task, []))[1].append(name)
    grouped = []
    for task, names in tasks.values():
        principal = _principal(task, names)
        grouped.append((task, [principal, *sorted(each for each in names if each != principal)]))
    return grouped


def _describe(task: Any, names: "list[str]") -> "dict[str, Any]":
    entry: dict[str, Any] = {
        "name": names[0],
        "aliases": names[1:],
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
