"""The three streams of a run: reads its output as it comes, and feeds its standard input."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from typing import Literal

from qk_mcp.redact import Redactor
from qk_mcp.runs.output import Capture, Captured

__all__ = ["Observer", "Sink", "StdinFeeder", "Stream", "StreamReader"]

type Stream = Literal["stdout", "stderr"]
type Observer = Callable[[Stream, str, str], None]
"""Receives a stream's name, the text of the lines that are now complete, and the unfinished line after them."""
type Sink = Callable[[Stream, bytes], asyncio.Future[None] | None]
"""Receives the bytes of a stream as they come. With a sink, nothing is captured. Nothing is read before the future that
it may return is done, so that the task has to wait."""

_CHUNK = 1 << 16


class StreamReader:
    """Reads one output stream in the running event loop, into a capture or a sink.

    What the capture, its file and the observer get has passed through the redactor; a sink gets the original bytes.
    """

    def __init__(
        self,
        descriptor: int,
        stream: Stream,
        capture: Capture,
        redactor: Redactor | None,
        observe: Observer | None,
        sink: Sink | None,
    ) -> None:
        self._descriptor = descriptor
        self._stream: Stream = stream
        self._capture = capture
        self._redactor = redactor
        self._observe = observe
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._stopped = False
        self._loop.add_reader(descriptor, self._read, _CHUNK)

    def stop(self) -> int | None:
        """Read what the pipe contains now, and stop. Returns the descriptor if another process can still write to it.

        Otherwise the descriptor is closed.
        """
        self._stopped = True
        waiting = 0 if self._ended else _bytes_waiting(self._descriptor)
        while waiting > 0 and not self._ended:
            waiting -= self._read(min(waiting, _CHUNK))
        if not self._ended:
            self._read(1)  # meets the end of file, unless another process holds the other end
        if self._ended:
            return None
        self._loop.remove_reader(self._descriptor)
        return self._descriptor

    def finish(self) -> Captured:
        """Return the captured stream, after `stop`."""
        if self._redactor is not None:
            self._take(self._redactor.finish())
        text, captured = self._capture.finish()
        if self._observe is not None:
            self._observe(self._stream, text, "")
        return captured

    def _read(self, count: int) -> int:
        try:
            data = os.read(self._descriptor, count)
        except BlockingIOError:
            return 0
        if not data:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._ended = True
        elif self._sink is not None:
            room = self._sink(self._stream, data)
            if room is not None and not self._stopped:
                self._loop.remove_reader(self._descriptor)
                room.add_done_callback(self._resume)
        else:
            self._take(data if self._redactor is None else self._redactor.feed(data))
        return len(data)

    def _resume(self, _: asyncio.Future[None]) -> None:
        if not self._ended and not self._stopped:
            self._loop.add_reader(self._descriptor, self._read, _CHUNK)

    def _take(self, data: bytes) -> None:
        text = self._capture.feed(data)
        if self._observe is not None:
            self._observe(self._stream, text, self._capture.open_line)


class StdinFeeder:
    """Writes a text to a task's standard input as fast as the task reads it, then closes the descriptor."""

    def __init__(self, descriptor: int, text: str | None) -> None:
        self._descriptor = descriptor
        self._rest = memoryview((text or "").encode("utf-8", "surrogatepass"))
        self._loop = asyncio.get_running_loop()
        self._open = True
        if self._rest:
            self._loop.add_writer(descriptor, self._write)
        else:
            self.close()

    def close(self) -> None:
        """Close the descriptor, even if the task has not read everything."""
        if self._open:
            self._open = False
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.close()  # the task has closed its end
            return
        if not self._rest:
            self.close()


def _bytes_waiting(descriptor: int) -> int:
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0))
    count: int = struct.unpack("i", answer)[0]
    return count
