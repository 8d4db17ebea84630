"""`qk_mcp.runs.output`: the bytes of a stream become text for an agent."""

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qk_mcp.runs import output_files
from qk_mcp.runs.output import Capture, Captured
from qk_mcp.runs.output_files import FILE_AGE, output_name, prune_outputs


def capture(chunks: list[bytes], directory: Path, limit: int = 30_000) -> tuple[str, Captured]:
    """Feed chunks. Return the text that was sent live, and the captured stream."""
    stream = Capture(limit, directory, output_name("task", "stdout"))
    live = "".join(stream.feed(chunk) for chunk in chunks)
    rest, captured = stream.finish()
    return live + rest, captured


PIECES = [
    b"plain ",
    "grüße €".encode(),
    b"\n",
    b"\r\n",
    b"\x1b[31mred\x1b[0m",
    b"\x1b]0;title\x07",
    b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    b"\x1b(B",
    b"10%\r",
    b"20%\b\b\b30%",
    b"\x00\x07",
    b"\xff\xfe",
    b"\x1b",
    b"\x9b",
    "\u009b1m".encode(),
]


@settings(max_examples=300, deadline=None)
@given(data=st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), cuts=st.lists(st.integers(0, 200)))
def test_text_does_not_depend_on_how_bytes_arrive(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("outputs")
    places = sorted({min(cut, len(data)) for cut in cuts})
    chunks = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    whole_live, whole = capture([data], directory)
    live, cut = capture(chunks, directory)
    assert (live, cut.text, cut.complete) == (whole_live, whole.text, whole.complete)
    assert live == cut.text
    assert not set(cut.text) & {"\x1b", "\x00", "\x07", "\r", "\b"}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"10%\r20%\r100%\n", "100%\n"),
        (b"10%\r20%\r", "20%"),
        (b"spin |\b/\b-\b done\n", "spin  done\n"),
        (b"\x1b[1;31mbold\x1b[0m\n", "bold\n"),
        (b"\xe2\x82", "\N{REPLACEMENT CHARACTER}"),
        (b"tab\tand form\x0cfeed", "tab\tand formfeed"),
    ],
)
def test_text_is_what_a_terminal_shows(tmp_path: Path, data: bytes, text: str) -> None:
    assert capture([data], tmp_path)[1].text == text


def test_colours_alone_need_no_file(tmp_path: Path) -> None:
    _, captured = capture([b"\x1b[31mred\x1b[0m\n"] * 10_000, tmp_path)
    assert not captured.complete  # 40,000 characters exceed the limit
    _, captured = capture([b"\x1b[31mred\x1b[0m\n"] * 1000, tmp_path / "few")
    assert captured.complete
    assert captured.file is None
    assert not (tmp_path / "few").exists()


def test_redrawn_lines_are_kept_in_the_file(tmp_path: Path) -> None:
    data = b"".join(b"%d%%\r" % number for number in range(5000)) + b"done\n"
    _, captured = capture([data], tmp_path)
    assert captured.text == "done\n"
    assert captured.file is not None
    assert captured.file.read_bytes() == data


def test_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(20_000)]
    data = "".join(lines).encode()
    _, captured = capture([data[i : i + 1000] for i in range(0, len(data), 1000)], tmp_path, limit=2000)
    before, marker, after = captured.text.partition("[…")
    assert before.startswith("line 0\nline 1\n")
    assert before.endswith("\n")
    assert after.endswith("line 19999\n")
    marker_line, _, tail = after.partition("\n")
    assert len(before) + len(tail) <= 2000
    assert f"{len(data) - len(before) - len(tail):,} characters left out" in marker_line
    assert captured.characters == captured.size == len(data)
    assert captured.file is not None
    assert str(captured.file) in marker_line
    assert captured.file.read_bytes() == data
    assert marker


def test_an_endless_line_is_bounded_and_complete_in_the_file(tmp_path: Path) -> None:
    _, captured = capture([b"x" * 65_536] * 100, tmp_path)
    assert len(captured.text) < 31_000
    assert captured.file is not None
    assert captured.file.stat().st_size == 6_553_600


def test_kept_outputs_are_private(tmp_path: Path) -> None:
    _, captured = capture([b"x" * 40_000], tmp_path / "outputs")
    assert captured.file is not None
    assert stat.S_IMODE(captured.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(captured.file.parent.stat().st_mode) == 0o700


def test_an_output_that_cannot_be_kept_has_an_error(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("not a directory")
    _, captured = capture([b"x" * 40_000], tmp_path / "outputs")
    assert captured.file is None
    assert captured.file_error
    assert captured.file_error in captured.text


def test_old_outputs_are_removed(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in (output_name("t", "stdout"), output_name("t", "stderr"), "not-ours"))
    past = time.time() - FILE_AGE - 60
    for file in (old, new, other):
        file.write_text("some")
        os.utime(file, (past, past))
    os.utime(new)
    prune_outputs(tmp_path)
    assert set(tmp_path.iterdir()) == {new, other}


def test_an_incomplete_file_is_not_called_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_files, "FILE_LIMIT", 100_000)  # a full disk ends the file in the same way
    _, captured = capture([b"x" * 50_000] * 4, tmp_path)
    assert captured.file is not None
    assert f"the first part in {captured.file}: {captured.file_error}" in captured.text
    assert "complete in" not in captured.text
