"""Stops a guest's whole process tree, and lists the processes that an ended task left running.

The stop sequence is SIGINT, SIGTERM, SIGKILL. SIGINT comes first because quickie runs
cleanup tasks on it and not on SIGTERM. On Linux, the supervisor adopts orphans, so
it knows the whole tree. On other systems, and after its death, the tree consists of the
descendants of the task that the server sees and of all processes that inherited an
environment variable whose name is unique to the guest; on Linux also of the guest's
control group, where it has one.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from qk_mcp.guest.cgroup import kill_cgroup, remove_cgroup
from qk_mcp.host.processes import kill_process, marked_processes, process_trees, with_descendants
from qk_mcp.redact import redact_text

if TYPE_CHECKING:
    import psutil

    from qk_mcp.host.guest import Guest

__all__ = ["GRACE", "LeftRunning", "left_running", "stop_guest"]

log = logging.getLogger(__name__)

GRACE = 0.5
"""Seconds between SIGINT and SIGTERM unless the project has its own, and between SIGTERM and SIGKILL."""
_KILL_LIMIT = 1.5
"""Seconds to wait for the end of killed processes; the supervisor gives up after one."""
_KILL_PAUSE = 0.01
"""Seconds between looking for processes to kill."""
_EXIT_DELAY = 0.05
"""Seconds in which a child may still end, or detach from its parent, before it counts as left running."""
_LIST_LIMIT = 1.0
"""Seconds to wait for the supervisor's list of what is left."""
_LISTED = 20
"""Processes left running that are listed."""
_COMMAND_LENGTH = 200
"""Characters of a command line."""


@dataclass(frozen=True, slots=True)
class LeftRunning:
    """A process that outlives its task, with its shortened command line."""

    pid: int
    command: str


async def stop_guest(guest: "Guest") -> tuple[LeftRunning, ...]:
    """Stop the whole tree of `guest` and return what cannot be killed; the caller must shield this from cancellation.

    Takes at most about two seconds, or one and a half more than the project's `grace`. A server whose client has
    disconnected does not wait for the end: it exits, and the supervisor kills the tree.
    """
    grace = GRACE if guest.plan.project.grace is None else guest.plan.project.grace
    found = _Found(guest)
    if not guest.adopting or guest.gone.is_set():
        found.note_descendants()
    guest.announce_stop()
    steps = ((signal.SIGINT, grace), (signal.SIGTERM, GRACE)) if guest.began else ()  # without a task, no clean-up
    for number, seconds in steps:
        if not guest.alone.is_set():
            _signal_group(guest, number)
            await _within(guest.alone, seconds)
    guest.end_tree()
    await _within(guest.alone, _KILL_LIMIT)
    left = process_trees(guest.left) if guest.left else []
    if not guest.adopting or guest.exit_code is None or (left and await _supervisor_was_killed(guest)):
        found.note(left)
        left = await found.kill()
    survivors = _named(guest, left)
    for survivor in survivors:
        log.warning("project=%s cannot kill %d %s", guest.plan.project.alias, survivor.pid, survivor.command)
    return survivors


async def _supervisor_was_killed(guest: "Guest") -> bool:
    """Return whether the supervisor ended before it could kill what it had found."""
    for _ in range(50):  # it closes its socket a moment before it can be reaped
        if guest.process.poll() is not None:
            break
        await asyncio.sleep(0.001)
    return bool(guest.process.poll())


class _Found:
    """The processes of a guest whose supervisor cannot find or kill them all."""

    def __init__(self, guest: "Guest") -> None:
        self._guest = guest
        self._noted: set[psutil.Process] = set()

    def note(self, processes: "Iterable[psutil.Process]") -> None:
        """Note processes that the supervisor had found."""
        self._noted.update(processes)

    def note_descendants(self) -> None:
        """Note the descendants, which may lose their parents later."""
        for pid in (self._guest.process.pid, self._guest.leader):
            if pid is not None:
                self._noted.update(with_descendants(pid))

    async def kill(self) -> "list[psutil.Process]":
        """Kill all until none is found, for at most `_KILL_LIMIT` seconds. Returns those that live."""
        guest = self._guest
        deadline = anyio.current_time() + _KILL_LIMIT
        while True:
            self.note_descendants()
            if guest.cgroup is not None:
                kill_cgroup(guest.cgroup)
            _signal_group(guest, signal.SIGKILL)
            self._noted.update(marked_processes(guest.mark, guest.process.pid))
            alive = [each for each in self._noted if each.pid != guest.process.pid and kill_process(each)]
            if not alive or anyio.current_time() > deadline:
                break
            await anyio.sleep(_KILL_PAUSE)
        if guest.cgroup is not None:
            remove_cgroup(guest.cgroup)
        return alive


async def left_running(guest: "Guest") -> tuple[tuple[LeftRunning, ...], int]:
    """Return processes that outlive the task of `guest`, which has ended by itself, and the number of the others.

    If something is alive when the task ends, it gets a moment to end or to detach from its parent.
    """
    await _within(guest.alone, _EXIT_DELAY)
    if not guest.adopting:
        return _listed(guest, marked_processes(guest.mark, guest.process.pid))
    with anyio.move_on_after(_LIST_LIMIT):
        while not guest.alone.is_set():
            await guest.list_left()
            left, others = _listed(guest, process_trees(guest.left))
            if left:
                return left, others
            # What was listed has ended, and what it had started is not in the list yet.
    return (), 0


def _listed(guest: "Guest", processes: "Sequence[psutil.Process]") -> tuple[tuple[LeftRunning, ...], int]:
    return _named(guest, processes[:_LISTED]), len(processes[_LISTED:])


def _named(guest: "Guest", processes: "Iterable[psutil.Process]") -> tuple[LeftRunning, ...]:
    return tuple(LeftRunning(each.pid, command) for each in processes if (command := _command(guest, each)) is not None)


async def _within(event: asyncio.Event, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await event.wait()


def _signal_group(guest: "Guest", number: signal.Signals) -> None:
    if guest.leader is None:
        return
    try:
        os.killpg(guest.leader, number)
        os.killpg(guest.leader, signal.SIGCONT)  # a stopped process handles no other signal
    except (ProcessLookupError, PermissionError):
        return  # no process is left in it (EPERM on macOS)


def _command(guest: "Guest", process: "psutil.Process") -> str | None:
    """Return the redacted command line of a process, or None if it has ended."""
    import psutil

    from qk_mcp.text import one_line

    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        command = " ".join(process.cmdline()) or process.name()
        return one_line(redact_text(command, guest.plan.secrets, guest.redacted), _COMMAND_LENGTH)
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return "(another user's process)"
