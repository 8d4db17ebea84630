"""`qk_mcp.runs.output`: the bytes of a stream become text for an agent."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qk_mcp.runs.output import Capture, Captured


def capture(chunks: list[bytes], directory: Path, limit: int = 30_000) -> tuple[str, Captured]:
    """Feed chunks. Return the text that was sent live, and the captured stream."""
    stream = Capture(limit, directory / "stdout")
    live = "".join(stream.feed(chunk) for chunk in chunks)
    rest, captured = stream.finish()
    captured.file.discard()
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


@settings(max_examples=300)
@given(data=st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), cuts=st.lists(st.integers(0, 200)))
def test_text_does_not_depend_on_how_bytes_arrive(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("outputs")
    places = sorted({min(cut, len(data)) for cut in cuts})
    chunks = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    whole_live, whole = capture([data], directory)
    live, cut = capture(chunks, directory)
    assert (live, cut.whole) == (whole_live, whole.whole)
    assert live == cut.whole
    assert not set(live) & {"\x1b", "\x00", "\x07", "\r", "\b"}


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
    assert capture([data], tmp_path)[1].whole == text


def test_a_long_text_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    data = text.encode()
    _, captured = capture([data[i : i + 1000] for i in range(0, len(data), 1000)], tmp_path, limit=2000)
    assert captured.whole is None
    assert (captured.head, captured.tail) == (text[:1000], text[-1000:])
    assert captured.characters == captured.file.size == len(data)
    assert captured.file.newlines == 20_000


def test_a_full_screen_program_is_noticed(tmp_path: Path) -> None:
    stream = Capture(2000, tmp_path / "name")
    stream.feed(b"\x1b[?10")
    stream.feed(b"49h~\n~\n")
    assert stream.full_screen
    stream.feed(b"\x1b[?1049lbye\n")
    assert not stream.full_screen
