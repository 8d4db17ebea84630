"""The client's end of stdin and stdout: whole lines in, whole messages out, and silence once the client has left.

- A JSON escape can be half a character: JavaScript writes a lone surrogate when a program cuts an emoji in two. UTF-8
  cannot encode it, and the MCP SDK drops a request that contains one without an answer. U+FFFD takes its place.
- A descriptor may be non-blocking. The flag belongs to the open file: whoever shares it can set the flag, also later.
- Nothing is written after the end of stdin: clients built on the Python SDK 1.x have closed their reader by then and
  raise out of their transport.
"""

import io
import os
import re
import select
import sys
import threading

__all__ = ["open_client_streams"]

_CHUNK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_ESCAPE = re.compile(
    rb"\\(?: u[dD][89abAB][0-9a-fA-F]{2} \\u[dD][c-fC-F][0-9a-fA-F]{2} | (u[dD][89a-fA-F][0-9a-fA-F]{2}) | . )",
    re.VERBOSE | re.DOTALL,
)
"""A JSON escape: a surrogate pair, a lone surrogate (the group), or any other."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_REPLACEMENT = rb"\ufffd"


def open_client_streams(reading: int, writing: int) -> None:
    """Make `sys.stdin` and `sys.stdout` the streams of the client on two descriptors."""
    ended = threading.Event()
    sys.stdin = io.TextIOWrapper(io.BufferedReader(_Lines(reading, ended), _CHUNK), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Messages(writing, ended), _CHUNK), encoding="utf-8")


def _without_surrogates(line: bytes) -> bytes:
    line = line.removeprefix(_BOM)
    if not _HALF.search(line):
        return line
    return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape[1] else escape[0], line)


def _wait(descriptor: int, event: int) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    poll.poll()


class _Lines(io.RawIOBase):
    """Reads whole lines from a descriptor, and sets `ended` at the end of them."""

    def __init__(self, descriptor: int, ended: threading.Event) -> None:
        self._descriptor = descriptor
        self._ended = ended
        self._line = bytearray()
        self._ready = bytearray()

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            data = self._read()
            if not data:
                self._ended.set()
                if not self._line:
                    return 0
            *lines, rest = data.split(b"\n") if data else (b"", b"")
            for line in lines:
                self._line += line
                self._ready += _without_surrogates(bytes(self._line)) + (b"\n" if data else b"")
                self._line.clear()
            self._line += rest
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        del self._ready[:count]
        return count

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                _wait(self._descriptor, select.POLLIN)


class _Messages(io.RawIOBase):
    """Writes to a descriptor as long as the client listens."""

    def __init__(self, descriptor: int, ended: threading.Event) -> None:
        self._descriptor = descriptor
        self._ended = ended

    def writable(self) -> bool:
        return True

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        while not self._ended.is_set():
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                _wait(self._descriptor, select.POLLOUT)
        return len(data)
