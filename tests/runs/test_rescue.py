"""`qk_mcp.runs.rescue`: the lines of a long output that look like failures."""

from pathlib import Path

import pytest

from qk_mcp.runs.rescue import rescue_lines


def rescue(tmp_path: Path, text: str, first: int = 1, last: int = 10**9) -> list[tuple[int, str, int]]:
    file = tmp_path / "output"
    file.write_text(text)
    found = rescue_lines(file, first, last, newlines=text.count("\n"))
    return [(each.number, each.text, each.count) for each in found]


@pytest.mark.parametrize(
    "line",
    [
        "E   assert 401 == 200",
        "FAILED tests/test_x.py::test_a - ValueError",
        "src/main.c:3:5: error: expected ';'",
        "--- FAIL: TestThing (0.00s)",
        "thread 'main' panicked at src/main.rs:2:5",
        "  ✗ renders the page",
        "make: *** [Makefile:2: all] Error 1",
        "1 failed, 20 passed in 3.2s",
        "\x1b[31mError\x1b[0m: no such module",
    ],
)
def test_failures_are_found(tmp_path: Path, line: str) -> None:
    found = rescue(tmp_path, f"fine\n{line}\nfine\n")
    assert [number for number, _, _ in found] == [2]
    assert "\x1b" not in found[0][1]


@pytest.mark.parametrize(
    "line", ["tests/test_errors.py::test_x PASSED", "0 errors", "found 0 errors", "compiled with no errors", "ok"]
)
def test_successes_are_not(tmp_path: Path, line: str) -> None:
    assert rescue(tmp_path, f"fine: {line}\n") == []


def test_only_the_gap_is_searched(tmp_path: Path) -> None:
    text = "".join(f"error {'abcdefgh'[number]}\n" for number in range(8))
    assert [number for number, _, _ in rescue(tmp_path, text, 3, 5)] == [3, 4, 5]


def test_repeated_shapes_have_a_count(tmp_path: Path) -> None:
    text = "".join(f"error at 0x{number:x}: retry {number}\n" for number in range(500)) + "fatal\n"
    assert rescue(tmp_path, text) == [(1, "error at 0x0: retry 0", 500), (501, "fatal", 1)]


def test_the_first_and_the_last_are_kept(tmp_path: Path) -> None:
    words = [a + b for a in "abcdefghij" for b in "abcdefghij"]
    found = rescue(tmp_path, "".join(f"error {word}\n" for word in words))
    assert [number for number, _, _ in found] == [*range(1, 16), *range(86, 101)]


def test_long_lines_are_cut_around_the_word(tmp_path: Path) -> None:
    [(number, text, _)] = rescue(tmp_path, "x" * 1_000_000 + "ERROR here" + "y" * 1_000_000)
    assert number == 1
    assert "ERROR here" in text
    assert len(text) <= 300


def test_a_large_file_is_searched_at_both_ends(tmp_path: Path) -> None:
    filler = "x" * 99 + "\n"
    text = f"error at the beginning\n{filler * 60_000}error in the middle\n{filler * 60_000}error at the end\n"
    assert rescue(tmp_path, text) == [(1, "error at the beginning", 1), (120_003, "error at the end", 1)]


def test_a_removed_file_yields_nothing(tmp_path: Path) -> None:
    assert rescue_lines(tmp_path / "missing", 1, 2, newlines=2) == []
