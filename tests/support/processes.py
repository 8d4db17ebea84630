"""Examines processes: which run, which are left, which descriptors they hold."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from tests.support.environment import MARK

__all__ = ["alive", "descriptors", "end", "gone", "marked", "new_children", "read_pid", "tree", "until", "zombies"]


def until[T](ask: Callable[[], T], within: float = 60.0, what: str = "") -> T:
    """Call `ask` until its answer is true, and return that; fail after `within` seconds."""
    deadline = time.monotonic() + within
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {what or ask}")
        time.sleep(0.01)
    return answer


def alive(pid: int) -> bool:
    """Return whether `pid` runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def gone(*pids: int, within: float = 60.0) -> None:
    """Wait until none of `pids` runs."""
    until(lambda: not any(map(alive, pids)), within, f"processes {pids} to end")


def read_pid(file: Path, within: float = 60.0) -> int:
    """Wait for the process id, ended by a newline, that a task writes into `file`, and return it."""
    text = until(lambda: file.exists() and file.read_text().endswith("\n") and file.read_text(), within, str(file))
    return int(text)


def tree(pid: int) -> list[int]:
    """Return the descendants of `pid`."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def zombies(pid: int) -> list[int]:
    """Return the descendants of `pid` that have ended but were not reaped."""
    return [child for child in tree(pid) if psutil.pid_exists(child) and not alive(child)]


def descriptors(pid: int) -> dict[int, str]:
    """Return the open descriptors of `pid` and what each refers to (Linux)."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[int(entry.name)] = os.readlink(entry)
        except FileNotFoundError:  # closed meanwhile
            continue
    return found


def marked(mark: str) -> list[int]:
    """Return the running processes with `mark` in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and alive(process.pid):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found


def end(pids: Iterable[int]) -> None:
    """Kill processes that a failed test left behind."""
    for pid in pids:
        try:
            psutil.Process(pid).kill()
        except psutil.NoSuchProcess:
            continue


def new_children(before: set[psutil.Process]) -> set[psutil.Process]:
    """Return the children of this process that are not in `before`; a server that many tests share may be one."""
    return set(psutil.Process().children()) - before
