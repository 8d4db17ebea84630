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
from qk_mcp.text import one_line

__all__ = ["TaskLock", "lock_file"]

_PAUSE = 0.05
"""Seconds between two attempts to get a lock."""
_SIZE = 2_000
"""Bytes of a lock file that are read."""


def lock_file(directory: Path, root: tuple[int, int], task: str) -> Path:
    """Return the lock file in `directory` for a task by its first name; `root` is the device and inode of the root."""
    return directory / f"{sha256(json.dumps([*root, task]).encode()).hexdigest()[:32]}.lock"


class TaskLock:
    """The lock of one run, to get and to release once."""

    def __init__(self, file: Path, task: str, owner: str, pid: int) -> None:
        """Name the task, who runs it, and the process that lives until the end of the run."""
        self._file = file
        self._task = task
        self._owner = owner
        self._pid = pid
        self._descriptor: int | None = None
        self.other = ""
        """The run that has or had the lock; empty as long as this one has not waited."""
        self.on_wait: Callable[[str], object] | None = None
        """Called with that other run when this one begins to wait."""
        self.waited = 0.0
        """Seconds that this run has waited for the lock."""

    @property
    def is_held(self) -> bool:
        """Whether this run has the lock."""
        return self._descriptor is not None

    async def acquire(self) -> int:
        """Wait until the lock is free. Returns its descriptor. Raises `LockUnusable`."""
        began = time.monotonic()
        try:
            descriptor = self._open()
        except OSError as error:
            raise LockUnusable(self._task, self._file, error) from None
        try:
            while not _try_lock(descriptor):
                new, self.other = not self.other, _read_owner(descriptor)
                if new and self.on_wait is not None:
                    self.on_wait(self.other)
                await anyio.sleep(_PAUSE)
                self.waited = time.monotonic() - began
            _write_owner(descriptor, {"by": self._owner, "pid": self._pid, "task": self._task, "since": time.time()})
        except OSError as error:
            os.close(descriptor)
            raise LockUnusable(self._task, self._file, error) from None
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return descriptor

    def release(self) -> None:
        """Release the lock, unless the run's supervisor still lives. Does nothing if the lock is not held."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _open(self) -> int:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_owner(descriptor: int, owner: dict[str, object]) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(owner).encode() + b"\n", 0)


def _read_owner(descriptor: int) -> str:
    """Return who has the lock, as the rest of a sentence, as far as the file tells."""
    try:
        owner = json.loads(os.pread(descriptor, _SIZE, 0))
        since = time.strftime("%H:%M:%S", time.localtime(owner["since"]))
        return one_line(f"{owner['by']} (process {owner['pid']}), since {since}", 300)
    except (ValueError, KeyError, TypeError, OverflowError):
        return "another run"  # which has not written its name yet
