"""Turns an exception into JSON: its type and message, the project's own frames, and its causes."""

import os
import sys
from types import TracebackType
from typing import Any

__all__ = ["explain_exception", "installed_directories"]

_TEXT = 2_000
"""Characters of a message."""
_FRAMES = 8
"""Frames of one exception: the innermost ones."""
_CAUSES = 5
_GROUP = 5
"""Exceptions reported of one group, and the depth to which nested groups are followed."""

_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def explain_exception(failure: BaseException) -> "dict[str, Any]":
    """Return a JSON report of an exception.

    It always has `type`, `message`, `frames` (each with `file`, `line` and `code`) and `causes` (reports without
    causes of their own, nearest first). A group has `errors`, a missing module has its name in `missing`, and
    SystemExit has `exit_code`.
    """
    report = _report(failure)
    causes: list[dict[str, Any]] = []
    seen = {id(failure)}
    cause = _cause(failure)
    while cause is not None and id(cause) not in seen and len(causes) < _CAUSES:
        seen.add(id(cause))
        causes.append(_report(cause))
        cause = _cause(cause)
    report["causes"] = causes
    return report


def _cause(failure: BaseException) -> "BaseException | None":
    if failure.__cause__ is not None:
        return failure.__cause__
    return None if failure.__suppress_context__ else failure.__context__


def _report(failure: BaseException, depth: int = 0) -> "dict[str, Any]":
    report: dict[str, Any] = {
        "type": type(failure).__name__,
        "message": _message(failure),
        "frames": _frames(failure.__traceback__),
    }
    if isinstance(failure, SyntaxError) and isinstance(failure.filename, str):
        code = failure.text if isinstance(failure.text, str) else ""
        report["message"] = str(failure.msg)[:_TEXT]
        report["frames"].append({"file": failure.filename, "line": failure.lineno or 0, "code": code.strip()[:_TEXT]})
    elif isinstance(failure, ModuleNotFoundError):
        if (
            isinstance(failure.name, str) and "." not in failure.name
        ):  # with a dot, the package exists but lacks a submodule
            report["missing"] = failure.name
    elif isinstance(failure, SystemExit):
        status = failure.code
        report["exit_code"] = status if isinstance(status, int) else 0 if status is None else 1
    elif depth < _GROUP:
        parts = getattr(failure, "exceptions", ())  # of a group
        if isinstance(parts, tuple) and parts:
            report["errors"] = [_report(part, depth + 1) for part in parts[:_GROUP] if isinstance(part, BaseException)]
    return report


def _message(failure: BaseException) -> str:
    try:
        lines = [str(failure)]
    except BaseException as broken:
        lines = [f"(its message could not be formatted: {type(broken).__name__})"]
    notes = getattr(failure, "__notes__", ())
    if isinstance(notes, (list, tuple)):
        lines += [note for note in notes if isinstance(note, str)]
    return "\n".join(lines)[:_TEXT]


def _frames(traceback: "TracebackType | None") -> "list[dict[str, Any]]":
    """Return the project's own frames or, if there are none, those of installed packages."""
    import linecache

    own: list[tuple[str, int]] = []
    others: list[tuple[str, int]] = []
    installed = installed_directories()
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(("<frozen ", _DIRECTORY + os.sep)):
            place = (file, traceback.tb_lineno or 0)
            (others if file.startswith(installed) else own).append(place)
        traceback = traceback.tb_next
    return [
        {"file": file, "line": line, "code": linecache.getline(file, line).strip()[:_TEXT]}
        for file, line in (own or others)[-_FRAMES:]
    ]


def installed_directories() -> "tuple[str, ...]":
    """Return the directories of the standard library and of installed packages, each with a trailing slash."""
    found = {os.path.dirname(os.__file__)}
    found.update(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    return tuple(os.path.join(path, "") for path in sorted(found))
