"""The file in which a guest describes a project: created, read, removed.

The guest writes one JSON object a line (`qk_mcp.guest.describe`). If it hangs or dies, the lines so far still count:
one task or namespace must not hide the others.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = [
    "check_writable",
    "create_report",
    "read_report",
    "remove_all_reports",
    "remove_report",
    "remove_stale_reports",
]

_LARGEST = 64 * 1024 * 1024
"""Bytes of a report; a larger one is not read."""
_PREFIX = "qk-mcp-report-"
_PROBE = 1 << 16
"""Bytes that any report may need."""
_STALE = 3600.0
"""Seconds after which the process that waited for a report must have been killed."""

_directories: set[Path] = set()
"""The directories of this process's reports."""


def create_report() -> Path:
    """Return the path of a new report, in a private directory of its own. Raises OSError."""
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _directories.add(directory)
    return directory / "report.jsonl"


def check_writable(file: Path) -> None:
    """Write to a report that is of no use any more. Raises OSError, for example if the disk is full."""
    with file.open("ab", buffering=0) as report:
        report.write(bytes(_PROBE))
        os.fsync(report)  # some file systems find out late


def remove_report(file: Path) -> None:
    """Remove a report and its directory."""
    shutil.rmtree(file.parent, ignore_errors=True)
    _directories.discard(file.parent)


def remove_all_reports() -> None:
    """Remove every report of this process, which is about to exit and ends its guests with it."""
    for directory in list(_directories):
        shutil.rmtree(directory, ignore_errors=True)


def remove_stale_reports() -> None:
    """Remove the reports that killed processes of this user left behind."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:  # a later start tries again
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > _STALE:
                    shutil.rmtree(entry.path, ignore_errors=True)


def read_report(file: Path, ending: str) -> dict[str, Any] | None:
    """Return a guest's report as one mapping, or None if the guest did not get as far as the tasks' names.

    `ending` is how the guest ended, for example "took longer than 15 s". It becomes the error of the task or namespace
    that the guest was describing. Values in the report may have any type.
    """
    try:
        size = file.stat().st_size
        if size > _LARGEST:
            return {"error": {"type": f"its description has {size:,} bytes, more than can be read"}, "trace": {}}
        lines = file.read_bytes().split(b"\n")
    except OSError:
        return None
    report: dict[str, Any] = {"tasks": []}
    for line in lines:
        with suppress(ValueError, RecursionError):  # the last line may be incomplete
            part = json.loads(line)
            if isinstance(part, dict):
                report["tasks"] += [part.pop("task")] if "task" in part else []
                report |= part
    if "trace" not in report:
        return _completed(report, ending) if _lists(report.get("names")) else None
    report["tasks"].sort(key=_name)
    return report


def _completed(report: dict[str, Any], ending: str) -> dict[str, Any]:
    """Return an unfinished report in which each task without a description has an error instead."""
    at = report.get("at")
    at = at if isinstance(at, dict) else {}
    task, namespace = at.get("task"), at.get("namespace")
    if isinstance(namespace, str):
        reason = f"listing the namespace {namespace!r} {ending}"
        report["problems"] = [{"name": namespace, "error": {"message": f"listing it {ending}"}}]
    else:
        reason = f"describing the task {task!r} {ending}"
    described = {_name(each) for each in report["tasks"]}
    for names in _lists(report["names"]):
        if names and names[0] not in described:
            message = f"describing it {ending}" if names[0] == task else f"not described because {reason}"
            report["tasks"].append({"name": names[0], "aliases": names[1:], "error": {"message": message}})
    report["tasks"].sort(key=_name)
    return report


def _name(task: object) -> str:
    return str(task.get("name")) if isinstance(task, Mapping) else ""


def _lists(value: object) -> list[list[Any]]:
    return [each for each in value if isinstance(each, list)] if isinstance(value, list) else []
