"""The client's end of stdin and stdout: whole lines in, whole messages out, and silence once the client has left.

- A JSON escape can be half a character: JavaScript writes a lone surrogate when a program cuts an emoji in two. UTF-8
  cannot encode it, and the MCP SDK drops a request that contains one without an answer. U+FFFD takes its place.
- A descriptor may be non-blocking. The flag belongs to the open file: whoever shares it can set the flag, also later.
- Nothing is written after the end of stdin: clients built on the Python SDK 1.x have closed their reader by then and
  raise out of their transport.
"""

import asyncio
import os
import queue
import re
import select
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from qk_mcp.errors import OutOfProcesses

__all__ = ["ClientLines", "ClientMessages", "open_client_streams"]

_CHUNK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_ESCAPE = re.compile(
    rb"\\(?: u[dD][89abAB][0-9a-fA-F]{2} \\u[dD][c-fC-F][0-9a-fA-F]{2} | (u[dD][89a-fA-F][0-9a-fA-F]{2}) | . )",
    re.VERBOSE | re.DOTALL,
)
"""A JSON escape: a surrogate pair, a lone surrogate (the group), or any other."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_REPLACEMENT = rb"\ufffd"


def open_client_streams(reading: int, writing: int) -> "tuple[ClientLines, ClientMessages]":
    """Return the streams of the client on two descriptors. Starts their threads; raises OutOfProcesses."""
    ended = threading.Event()
    try:
        return ClientLines(reading, ended), ClientMessages(writing, ended)
    except RuntimeError as error:
        raise OutOfProcesses(str(error)) from None


def _without_surrogates(line: bytes) -> bytes:
    line = line.removeprefix(_BOM)
    if not _HALF.search(line):
        return line
    return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape[1] else escape[0], line)


def _wait(descriptor: int, event: int) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    poll.poll()


class _Worker:
    """A thread that calls one function after the other.

    The event loop's own worker threads end when they are idle, and a new one cannot start when a task has used up the
    processes of the user.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    async def run[T](self, function: Callable[[], T]) -> T:
        """Call `function` in the thread."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((result, function))
        return await result

    def _work(self) -> None:
        while True:
            result, function = self._jobs.get()
            value, failure = None, None
            try:
                value = function()
            except BaseException as error:
                failure = error
            result.get_loop().call_soon_threadsafe(_settle, result, value, failure)


def _settle(result: "asyncio.Future[Any]", value: Any, failure: BaseException | None) -> None:
    if result.done():
        return  # the wait was cancelled
    if failure is None:
        result.set_result(value)
    else:
        result.set_exception(failure)


class ClientLines:
    """Iterates over the client's lines, and sets `ended` at the end of them."""

    def __init__(self, descriptor: int, ended: threading.Event) -> None:
        self._descriptor = descriptor
        self._ended = ended
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        self._worker = _Worker()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        if not self._lines:
            await self._worker.run(self._read_lines)
        if not self._lines:
            raise StopAsyncIteration
        return _without_surrogates(self._lines.popleft()).decode("utf-8", "replace")

    def _read_lines(self) -> None:
        while not self._lines:
            data = self._read()
            if not data:
                self._ended.set()
                if self._rest:
                    self._lines.append(bytes(self._rest))
                    self._rest.clear()
                return
            head, newline, tail = data.rpartition(b"\n")
            if newline:
                self._lines.extend(line + b"\n" for line in bytes(self._rest + head).split(b"\n"))
                self._rest.clear()
            self._rest += tail

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                _wait(self._descriptor, select.POLLIN)


class ClientMessages:
    """Writes to a descriptor as long as the client listens."""

    def __init__(self, descriptor: int, ended: threading.Event) -> None:
        self._descriptor = descriptor
        self._ended = ended
        self._waiting = ""
        self._worker = _Worker()

    async def write(self, text: str) -> None:
        """Take a text, which `flush` writes."""
        self._waiting += text

    async def flush(self) -> None:
        """Write what waits. Raises BrokenPipeError if the client has closed its end."""
        data, self._waiting = self._waiting.encode(), ""
        await self._worker.run(partial(self._write, data))

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._ended.is_set():
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                _wait(self._descriptor, select.POLLOUT)
