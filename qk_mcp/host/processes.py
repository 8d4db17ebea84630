"""Finds and kills processes that are not children of this one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

__all__ = ["kill_process", "marked_processes", "process_trees", "with_descendants"]


def with_descendants(pid: int) -> "list[psutil.Process]":
    """Return a process and its descendants; nothing if it has ended."""
    import psutil

    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except (psutil.Error, OSError):
        return []  # OSError: there is no /proc


def process_trees(roots: Iterable[int]) -> "list[psutil.Process]":
    """Return the processes `roots` and their descendants, in one scan of all processes."""
    known: dict[int, psutil.Process] = {}
    children: dict[int, list[int]] = {}
    for process, parent in _with_parents():
        children.setdefault(parent, []).append(process.pid)
        known[process.pid] = process
    found: dict[int, psutil.Process] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop(0)
        if pid in known and pid not in found:
            found[pid] = known[pid]
            waiting += children.get(pid, ())
    return list(found.values())


def _with_parents() -> "list[tuple[psutil.Process, int]]":
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            found.append((process, process.ppid()))
        except psutil.Error:
            continue  # it has ended
    return found


def marked_processes(mark: str, besides: int) -> "list[psutil.Process]":
    """Return the processes that have the variable `mark` in their environment, without the process `besides`."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != besides and mark in process.environ():
                found.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended or belongs to another user
    return found


def kill_process(process: "psutil.Process") -> bool:
    """Kill a process. Returns whether it still runs."""
    import psutil

    try:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        process.kill()
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True  # another user's
    return True
