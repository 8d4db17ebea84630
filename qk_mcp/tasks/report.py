"""What a guest has written about a project: read as far as it came.

The guest writes an object a line (`qk_mcp.guest.describe`). Where it hung or
died on the way, what it had come to know is told all the same, and what it
was at: one task or namespace must not hide the others.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["read"]

_LARGEST = 64 * 1024 * 1024
"""Bytes of a report; a larger one is not read."""


def read(file: Path, end: str) -> dict[str, Any] | None:
    """Return a guest's report as one mapping, or None when it came to know no task.

    `end` tells how the guest ended, as "took longer than 15 s": it is the error of what the guest was at. Nothing
    in the report is trusted to be of the right type.
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
        with suppress(ValueError, RecursionError):  # the last one may have been cut
            said = json.loads(line)
            if isinstance(said, dict):
                report["tasks"] += [said.pop("task")] if "task" in said else []
                report |= said
    if "trace" not in report:
        return _as_far_as_it_came(report, end) if _lists(report.get("names")) else None
    report["tasks"].sort(key=_name)
    return report


def _as_far_as_it_came(report: dict[str, Any], end: str) -> dict[str, Any]:
    at = report.get("at")
    at = at if isinstance(at, dict) else {}
    task, namespace = at.get("task"), at.get("namespace")
    if isinstance(namespace, str):
        reason = f"asking the namespace {namespace!r} for its tasks {end}"
        report["problems"] = [{"name": namespace, "error": {"message": f"asking it for its tasks {end}"}}]
    else:
        reason = f"describing the task {task!r} {end}"
    described = {_name(each) for each in report["tasks"]}
    for names in _lists(report["names"]):
        if names and names[0] not in described:
            message = f"describing it {end}" if names[0] == task else f"not described, for {reason}"
            report["tasks"].append({"name": names[0], "aliases": names[1:], "error": {"message": message}})
    report["tasks"].sort(key=_name)
    return report


def _name(task: object) -> str:
    return str(task.get("name")) if isinstance(task, Mapping) else ""


def _lists(value: object) -> list[list[Any]]:
    return [each for each in value if isinstance(each, list)] if isinstance(value, list) else []
