"""`qk_mcp.runs.excerpt`: both streams fit in the bytes of an answer."""

import json
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qk_mcp.runs.excerpt import Excerpt, cut_output
from qk_mcp.runs.output import Capture, Captured

LIMIT = 4_000


def captured(directory: Path, text: str) -> Captured:
    capture = Capture(LIMIT, directory / uuid.uuid4().hex)
    capture.feed(text.encode())
    return capture.finish()[1]


def cut(directory: Path, stdout: str, stderr: str = "", *, failed: bool = False) -> tuple[Excerpt, Excerpt]:
    return cut_output(captured(directory, stdout), captured(directory, stderr), LIMIT, failed=failed)


def size(*streams: Excerpt) -> int:
    entries = [stream.truncated() for stream in streams if not stream.complete]
    return len(json.dumps([[stream.text for stream in streams], entries], ensure_ascii=False).encode())


TEXTS = st.tuples(
    st.sampled_from(["x", "line\n", '"', "\\", "\n", "│", "🎉", "error 1\n", "é\t"]), st.integers(0, 9000)
)


@settings(max_examples=200, deadline=None)
@given(texts=st.tuples(TEXTS, TEXTS), failed=st.booleans())
def test_no_text_exceeds_the_limit(
    tmp_path_factory: pytest.TempPathFactory, texts: tuple[tuple[str, int], tuple[str, int]], failed: bool
) -> None:
    stdout, stderr = (piece * count for piece, count in texts)
    excerpts = cut(tmp_path_factory.mktemp("outputs"), stdout, stderr, failed=failed)
    assert size(*excerpts) <= LIMIT + 60
    for text, excerpt in zip((stdout, stderr), excerpts, strict=True):
        assert (excerpt.text == text) is excerpt.complete
        if not excerpt.complete:
            assert excerpt.file is not None
            assert excerpt.file.read_bytes() == text.encode()


def test_a_quiet_stream_lends_its_share(tmp_path: Path) -> None:
    loud, quiet = cut(tmp_path, "x" * 10_000, "quiet\n")
    assert (quiet.text, quiet.complete) == ("quiet\n", True)
    assert len(loud.text) > 2_500
    quiet, loud = cut(tmp_path, "quiet\n", "x" * 10_000)
    assert quiet.complete
    assert len(loud.text) > 2_500


def test_two_loud_streams_have_equal_shares(tmp_path: Path) -> None:
    one, other = cut(tmp_path, "x" * 10_000, "y" * 50_000)
    assert abs(len(one.text) - len(other.text)) < 50


def test_a_gap_is_between_whole_lines_and_has_its_size(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    excerpt, _ = cut(tmp_path, text)
    before, _, after = excerpt.text.partition("[…")
    marker, _, tail = after.partition("\n")
    assert before.startswith("line 0\nline 1\n")
    assert before.endswith("\n")
    assert tail.startswith("line ")
    assert tail.endswith("line 19999\n")
    assert f"{len(text) - len(before) - len(tail):,} characters left out" in marker
    assert f"complete in {excerpt.file}" in marker
    assert (excerpt.characters, excerpt.size) == (len(text), len(text))


def test_the_gap_of_a_failed_run_shows_its_failures(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(1, 5001)]
    lines[1999] = "E   AssertionError: assert 401 == 200"
    text = "\n".join(lines) + "\n"
    assert "AssertionError" not in cut(tmp_path, text)[0].text
    assert "\n2000: E   AssertionError: assert 401 == 200\n" in cut(tmp_path, text, failed=True)[0].text


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("not a directory")
    excerpt, _ = cut(tmp_path / "outputs", "x" * 10_000)
    assert excerpt.file is None
    assert excerpt.file_error
    assert f"not kept: {excerpt.file_error}" in excerpt.text
