"""Tasks of which only one run at a time may be under way in a root: a lock file for each root and task.

The lock is one of `flock(2)`, which ends when the last copy of its descriptor is closed. The server and the supervisor
of the run each have a copy, the processes of the task have none. So the lock outlives a server that is killed, until
the supervisor has killed the process tree, and a supervisor that is killed, until the server has done so.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import anyio

from qk_mcp.errors import LockUnusable
from qk_mcp.host.guest import Guest
from qk_mcp.projects.rules import matches_loosely
from qk_mcp.runs.gate import Gate, ResolvedTask
from qk_mcp.text import one_line

__all__ = ["TaskLock", "add_lock"]

_PAUSE = 0.05
"""Seconds between two attempts to get a lock."""
_SIZE = 2_000
"""Bytes of a lock file that are read."""


class TaskLock:
    """The lock of one run. Most runs need none and never acquire it."""

    def __init__(self, directory: Path, owner: str, pid: int) -> None:
        """Use the files in `directory`. `owner` says who runs the task, `pid` is a process that lives until the end."""
        self._directory = directory
        self._owner = owner
        self._pid = pid
        self._file = directory
        self._descriptor: int | None = None
        self.other = ""
        """The run that this one has waited for; empty if it had to wait for none."""
        self.waited = 0.0
        """Seconds of that wait."""
        self.is_waiting = False
        """Whether the wait has not ended, or ended without the lock."""

    async def acquire(self, root: tuple[int, int], task: str, on_wait: Callable[[str], object] | None = None) -> int:
        """Wait until no other run has the lock. Returns its descriptor.

        `root` is the device and inode of the project's root, `task` the first name of the task. Calls `on_wait` with
        the other run if there is one. Raises LockUnusable.
        """
        began = time.monotonic()
        self._file = self._directory / f"{sha256(json.dumps([*root, task]).encode()).hexdigest()[:32]}.lock"
        try:
            while (descriptor := self._try()) is None:
                if on_wait is not None and self.other and not self.is_waiting:
                    on_wait(self.other)
                self.is_waiting = True
                await anyio.sleep(_PAUSE)
                self.waited = time.monotonic() - began
        except OSError as error:
            raise LockUnusable(task, self._file, error) from None
        self.is_waiting = False
        self._descriptor = descriptor
        return descriptor

    def release(self, *, remove: bool) -> None:
        """Release the lock if it is acquired. With `remove`, no supervisor has a copy, and the file goes."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            if remove:
                self._file.unlink(missing_ok=True)
            os.close(descriptor)

    def _try(self) -> int | None:
        """Return the descriptor of the lock, or None if another run has it; then `other` says which. Raises OSError."""
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(self._file)):
                owner = {"by": self._owner, "pid": self._pid, "since": time.time()}
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(owner).encode() + b"\n", 0)
                return descriptor
        except FileNotFoundError:
            pass  # the other run has just ended and removed the file
        except BlockingIOError:
            self.other = _read_owner(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None


def add_lock(
    find_gate: Callable[[], Gate | None], lock: TaskLock, guest: Guest, on_wait: Callable[[str], object]
) -> Gate | None:
    """Return the gate that `find_gate` finds; if the project has exclusive tasks, one that also waits for their lock.

    If the run has to wait, it passes the gate again afterwards, because the rules may have changed.
    """
    gate, globs = find_gate(), guest.plan.project.rules.exclusive
    if not globs:
        return gate

    async def gate_with_lock(task: ResolvedTask) -> None:
        if gate is not None:
            await gate(task)
        if matches_loosely(globs, task.names):
            guest.share_lock(await lock.acquire(guest.plan.root, task.names[0], on_wait))
            if lock.waited and (again := find_gate()) is not None:
                await again(task)

    return gate_with_lock


def _read_owner(descriptor: int) -> str:
    """Return who has the lock, as the rest of a sentence, as far as the file tells."""
    try:
        owner = json.loads(os.pread(descriptor, _SIZE, 0))
        since = time.strftime("%H:%M:%S", time.localtime(owner["since"]))
        return one_line(f"{owner['by']} (process {owner['pid']}), since {since}", 300)
    except (ValueError, KeyError, TypeError, OverflowError):
        return "another run"  # which has not written its name yet
