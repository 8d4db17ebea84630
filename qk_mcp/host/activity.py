"""Tells whether a process tree is idle, from what Linux knows of its threads (/proc)."""

import os
from collections.abc import Mapping

__all__ = ["tree_activity"]

_MOST = 200
"""Threads that are looked at."""
_SLEEPING = b"S"


def tree_activity(root: int) -> Mapping[str, int] | None:
    """Return the nanoseconds that each thread of the descendants of `root` has spent on a processor; all sleep.

    Two equal answers some milliseconds apart mean that nothing of the tree ran in between. None if a thread does not
    sleep, or if that cannot be known: not on Linux, or the tree is large or changes.
    """
    found: dict[str, int] = {}
    waiting = _children(root, root)
    while waiting:
        pid = waiting.pop()
        try:
            with os.scandir(f"/proc/{pid}/task") as entries:
                threads = [entry.name for entry in entries]
            if len(found) + len(threads) > _MOST:
                return None
            for thread in threads:
                if _read(pid, thread, "stat").rpartition(b") ")[2][:1] != _SLEEPING:
                    return None
                found[thread] = int(_read(pid, thread, "schedstat").split()[0])
                waiting += _children(pid, thread)
        except (OSError, ValueError, IndexError):
            return None
    return found or None


def _children(pid: int | str, thread: int | str) -> list[str]:
    try:
        return _read(pid, thread, "children").decode().split()
    except OSError:
        return []


def _read(pid: int | str, thread: int | str, name: str) -> bytes:
    with open(f"/proc/{pid}/task/{thread}/{name}", "rb") as stream:
        return stream.read()
