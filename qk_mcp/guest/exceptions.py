"""Tells of an exception in plain values: what it is, where the project's own code stood, and what caused it."""

import os
import sys
from types import TracebackType
from typing import Any

__all__ = ["explain", "installed_places"]

_TEXT = 2_000
"""Characters of a message."""
_FRAMES = 8
"""Frames of one exception: the innermost ones of the project."""
_CAUSES = 5
_GROUP = 5
"""Exceptions told of a group, and how deep groups are followed."""

_HERE = os.path.dirname(os.path.abspath(__file__))


def explain(failure: BaseException) -> "dict[str, Any]":
    """Return a report that JSON can hold.

    `type`, `message`, `frames` (each `file`, `line`, `code`) and `causes` (reports of the same form without causes
    of their own, nearest first) are always there; `errors` for a group; `missing` names the module that is not
    there, `exit_code` is that of a SystemExit.
    """
    report = _one(failure)
    causes: list[dict[str, Any]] = []
    seen = {id(failure)}
    cause = _cause(failure)
    while cause is not None and id(cause) not in seen and len(causes) < _CAUSES:
        seen.add(id(cause))
        causes.append(_one(cause))
        cause = _cause(cause)
    report["causes"] = causes
    return report


def _cause(failure: BaseException) -> "BaseException | None":
    if failure.__cause__ is not None:
        return failure.__cause__
    return None if failure.__suppress_context__ else failure.__context__


def _one(failure: BaseException, depth: int = 0) -> "dict[str, Any]":
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
        if isinstance(failure.name, str) and "." not in failure.name:  # with a dot, a package is there and lacks a part
            report["missing"] = failure.name
    elif isinstance(failure, SystemExit):
        status = failure.code
        report["exit_code"] = status if isinstance(status, int) else 0 if status is None else 1
    elif depth < _GROUP:
        parts = getattr(failure, "exceptions", ())  # of a group
        if isinstance(parts, tuple) and parts:
            report["errors"] = [_one(part, depth + 1) for part in parts[:_GROUP] if isinstance(part, BaseException)]
    return report


def _message(failure: BaseException) -> str:
    try:
        lines = [str(failure)]
    except BaseException as broken:
        lines = [f"(its text could not be made: {type(broken).__name__})"]
    notes = getattr(failure, "__notes__", ())
    if isinstance(notes, (list, tuple)):
        lines += [note for note in notes if isinstance(note, str)]
    return "\n".join(lines)[:_TEXT]


def _frames(traceback: "TracebackType | None") -> "list[dict[str, Any]]":
    """The project's own frames; where there are none, those of what is installed."""
    import linecache

    own: list[tuple[str, int]] = []
    others: list[tuple[str, int]] = []
    foreign = installed_places()
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(("<frozen ", _HERE + os.sep)):
            place = (file, traceback.tb_lineno or 0)
            (others if file.startswith(foreign) else own).append(place)
        traceback = traceback.tb_next
    return [
        {"file": file, "line": line, "code": linecache.getline(file, line).strip()[:_TEXT]}
        for file, line in (own or others)[-_FRAMES:]
    ]


def installed_places() -> "tuple[str, ...]":
    """The directories of this interpreter's own modules and of installed packages, each with a slash at its end."""
    found = {os.path.dirname(os.__file__)}
    found.update(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    return tuple(os.path.join(path, "") for path in sorted(found))
