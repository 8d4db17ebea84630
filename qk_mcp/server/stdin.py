"""Reads the client's messages and replaces lone surrogates in them.

A JSON escape can be half a character: JavaScript writes a lone surrogate when a program cuts an emoji in two. UTF-8
cannot encode it, and the MCP SDK drops a request that contains one without an answer.
"""

import io
import os
import re
import sys

__all__ = ["replace_stdin"]

_CHUNK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_ESCAPE = re.compile(
    rb"\\(?: u[dD][89abAB][0-9a-fA-F]{2} \\u[dD][c-fC-F][0-9a-fA-F]{2} | (u[dD][89a-fA-F][0-9a-fA-F]{2}) | . )",
    re.VERBOSE | re.DOTALL,
)
"""A JSON escape: a surrogate pair, a lone surrogate (the group), or any other."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_REPLACEMENT = rb"\ufffd"


def replace_stdin() -> None:
    """Replace `sys.stdin` by a reader of whole lines with U+FFFD in place of every lone surrogate."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(_Lines(0), _CHUNK), encoding="utf-8")


def _without_surrogates(line: bytes) -> bytes:
    line = line.removeprefix(_BOM)
    if not _HALF.search(line):
        return line
    return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape[1] else escape[0], line)


class _Lines(io.RawIOBase):
    """Reads whole lines from a descriptor."""

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
                self._ready += _without_surrogates(bytes(self._line)) + (b"\n" if data else b"")
                self._line.clear()
            self._line += rest
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        del self._ready[:count]
        return count
