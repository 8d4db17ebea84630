"""Live output: sends lines to the client as log messages, and the last line as progress.

A slow client never slows a task: lines that it has no time for are skipped, and a message counts them. Log messages
are deprecated in MCP 2026-07-28, where a client gets them only on request; progress works in every revision.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio

from qk_mcp.runs.streams import Observer, Stream
from qk_mcp.runs.terminal import redraw

__all__ = ["LiveClient", "send_live_output"]

_GATHER = 0.05
"""Seconds for which lines are collected into one message."""
_QUIET = 0.25
"""Seconds without output after which an unfinished line, such as a prompt, is sent."""
_TICK = 1.0
"""Seconds until the first progress message, and between two of them."""
_SETTLE = 0.05
"""Seconds between the last progress message and the answer: some clients fail if progress arrives after it."""
_FLUSH = 0.5
"""Seconds for the last messages after the task has ended."""
_PENDING = 1 << 18
"""Characters that wait for the client at most."""
_LAST_LINE = 200
"""Characters of a progress message."""


class LiveClient(Protocol):
    """The receiver of live output."""

    async def log(self, stream: Stream, text: str) -> None:
        """Send lines of a stream, without the last newline."""

    async def progress(self, seconds: float, message: str) -> None:
        """Report that the task has run for `seconds`."""


@asynccontextmanager
async def send_live_output(client: LiveClient) -> AsyncIterator[Observer]:
    """Yield an observer for `run_in_guest`, and send what it receives until the block ends."""
    feed = _Feed(client)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed.send)
        tasks.start_soon(feed.tick)
        yield feed.observe
        with anyio.move_on_after(_FLUSH):
            await feed.flush()
        tasks.cancel_scope.cancel()
    if (rest := feed.ticked + _SETTLE - time.monotonic()) > 0:
        await anyio.sleep(rest)


class _Feed:
    def __init__(self, client: LiveClient) -> None:
        self._client = client
        self._began = time.monotonic()
        self.ticked = 0.0
        self._pending: list[tuple[Stream, str]] = []
        self._size = 0
        self._skipped = 0
        self._open: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._shown: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._latest: Stream = "stdout"
        self._last_line = ""
        self._wake = anyio.Event()
        self._ending = anyio.Event()
        self._flushed = anyio.Event()

    def observe(self, stream: Stream, text: str, open_line: str) -> None:
        self._open[stream] = open_line
        self._latest = stream
        if text:
            self._last_line = text[-_LAST_LINE * 2 :].rstrip().rpartition("\n")[2] or self._last_line
            shown, self._shown[stream] = self._shown[stream], ""
            if shown and text.startswith(shown):
                text = text[len(shown) :]
            self._pending.append((stream, text))
            self._size += len(text)
            while self._size > _PENDING:
                _, dropped = self._pending.pop(0)
                self._size -= len(dropped)
                self._skipped += dropped.count("\n")
        self._wake.set()

    async def send(self) -> None:
        shown = time.monotonic()
        while True:
            await self._wake.wait()
            with anyio.move_on_after(_GATHER):
                await self._ending.wait()
            self._wake = anyio.Event()
            await self._send_pending()
            if self._ending.is_set() and not self._pending:
                self._flushed.set()
                return
            with anyio.move_on_after(_QUIET) as quiet:
                await self._wake.wait()
            if quiet.cancelled_caught or time.monotonic() - shown > _TICK:  # a redrawn bar is never quiet
                self._take_open_lines()
                await self._send_pending()
                shown = time.monotonic()

    async def flush(self) -> None:
        self._ending.set()
        self._wake.set()
        await self._flushed.wait()

    async def tick(self) -> None:
        while True:
            await anyio.sleep(_TICK)
            self.ticked = time.monotonic()
            seconds = self.ticked - self._began
            last = redraw(self._open[self._latest])[-_LAST_LINE:] or self._last_line
            await self._client.progress(seconds, last or f"no output yet after {seconds:.0f} s")
            self.ticked = time.monotonic()

    async def _send_pending(self) -> None:
        pending, self._pending, self._size = self._pending, [], 0
        if self._skipped:
            stream = pending[0][0] if pending else "stdout"
            skipped, self._skipped = self._skipped, 0
            await self._client.log(stream, f"[… {skipped:,} lines are not shown live …]")
        batch: list[str] = []
        for position, (stream, text) in enumerate(pending):
            batch.append(text)
            if position + 1 == len(pending) or pending[position + 1][0] != stream:
                joined = "".join(batch).removesuffix("\n")
                batch = []
                if joined:
                    await self._client.log(stream, joined)

    def _take_open_lines(self) -> None:
        for stream, line in self._open.items():
            line = redraw(line)
            if line != self._shown[stream]:
                shown, self._shown[stream] = self._shown[stream], line
                new = line.removeprefix(shown)
                self._last_line = line[-_LAST_LINE:]
                self._pending.append((stream, new))
                self._size += len(new)
