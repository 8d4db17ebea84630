"""Stops the process tree of a guest, whatever it did to escape, and names what a task left behind.

INT goes first, for quickie runs cleanup tasks on it and not on TERM; then TERM;
then everything is killed. Where the supervisor adopts orphans (Linux), it knows
the whole tree. Elsewhere the tree is found by the descendants seen beforehand
and by a variable in the environment whose name is unique to the guest.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    import psutil

    from qk_mcp.host.guest import Guest

__all__ = ["GRACE", "LeftRunning", "drain", "left_running", "stop"]

GRACE = 0.5
"""Seconds between INT and TERM, and between TERM and the kill."""
_KILL_LIMIT = 1.0
"""Seconds to wait for the end of what was killed."""
_FAREWELL = 0.05
"""Seconds that a child which is just ending has before it counts as left running."""
_NAME_LIMIT = 200


@dataclass(frozen=True, slots=True)
class LeftRunning:
    """A process that outlives its task; `command` is its command line, shortened."""

    pid: int
    command: str


async def stop(guest: "Guest") -> None:
    """End the whole tree of `guest`, in at most about two seconds. To be shielded from cancellation."""
    noted = [] if guest.adopting or guest.alone.is_set() else _descendants(guest.process.pid)
    guest.announce_stop()
    for number in (signal.SIGINT, signal.SIGTERM) if guest.began else ():  # else there is nothing yet to be tidied up
        if not guest.alone.is_set():
            _signal_group(guest, number)
            await _within(guest.alone, GRACE)
    guest.end_tree()
    await _within(guest.alone, _KILL_LIMIT)
    if not guest.adopting or guest.exit_code is None:  # the supervisor could not see everything, or was killed itself
        _signal_group(guest, signal.SIGKILL)
        _kill([*noted, *_marked(guest)])


async def left_running(guest: "Guest") -> tuple[LeftRunning, ...]:
    """What outlives the task of `guest`, which has ended by itself."""
    await _within(guest.alone, _FAREWELL)
    if guest.adopting and guest.alone.is_set():
        return ()
    members = [each for pid in guest.left for each in _with_descendants(pid)] if guest.adopting else _marked(guest)
    return tuple(LeftRunning(each.pid, name) for each in members if (name := _command(each)) is not None)


def drain(pipes: Sequence[int], *, keep: bool) -> None:
    """Close our ends of pipes to which others may still write.

    With `keep`, processes of their own read and drop what is written from now on,
    until nobody can write any more: a child that a task left behind must not die
    of a broken pipe, not even once this process has ended.
    """
    for pipe in pipes if keep else ():
        os.set_blocking(pipe, True)
        subprocess.run(
            ["/bin/sh", "-c", "exec 3<&0; cat <&3 >/dev/null &"],  # a shell gives what it leaves behind another stdin
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
            check=False,
        )
    for pipe in pipes:
        os.close(pipe)


async def _within(event: asyncio.Event, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await event.wait()


def _signal_group(guest: "Guest", number: signal.Signals) -> None:
    if guest.leader is None:
        return
    try:
        os.killpg(guest.leader, number)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left in it (macOS says so with EPERM)


def _with_descendants(pid: int) -> "list[psutil.Process]":
    import psutil

    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _descendants(pid: int) -> "list[psutil.Process]":
    return _with_descendants(pid)[1:]


def _marked(guest: "Guest") -> "list[psutil.Process]":
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != guest.process.pid and guest.mark in process.environ():
                found.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or is another user's
    return found


def _kill(processes: "Iterable[psutil.Process]") -> None:
    import psutil

    for process in processes:
        try:
            process.kill()
        except psutil.Error:
            continue  # it has ended


def _command(process: "psutil.Process") -> str | None:
    """The command line of a process that lives, else None."""
    import psutil

    from qk_mcp.text import one_line

    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return one_line(" ".join(process.cmdline()) or process.name(), _NAME_LIMIT)
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return "(another user's)"
