"""Finds lines that look like failures in the part of an output that an answer leaves out.

The search uses plain substrings on lower-case bytes: a case-insensitive regular expression takes ten times as long.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from qk_mcp.runs.terminal import redraw
from qk_mcp.text import printable, shorten

__all__ = ["Rescued", "rescue_lines"]

_WORDS = (
    b"error", b"fail", b"fatal", b"exception", b"traceback", b"panic", b"assert", b"not ok", b"undefined",
    b"unresolved", b"no such file", b"not found", b"denied", b"segmentation fault", b"core dumped", b"timed out",
    b"timeout", b"killed", b" err!", b"expected:", b"did not ", b"would reformat", b"make: *** ",
    b"\ne  ", "✗".encode(), "✘".encode(), "✖".encode(), "\N{MULTIPLICATION SIGN}".encode(),
)  # fmt: skip
_HARMLESS = (
    b" passed",
    b"... ok",
    b"--- pass",
    b" 0 error",
    b" 0 fail",
    b"failures: 0, errors: 0",
    b"no error",
    b"-werror",
)
"""Parts of lines that report a success, unless the line also has one of `_FAILED`."""
_FAILED = (b"failed", b"error:", b"exception:")
_LINES = 30
_WINDOW = 4 << 20
"""Bytes that are searched at the beginning of the file, and at its end."""
_HITS = 2_000
"""Lines of a window that are examined for each word."""
_LINE_BYTES = 2_000
_TEXT = 300
"""Characters of a rescued line."""
_DIGITS = re.compile(rb"(?:0x[0-9a-fA-F]+|\d)+")


@dataclass(slots=True)
class Rescued:
    """A line that looks like a failure. `count` counts the lines that differ from it only in digits, and itself."""

    number: int
    text: str
    count: int = 1


def rescue_lines(file: Path, first: int, last: int, *, newlines: int | None) -> list[Rescued]:
    """Return up to 30 lines between the lines `first` and `last` of `file`, in order.

    Searches the first and the last 4 MiB of the file. `newlines` is their number in the file, or None if it is
    unknown; then only the beginning is searched. An unreadable file yields nothing.
    """
    try:
        start, end = _windows(file)
    except OSError:
        return []  # it was removed; the answer still has the beginning and the end
    shapes: dict[bytes, Rescued | None] = {}
    _search(start, 1, first, last, shapes)
    if end and newlines is not None:
        _search(end, newlines - end.count(b"\n") + 1, first, last, shapes)
    found = sorted(filter(None, shapes.values()), key=lambda each: each.number)
    return found if len(found) <= _LINES else [*found[: _LINES // 2], *found[-_LINES // 2 :]]


def _windows(file: Path) -> tuple[bytes, bytes]:
    """Return the beginning of a file, and whole lines of its end. A file of at most two windows is all beginning."""
    with file.open("rb") as stream:
        start = stream.read(_WINDOW)
        size = stream.seek(0, 2)
        stream.seek(max(len(start), size - _WINDOW))
        if size <= 2 * _WINDOW:
            return start + stream.read(_WINDOW), b""
        return start, stream.read(_WINDOW).partition(b"\n")[2]


def _search(data: bytes, number: int, first: int, last: int, shapes: dict[bytes, Rescued | None]) -> None:
    """Add the lines of `data`, which begins with line `number`, to `shapes`."""
    lower = b"\n" + data.lower()
    starts = sorted({start for word in _WORDS for start in _line_starts(lower, word)})
    position = 0
    for start in starts:
        number += lower.count(b"\n", position + 1, start + 1)
        position = start
        if not first <= number <= last:
            continue
        end = data.find(b"\n", start)
        line = data[start : len(data) if end < 0 else end]
        shape = _DIGITS.sub(b"0", line[:_LINE_BYTES])
        if shape not in shapes:
            text = _readable(line)
            shapes[shape] = Rescued(number, text) if text else None
        elif (known := shapes[shape]) is not None:
            known.count += 1


def _line_starts(lower: bytes, word: bytes) -> list[int]:
    """Return where the lines with `word` begin, without the newline that `lower` has in front of the data."""
    starts: list[int] = []
    found = lower.find(word)
    while found >= 0 and len(starts) < _HITS:
        starts.append(lower.rfind(b"\n", 0, found + 1))
        end = lower.find(b"\n", found + 1)
        found = -1 if end < 0 else lower.find(word, end)
    return starts


def _readable(line: bytes) -> str:
    """Return the text of a line around its first word that looks like a failure; empty for a harmless line."""
    lower = line.lower()
    if any(part in lower for part in _HARMLESS) and not any(part in lower for part in _FAILED):
        return ""
    if len(line) > _LINE_BYTES:
        hits = [hit for word in _WORDS if (hit := lower.find(word)) >= 0]
        start = max(0, min(hits, default=0) - _TEXT // 3)
        line = (b"\xe2\x80\xa6" if start else b"") + line[start : start + _LINE_BYTES]
    return shorten(printable(redraw(line.decode("utf-8", "replace"))).strip("\n").rstrip(), _TEXT)
