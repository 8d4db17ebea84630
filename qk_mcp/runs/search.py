"""Searches output files for the regular expressions of a model, in a process that is killed if it takes too long."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from qk_mcp.errors import InvalidInput, SearchFailed
from qk_mcp.runs.lines import Line, Lines
from qk_mcp.text import shorten

__all__ = ["Found", "LineSearch", "line_search"]

_PROGRAM = Path(__file__).with_name("line_matching.py")
_PATTERN_LENGTH = 1_000
_SECONDS = 3.0
"""Seconds that a search may take, and more for each byte."""
_SECONDS_PER_BYTE = 1 / (16 << 20)
_ANSWER = 64 << 20
"""Bytes of an answer of the process at most."""


@dataclass(frozen=True, slots=True)
class Found:
    """The lines of a file that match."""

    lines: tuple[Line, ...]
    matches: int
    """The number of all lines that match."""


class LineSearch:
    """A process that searches files for one expression."""

    def __init__(self, process: asyncio.subprocess.Process, parameter: str, pattern: str) -> None:
        self._process = process
        self._parameter = parameter
        self._pattern = pattern
        self._positions: dict[Path, tuple[int, int]] = {}

    async def compile(self) -> None:
        """Raise `InvalidInput` if the expression is invalid, with the position."""
        answer = await self._ask({"pattern": self._pattern}, _SECONDS)
        if error := answer.get("error"):
            raise InvalidInput(self._parameter, _explanation(self._pattern, error, answer["position"]))

    async def search(self, source: Lines, *, after: int, count: int, last: bool) -> Found:
        """Return the first `count` lines after line `after` that match, or the last ones. Raises `SearchFailed`."""
        return await self._search(source, after, count, last=last, start=(0, 0))

    async def search_new(self, source: Lines, *, after: int) -> Line | None:
        """Return the first line after line `after` that matches, among those that no such search has seen."""
        start = self._positions.get(source.file, (0, 0))
        found = await self._search(source, after, 1, last=False, start=start)
        return found.lines[0] if found.lines else None

    async def _search(self, source: Lines, after: int, count: int, *, last: bool, start: tuple[int, int]) -> Found:
        request = {
            "file": str(source.file), "size": source.size, "after": after, "count": count, "last": last,
            "start": start[0], "number": start[1],
        }  # fmt: skip
        answer = await self._ask(request, _SECONDS + (source.size - start[0]) * _SECONDS_PER_BYTE)
        self._positions[source.file] = (answer["start"], answer["number"])
        return Found(tuple(Line(number, text) for number, text in answer["found"]), answer["matches"])

    async def _ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps({**request, "seconds": seconds}).encode() + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        except (OSError, ValueError):
            line = b""
        if not line.endswith(b"\n"):
            raise SearchFailed(self._parameter, shorten(self._pattern, 100), seconds)
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def line_search(parameter: str, pattern: str) -> AsyncIterator[LineSearch]:
    """Yield a search for the expression of a parameter. Raises `InvalidInput` and `SearchFailed`."""
    if len(pattern) > _PATTERN_LENGTH:
        raise InvalidInput(parameter, f"it has more than {_PATTERN_LENGTH:,} characters")
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", _PROGRAM,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=_ANSWER, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise SearchFailed(parameter, shorten(pattern, 100), None, error) from error
    try:
        search = LineSearch(process, parameter, pattern)
        await search.compile()
        yield search
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.communicate()


def _explanation(pattern: str, error: str, position: int | None) -> str:
    """Return why an expression is invalid, with a mark below the position."""
    if position is None:
        return f"it is not a valid regular expression: {error}"
    start = max(0, position - 40)
    line = pattern[start : position + 40].translate({ord("\n"): " ", ord("\t"): " "})
    mark = " " * (position - start) + "^"
    return f"it is not a valid regular expression: {error} at position {position}\n  {line}\n  {mark}"
