"""Memory of processes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

__all__ = ["Peak", "family", "peak", "resident"]

_MEGA = 1e6
_PERIOD = 0.01


@dataclass(slots=True)
class Peak:
    """The highest value so far, in megabytes."""

    seen: float = 0.0


def resident(pid: int) -> float:
    """Return the resident memory of one process, in megabytes."""
    return float(psutil.Process(pid).memory_info().rss) / _MEGA


def family(pid: int) -> tuple[float, int]:
    """Return the memory of all descendants of `pid`, in megabytes, and their number.

    Shared memory counts once (PSS) on Linux, and not at all (USS) elsewhere.
    """
    total, count = 0.0, 0
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            full = process.memory_full_info()
            total += getattr(full, "pss", full.uss) / _MEGA
            count += 1
    return total, count


@contextmanager
def peak(pid: int) -> Iterator[Peak]:
    """Watch the resident memory of a process for as long as the block lasts."""
    found = Peak(resident(pid))
    over = threading.Event()

    def watch() -> None:
        with suppress(psutil.NoSuchProcess):
            while not over.wait(_PERIOD):
                found.seen = max(found.seen, resident(pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
