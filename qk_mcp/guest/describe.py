"""Describes the tasks of a module as JSON; a task that fails to describe does not affect the others."""

import json
import os
import sys
from typing import Any

from . import warmup
from .argparse_schema import describe_arguments, describe_syntax, limit_choices, usage_of
from .exceptions import explain_exception
from .file_trace import start_trace
from .identity import definition_of, group_names
from .load import fresh_sources, load_tasks

__all__ = ["REPORT_FAILED", "describe_tasks"]

_HELP = 50_000
"""Characters of a task's help."""
REPORT_FAILED = 74
"""The exit code (EX_IOERR of sysexits.h) if the report cannot be written."""


def describe_tasks(request: "dict[str, Any]") -> None:
    """Load the tasks module that `request` names and write a description of its tasks to the report's file.

    The report has one JSON object in each line, written as soon as it is known, so that a task that hangs or
    ends the process costs only its own description:
        python, quickie    the versions
        names              a list of names for each task, the principal one first; written again when more are known
        at                 what is resolved (`namespace`) or described (`task`) next
        task               one task: `name`, `aliases`, `help`, `short_help`, `usage`, `file`, `line`, `args`, `syntax`
                           (how its parser tells words apart), and `error` if one of these failed
        problems, trace    at the end: what could not be registered, and the files that the description depends on
        error, trace       instead, if the module could not be loaded
    """
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a module that catches KeyboardInterrupt must still end
    report = _Report(request["result"])
    quickie = getattr(sys.modules.get("quickie._meta"), "__version__", None)
    report.write({"python": ".".join(map(str, sys.version_info[:3])), "quickie": quickie})
    limit_choices()
    trace = start_trace(os.path.dirname(os.path.abspath(request["tasks"])), warmup.began)
    try:
        with fresh_sources():
            tasks = load_tasks(request["tasks"], running=False, argv=[":list"])
            report.write({"names": [names for _, names in group_names(tasks.known())]})
            grouped = group_names(tasks.by_name(lambda path: report.write({"at": {"namespace": path}})))
            report.write({"names": [names for _, names in grouped]})
            for task, names in grouped:
                report.write({"at": {"task": names[0]}})
                report.write({"task": _describe(task, names)})
        report.write({"problems": tasks.problems, "trace": trace.report()})
    except BaseException as failure:
        report.write({"error": explain_exception(failure), "trace": trace.report()})


class _Report:
    """Appends lines to a file, which it opens by path each time: the module may close every descriptor.

    The descriptor opened at first serves if the module has given up the privileges to open the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._process = os.getpid()
        self._open, self._dumps = open, json.dumps  # the module may replace them
        self._first = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._status = os.fstat(self._first)

    def write(self, line: "dict[str, Any]") -> None:
        if os.getpid() != self._process:
            os._exit(0)  # a child that the module forked must not write a second report
        try:
            self._append(self._dumps(line) + "\n")
        except OSError:
            os._exit(REPORT_FAILED)  # the disk is full, or the directory has gone; the server finds out

    def _append(self, text: str) -> None:
        try:
            file = self._open(self._path, "a", encoding="utf-8")
        except PermissionError:
            if not os.path.samestat(os.fstat(self._first), self._status):
                raise
            file = self._open(self._first, "a", encoding="utf-8", closefd=False)
        with file:
            file.write(text)


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

    for add in (_add_location, _add_help, _add_arguments):
        try:
            add(task, entry)
        except BaseException as failure:  # a parser may raise SystemExit
            entry.setdefault("error", explain_exception(failure))
    return entry


def _add_help(task: Any, entry: "dict[str, Any]") -> None:
    entry["help"] = str(task.get_help() or "")[:_HELP]
    entry["short_help"] = str(task.get_short_help() or "")[:_HELP]


def _add_arguments(task: Any, entry: "dict[str, Any]") -> None:
    parser = task.parser
    if hasattr(parser, "color"):  # Python 3.14
        parser.color = False
    entry["usage"] = usage_of(parser, extra=bool(task.extra_args))
    entry["args"] = describe_arguments(parser)
    entry["syntax"] = {**describe_syntax(parser), "extra": bool(task.extra_args)}


def _add_location(task: Any, entry: "dict[str, Any]") -> None:
    entry["file"], entry["line"] = definition_of(task)
