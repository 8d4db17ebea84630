"""`qk_mcp.runs.search`: regular expressions from a model, in a process that is killed if it takes too long."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import psutil
import pytest

from qk_mcp.errors import InvalidInput, SearchFailed
from qk_mcp.runs import search as search_module
from qk_mcp.runs.lines import count_newlines
from qk_mcp.runs.search import Found, LineSearch, line_search
from tests.support.processes import new_children


def searched[T](pattern: str, use: Callable[[LineSearch], Awaitable[T]]) -> T:
    async def run() -> T:
        async with line_search("grep", pattern) as search:
            return await use(search)

    before = set(psutil.Process().children())
    try:
        return anyio.run(run)
    finally:
        assert not new_children(before), "the process has ended"


def test_the_first_or_the_last_matches_are_found_with_their_numbers(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_bytes(b"".join(b"\x1b[1mline\x1b[0m %d\n" % number for number in range(1, 2001)) + b"line 7?")

    async def use(search: LineSearch) -> list[Found]:
        source = count_newlines(file)
        return [await search.search(source, after=100, count=2, last=last) for last in (False, True)]

    first, last = searched(r"^line \d*7", use)
    numbers = [number for number in range(101, 2001) if re.match(r"\d*7", str(number))]
    assert [line.number for line in first.lines] == numbers[:2]
    assert [(line.number, line.text) for line in last.lines] == [
        (numbers[-1], f"line {numbers[-1]}"),
        (2001, "line 7?"),
    ]
    assert first.matches == last.matches == len(numbers) + 1


def test_new_lines_are_searched_once_and_an_unfinished_one_again(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_bytes(b"ready 1\nrea")

    async def use(search: LineSearch) -> list[int]:
        found = []
        for more in (b"", b"dy 2\n", b"ready 3\n", b""):
            with file.open("ab") as stream:
                stream.write(more)
            line = await search.search_new(count_newlines(file), after=1)
            found.append(0 if line is None else line.number)
        return found

    assert searched("ready", use) == [0, 2, 3, 0]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("ab(c", "unterminated subpattern at position 2\n  ab(c\n    ^"),
        ("*", "nothing to repeat at position 0"),
        ("x" * 2_000, "more than 1,000 characters"),
    ],
)
def test_an_invalid_expression_is_refused_with_the_position(pattern: str, why: str) -> None:
    async def use(search: LineSearch) -> None: ...

    with pytest.raises(InvalidInput) as failure:
        searched(pattern, use)
    assert why in str(failure.value)


def test_a_slow_expression_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "_SECONDS", 1.0)
    file = tmp_path / "output"
    file.write_bytes(b"a" * 60 + b"!\n")
    ticks = 0

    async def use(search: LineSearch) -> None:
        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        try:
            await search.search(count_newlines(file), after=0, count=1, last=True)
        finally:
            ticking.cancel()

    with pytest.raises(SearchFailed, match="longer than 1 s"):
        searched("(a+)+$", use)
    assert ticks > 10, "the event loop goes on"
