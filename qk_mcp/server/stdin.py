"""What a client sends, before it is parsed: one kind of mistake in it is mended.

JSON can write half a character (a lone surrogate, as a program leaves one that
cuts an emoji in two), and JavaScript does; text in UTF-8 cannot hold it. The MCP
SDK drops a request with one, and nobody would ever answer it.
"""

import io
import os
import re
import sys

__all__ = ["mend_stdin"]

_CHUNK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_ESCAPE = re.compile(
    rb"\\(?: u[dD][89abAB][0-9a-fA-F]{2} \\u[dD][c-fC-F][0-9a-fA-F]{2} | (u[dD][89a-fA-F][0-9a-fA-F]{2}) | . )",
    re.VERBOSE | re.DOTALL,
)
"""An escape of JSON: a whole pair, half of one (the group), or any other."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_REPLACEMENT = rb"\ufffd"


def mend_stdin() -> None:
    """Have `sys.stdin` read what the client sends, line by line, with U+FFFD in place of every lone surrogate."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(_Lines(0), _CHUNK), encoding="utf-8")


def _mended(line: bytes) -> bytes:
    line = line.removeprefix(_BOM)
    if not _HALF.search(line):
        return line
    return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape[1] else escape[0], line)


class _Lines(io.RawIOBase):
    """Reads a descriptor; what it yields ends with a line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._line = bytearray()
        self._ready = bytearray()

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            data = os.read(self._descriptor, _CHUNK)
            if not data and not self._line:
                return 0
            *lines, rest = data.split(b"\n") if data else (b"", b"")
            for line in lines:
                self._line += line
                self._ready += _mended(bytes(self._line)) + (b"\n" if data else b"")
                self._line.clear()
            self._line += rest
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        del self._ready[:count]
        return count
