"""Cuts the output of a run to the bytes that an answer may take.

Clients replace or cut answers that are too long for them, so an answer has a limit in bytes of JSON. Both streams
share it, and a stream that needs less than half lends the rest to the other.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from qk_mcp.errors import QkMcpError
from qk_mcp.host.threads import call_in_thread
from qk_mcp.runs.output import Captured
from qk_mcp.runs.rescue import Rescued, rescue_lines
from qk_mcp.text import encoded_size

__all__ = ["MAX_OUTPUT", "Excerpt", "cut_in_thread", "cut_output", "fail_with_output", "json_size"]

MAX_OUTPUT = 40_000
"""Bytes of JSON of an answer by default."""
_HEADERS = 300
"""Bytes of the lines around the output in an error, without paths."""
_ENTRY = 400
"""Bytes of an entry of `truncated` and of the line that marks a gap, without the paths in them."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A stream in an answer."""

    text: str
    """The text, or its beginning and its end with a line in between that says how much was left out."""
    complete: bool
    characters: int
    """Characters of the complete text."""
    size: int
    """Bytes that the task wrote."""
    file: Path | None = None
    """The file with the complete output, if `complete` is false and the file could be written."""
    file_error: str = ""
    """Why the file is missing or incomplete."""

    def truncated(self) -> dict[str, Any]:
        """Return the entry for `truncated` in an answer."""
        file = None if self.file is None else str(self.file)
        entry: dict[str, Any] = {"characters": self.characters, "bytes": self.size, "file": file}
        return entry | ({"error": self.file_error} if self.file_error else {})


async def cut_in_thread(stdout: Captured, stderr: Captured, room: int, *, failed: bool) -> tuple[Excerpt, Excerpt]:
    """Do what `cut_output` does for an answer that has `room` bytes for both streams and the lines around them.

    Uses a thread if files must be searched, which can take half a second.
    """
    cut = partial(cut_output, stdout, stderr, max(0, room - _HEADERS), failed=failed)
    if failed and None in (stdout.whole, stderr.whole):
        with anyio.CancelScope(shield=True):
            return await call_in_thread(cut)
    return cut()


async def fail_with_output(
    failure: Callable[[str], QkMcpError], stdout: Captured, stderr: Captured, max_output: int
) -> QkMcpError:
    """Return `failure(text)`, where the text is the output so far, cut so that the message has `max_output` bytes."""
    room = max_output - json_size(str(failure("")))
    texts = zip(("stdout", "stderr"), await cut_in_thread(stdout, stderr, room, failed=True), strict=True)
    parts = [f"--- {name} so far ---\n{excerpt.text.rstrip()}" for name, excerpt in texts if excerpt.text]
    return failure("\n".join(parts) or "It had printed nothing.")


def cut_output(stdout: Captured, stderr: Captured, limit: int, *, failed: bool) -> tuple[Excerpt, Excerpt]:
    """Return both streams in `limit` bytes of JSON, with the entries of `truncated`.

    The file of a stream that is cut is kept. If the run has `failed`, the gap contains lines that look like failures.
    """
    streams = (stdout, stderr)
    sizes = [limit + 1 if (text := stream.whole) is None else json_size(text) for stream in streams]
    if sum(sizes) > limit:
        limit = max(0, limit - sum(_ENTRY + 2 * json_size(str(stream.file.path)) for stream in streams))
    rooms = [max(limit // 2, limit - other) for other in reversed(sizes)]
    first, second = (
        Excerpt(stream.end, True, stream.characters, stream.file.size)
        if size <= room
        else _cut(stream, room, failed=failed)
        for stream, size, room in zip(streams, sizes, rooms, strict=True)
    )
    return first, second


def json_size(text: str) -> int:
    """Return the bytes of `text` as a string of JSON in UTF-8, without the quotes."""
    return encoded_size(text) - 2


def _cut(stream: Captured, room: int, *, failed: bool) -> Excerpt:
    file, error = stream.file.keep()
    whole = stream.whole
    beginning, end = (stream.head, stream.tail) if whole is None else (whole, whole)
    head, tail = _ends(beginning, end, room)
    rescued: list[str] = []
    if failed and file is not None:
        smaller = _ends(beginning, end, room * 3 // 4)
        found = rescue_lines(file, *_gap(stream, *smaller), newlines=None if error else stream.file.newlines)
        rescued = _fitting(found, room // 4)
        if rescued:
            used = sum(json_size(line) + 2 for line in rescued)
            head, tail = _ends(beginning, end, room - used)
    left_out = stream.characters - len(head) - len(tail)
    marker = f"{left_out:,} characters left out here"
    if error:
        marker += f"; {f'the first part in {file}' if file else 'not kept'}: {error}"
    elif file:
        marker += f"; complete in {file}"
    if rescued:
        marker += "; lines of it that look like failures: …]\n" + "".join(f"{line}\n" for line in rescued) + "[…"
    gap = "" if not head or head.endswith("\n") else "\n"
    text = f"{head}{gap}[… {marker} …]\n{tail}"
    return Excerpt(text, False, stream.characters, stream.file.size, file, error)


def _ends(beginning: str, end: str, room: int) -> tuple[str, str]:
    """Return the first characters of `beginning` and the last of `end`: whole lines, unless lines are long."""
    share = room // 2
    length = bisect_right(range(len(beginning) + 1), share, key=lambda count: json_size(beginning[:count])) - 1
    head = beginning[:length]
    line_end = head.rfind("\n", len(head) * 3 // 4) + 1
    length = bisect_right(range(len(end) + 1), share, key=lambda count: json_size(end[len(end) - count :])) - 1
    tail = end[len(end) - length :]
    line_start = tail.find("\n", 0, len(tail) // 4) + 1
    return head[: line_end or None], tail[line_start:]


def _gap(stream: Captured, head: str, tail: str) -> tuple[int, int]:
    """Return the numbers of the first and the last line between `head` and `tail`, which may be cut in the middle."""
    return head.count("\n") + 1, stream.file.newlines - tail.count("\n")


def _fitting(found: list[Rescued], room: int) -> list[str]:
    lines = []
    for each in found:
        line = f"{each.number}: {each.text}" + (f" ({each.count} times)" if each.count > 1 else "")
        room -= json_size(line) + 2
        if room < 0:
            break
        lines.append(line)
    return lines
