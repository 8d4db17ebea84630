"""Reads numbered lines of a file with output, in bounded memory whatever its size.

A line is what ends with a newline in the file, so that its number is the same for `sed` and for an editor. The file may
grow: readers are given the size and the number of newlines that count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from qk_mcp.runs.terminal import readable_line, unfinished_line
from qk_mcp.text import shorten

__all__ = [
    "LINE_LENGTH",
    "Batch",
    "Line",
    "Lines",
    "Page",
    "count_newlines",
    "last_lines",
    "line_batches",
    "lines_after",
]

LINE_LENGTH = 2_000
"""Characters of a line that are shown."""
_BLOCK = 1 << 18
"""Bytes that are read at once."""
_WINDOW = 1 << 20
"""Bytes of the end of a file in which the last lines are looked for."""
_LONG_LINE = 1 << 16
"""Bytes of a longer line that are used: half of them from its beginning and half from its end."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A file with output, and how much of it counts."""

    file: Path
    size: int
    newlines: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line as a terminal shows it, cut to 2,000 characters."""

    number: int
    text: str
    finished: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines of a file, in order."""

    lines: tuple[Line, ...]
    next: int
    """The number of the last finished line up to which they go: the next page is after it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive finished lines without their newlines."""

    lines: list[bytes]
    end: int
    """Where the next line begins, from the beginning of the first batch."""
    rest: bytes = b""
    """The unfinished line after the last batch."""


def count_newlines(file: Path) -> Lines:
    """Return the present size of a file. Raises OSError."""
    size = newlines = 0
    with file.open("rb") as stream:
        while block := stream.read(_WINDOW):
            size += len(block)
            newlines += block.count(b"\n")
    return Lines(file, size, newlines)


def last_lines(source: Lines, count: int) -> Page:
    """Return the last `count` lines, the unfinished one included. Raises OSError.

    Looks at the last MiB only, so there are fewer lines if they are long.
    """
    with source.file.open("rb") as stream:
        for window in (_BLOCK // 4, _WINDOW):
            start = max(0, source.size - window)
            data = _read(stream, start, source.size)
            if not start or data.count(b"\n") > count + 1:
                break
    number = source.newlines - data.count(b"\n") + 1
    *finished, rest = data.split(b"\n")
    if start and finished:  # the first line may have begun before the window
        finished, number = finished[1:], number + 1
    taken = min(len(finished), max(0, count - bool(rest)))
    number += len(finished) - taken
    lines = [Line(number + place, _shown(line)) for place, line in enumerate(finished[len(finished) - taken :])]
    return Page((*lines, *_unfinished(source, rest, wanted=count > 0)), source.newlines)


def lines_after(source: Lines, after: int, count: int) -> Page:
    """Return the first `count` lines after line number `after`, the unfinished one included. Raises OSError."""
    after = min(after, source.newlines)
    with source.file.open("rb") as stream:
        start = _end_of_line(stream, source, after)
        stream.seek(start)
        number, lines = after, list[Line]()
        for batch in line_batches(stream, source.size - start):
            for line in batch.lines[: count - len(lines)]:
                number += 1
                lines.append(Line(number, _shown(line)))
            lines += _unfinished(source, batch.rest, wanted=len(lines) < count)
            if len(lines) >= count:
                break
    return Page(tuple(lines), number)


def line_batches(stream: BinaryIO, size: int) -> Iterator[Batch]:
    """Yield the lines of the next `size` bytes in batches. Very long lines lose their middle."""
    rest, left_over, position = b"", 0, 0
    while position < size and (block := stream.read(min(size - position, _BLOCK))):
        position += len(block)
        finished, newline, end = (rest + block).rpartition(b"\n")
        if newline:
            rest, left_over = end, len(end)
            yield Batch(finished.split(b"\n"), position - left_over)
        else:
            rest, left_over = end, left_over + len(block)
        if len(rest) > 2 * _LONG_LINE:
            rest = _bounded(rest)
    yield Batch([], position - left_over, rest)


def _end_of_line(stream: BinaryIO, source: Lines, number: int) -> int:
    """Return the position after line `number`: counts from the nearer end of the file."""
    if number <= 0:
        return 0
    if number >= source.newlines:
        return _before_newlines(stream, source, 0)
    if number > source.newlines // 2:
        return _before_newlines(stream, source, source.newlines - number)
    position, left = 0, number
    while block := stream.read(_BLOCK):
        found = block.count(b"\n")
        if found >= left:
            return stream.tell() - len(block.split(b"\n", left)[-1])
        position, left = position + len(block), left - found
    return position


def _before_newlines(stream: BinaryIO, source: Lines, newlines: int) -> int:
    """Return the position after the newline that `newlines` others follow, 0 if there is none."""
    end = source.size
    while end > 0:
        start = max(0, end - _BLOCK)
        block = _read(stream, start, end)
        found = block.count(b"\n")
        if found > newlines:
            return start + len(block.rsplit(b"\n", newlines + 1)[0]) + 1
        newlines -= found
        end = start
    return 0


def _read(stream: BinaryIO, start: int, end: int) -> bytes:
    stream.seek(start)
    return stream.read(end - start)


def _shown(line: bytes) -> str:
    return shorten(readable_line(_bounded(line)), LINE_LENGTH)


def _unfinished(source: Lines, rest: bytes, *, wanted: bool) -> list[Line]:
    text = shorten(unfinished_line(_bounded(rest)), LINE_LENGTH) if wanted else ""
    return [Line(source.newlines + 1, text, finished=False)] if text else []


def _bounded(line: bytes) -> bytes:
    return line if len(line) <= _LONG_LINE else line[: _LONG_LINE // 2] + line[-_LONG_LINE // 2 :]
