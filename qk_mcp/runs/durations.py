"""How long tasks usually take: the median of their last successful runs in the record."""

import stat
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from qk_mcp.runs.record import parse_runs

__all__ = ["Durations"]

_NOTHING: Mapping[tuple[str, str], float] = {}
_READ = 1 << 17
"""Bytes at the end of the record that are read: some hundred runs."""
_RUNS = 10
"""Runs of a task that count."""


class Durations:
    """Reads the record again only when it has changed."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._status: tuple[int, ...] = ()
        self._usual: Mapping[tuple[str, str], float] = _NOTHING

    def usual(self) -> Mapping[tuple[str, str], float]:
        """Return the usual seconds of tasks, by root and name. The same object as before if none has changed."""
        try:
            found = self._record.stat()
            status = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if status != self._status and stat.S_ISREG(found.st_mode):
                with self._record.open("rb") as file:
                    file.seek(max(0, found.st_size - _READ))
                    usual = _medians(file.read(_READ))
                self._status = status
                self._usual = self._usual if usual == self._usual else usual
        except OSError:
            return _NOTHING  # nothing has been recorded, or the record cannot be read
        return self._usual


def _medians(data: bytes) -> dict[tuple[str, str], float]:
    """Return the medians in lines of the record; the first one may be cut."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for record in parse_runs(data).records:
        if record.succeeded and record.seconds is not None:
            seconds.setdefault((record.root, record.task), []).append(record.seconds)
    return {task: float(f"{median(values[-_RUNS:]):.2g}") for task, values in seconds.items()}
