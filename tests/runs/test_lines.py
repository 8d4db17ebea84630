"""`qk_mcp.runs.lines`: numbered lines of a file of any size."""

import random
from pathlib import Path

import pytest

from qk_mcp.runs import lines as lines_module
from qk_mcp.runs.lines import Lines, count_newlines, last_lines, lines_after


def source(directory: Path, data: bytes) -> Lines:
    file = directory / "output"
    file.write_bytes(data)
    return count_newlines(file)


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(1, count + 1))


@pytest.mark.parametrize("block", [7, 64, 1 << 18])
def test_any_page_has_the_right_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(lines_module, "_BLOCK", block)
    data = numbered(300)
    file = source(tmp_path, data)
    for _ in range(50):
        after, count = random.randrange(0, 310), random.randrange(0, 20)
        page = lines_after(file, after, count)
        expected = [f"line {number}" for number in range(after + 1, min(300, after + count) + 1)]
        assert [line.text for line in page.lines] == expected
        assert page.next == min(300, after + len(expected))
        tail = last_lines(file, count)
        assert [line.number for line in tail.lines] == list(range(301 - count, 301))
        assert [line.text for line in tail.lines] == [f"line {line.number}" for line in tail.lines]


def test_an_unfinished_line_is_shown_and_comes_again(tmp_path: Path) -> None:
    file = source(tmp_path, b"one\nPassword: ")
    for page in (last_lines(file, 5), lines_after(file, 0, 5)):
        assert [(line.text, line.finished) for line in page.lines] == [("one", True), ("Password: ", False)]
        assert page.next == 1
    assert [line.text for line in lines_after(file, 1, 5).lines] == ["Password: "]
    assert [line.text for line in last_lines(file, 1).lines] == ["Password: "]


def test_lines_read_as_a_terminal_shows_them(tmp_path: Path) -> None:
    data = b"\x1b[31mred\x1b[0m\n10%\r50%\r100%\r\nab\bc\nth\xc3\xa9\n1%\r2%\r\x1b["
    assert [line.text for line in last_lines(source(tmp_path, data), 9).lines] == ["red", "100%", "ac", "thé", "2%"]


def test_what_arrives_later_does_not_count(tmp_path: Path) -> None:
    file = source(tmp_path, b"one\ntwo\n")
    with file.file.open("ab") as stream:
        stream.write(b"three\n")
    assert [line.text for line in last_lines(file, 9).lines] == ["one", "two"]
    assert [line.text for line in lines_after(file, 1, 9).lines] == ["two"]


def test_a_very_long_line_is_cut(tmp_path: Path) -> None:
    file = source(tmp_path, b"x" * (3 << 20) + b"\nend\n" + b"1%\r" * (1 << 19) + b"done")
    page = lines_after(file, 0, 9)
    assert [len(line.text) for line in page.lines] == [2000, 3, 4]
    assert page.lines[-1].text == "done", "the last state of a line that is redrawn"
    assert last_lines(file, 1).lines[0].text == "done"


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    file = source(tmp_path, b"")
    assert last_lines(file, 5).lines == lines_after(file, 7, 5).lines == ()
    assert lines_after(file, 7, 5).next == 0
