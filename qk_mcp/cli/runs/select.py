"""Chooses recorded runs: by a prefix of the id, project, age and result."""

import re
import time
from collections.abc import Sequence

from qk_mcp.errors import InvalidOption, UnknownRun
from qk_mcp.runs.output_files import outputs_directory
from qk_mcp.runs.record import RunRecord, read_runs, record_beside

__all__ = ["begins_since", "find_run", "has_failed", "is_of_project", "parse_age", "recorded_runs"]

_AGE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(s|m|min|h|d|w)")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
_NAMED = 10
"""Runs that are named if a prefix is ambiguous."""


def recorded_runs() -> Sequence[RunRecord]:
    """Return the user's recorded runs, oldest first. Raises OSError."""
    return read_runs(record_beside(outputs_directory())).records


def find_run(records: Sequence[RunRecord], prefix: str) -> RunRecord:
    """Return the run whose id begins with `prefix`. Raises UnknownRun unless it is the only one."""
    found = [record for record in records if prefix and record.run.startswith(prefix)]
    if len(found) != 1:
        near = [f"{record.run}  {record.project} {record.task}" for record in found[-_NAMED:]]
        if len(found) > _NAMED:
            near.append(f"and {len(found) - _NAMED} more")
        raise UnknownRun(prefix, near)
    return found[0]


def has_failed(record: RunRecord) -> bool:
    """Return whether a run did not do what it should. One that somebody has stopped or cancelled did not fail."""
    return record.state in ("timed_out", "lost") or (record.state == "ended" and record.exit_code != 0)


def is_of_project(record: RunRecord, name: str) -> bool:
    """Return whether a run is of the project `name`, or of a linked worktree of it."""
    return record.project == name or record.project.startswith(f"{name}@")


def begins_since(record: RunRecord, age: float) -> bool:
    """Return whether a run began in the last `age` seconds or has not ended."""
    return record.state == "running" or time.time() - record.time <= age


def parse_age(option: str, text: str) -> float:
    """Return the seconds of an age such as `90s`, `30m`, `2h`, `3d` or `1w`. Raises InvalidOption."""
    match = _AGE.fullmatch(text.strip().lower())
    if not match:
        raise InvalidOption(option, f"{text!r} is no age; write it like 30m, 2h or 3d")
    return float(match[1]) * _UNITS[match[2]]
