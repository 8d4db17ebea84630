"""Writes to descriptors whose reader may pause, such as a pager or a stopped terminal, without blocking the event loop.

A thread writes: a terminal that accepts one byte may block a longer write, and a descriptor that is shared with the
user's shell must not become non-blocking.
"""

import asyncio
import os
import queue
import select
import threading
from collections.abc import Callable

from qk_mcp.errors import OutOfProcesses

__all__ = ["PausableWriter"]

_BUFFER = 1 << 20
"""Bytes that wait for the reader before `write` asks to pause."""
_PATIENCE = 0.5
"""Seconds without any progress after which a reader counts as paused."""


class PausableWriter:
    """Writes bytes in order, to one or more descriptors. Belongs to the running event loop."""

    def __init__(self, on_failure: Callable[[OSError], None]) -> None:
        """`on_failure` is called once; nothing is written after a failure. Raises OutOfProcesses."""
        self._loop = asyncio.get_running_loop()
        self._on_failure = on_failure
        self._pieces: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._waiting = 0
        self._written = 0
        self._room: asyncio.Future[None] | None = None
        self._failed = False
        try:
            threading.Thread(target=self._work, daemon=True).start()
        except RuntimeError as error:
            raise OutOfProcesses(str(error)) from None

    def write(self, descriptor: int, data: bytes) -> asyncio.Future[None] | None:
        """Take `data`. Returns what to wait for before the next call, if the reader is slow."""
        if self._failed:
            return None
        self._waiting += len(data)
        self._pieces.put((descriptor, data))
        if self._waiting > _BUFFER and self._room is None:
            self._room = self._loop.create_future()
        return self._room

    async def finish(self, *, wait: bool) -> None:
        """Wait until everything is written; without `wait`, only as long as the reader goes on reading."""
        seen, quiet = self._written, 0.0
        while self._waiting and not self._failed and (wait or quiet < _PATIENCE):
            pause = 0.001 if quiet < 0.01 else 0.01
            await asyncio.sleep(pause)
            quiet = quiet + pause if self._written == seen else 0.0
            seen = self._written

    def _work(self) -> None:
        while True:
            descriptor, data = self._pieces.get()
            try:
                _write_all(descriptor, data)
            except OSError as error:
                self._loop.call_soon_threadsafe(self._fail, error)
                return
            self._loop.call_soon_threadsafe(self._count, len(data))

    def _count(self, size: int) -> None:
        self._written += size
        self._waiting -= size
        if self._waiting <= _BUFFER // 2:
            self._make_room()

    def _fail(self, error: OSError) -> None:
        self._failed = True
        self._make_room()
        self._on_failure(error)

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set_result(None)
            self._room = None


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, even if another process has made the shared descriptor non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
