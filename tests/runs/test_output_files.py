"""`qk_mcp.runs.output_files`: complete outputs are kept and private."""

import re
import stat
from pathlib import Path

import pytest

from qk_mcp.runs import output_files
from qk_mcp.runs.output_files import OutputFile, output_path, stream_file


def filled(directory: Path, *chunks: bytes) -> OutputFile:
    file = OutputFile(directory / "stdout")
    for chunk in chunks:
        file.write(chunk)
    return file


def test_a_kept_file_is_complete_and_private(tmp_path: Path) -> None:
    file = filled(tmp_path / "outputs", *[b"x" * 1000 + b"\n"] * 200)
    path, error = file.keep()
    file.discard()
    assert path is not None
    assert not error
    assert path.read_bytes() == (b"x" * 1000 + b"\n") * 200
    assert (file.size, file.newlines) == (200_200, 200)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_discarded_output_leaves_no_file(tmp_path: Path) -> None:
    filled(tmp_path, b"x" * 200_000).discard()
    filled(tmp_path / "few", b"x").discard()
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_kept_has_an_error(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("not a directory")
    file = filled(tmp_path / "outputs", b"x" * 200_000)
    path, error = file.keep()
    file.discard()
    assert path is None
    assert error


def test_an_incomplete_file_has_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_files, "FILE_LIMIT", 100_000)  # a full disk ends the file in the same way
    path, error = filled(tmp_path, *[b"x" * 50_000] * 4).keep()
    assert path is not None
    assert path.stat().st_size == 100_000
    assert "100,000 bytes" in error


def test_the_streams_of_a_run_differ_only_by_a_suffix(tmp_path: Path) -> None:
    output = output_path(tmp_path, "db: ../migrate all", "r0123456789")
    assert re.fullmatch(r"\d{8}-\d{6}-db-..-migrate-all-r0123456789", output.name)
    assert output.parent == tmp_path
    assert stream_file(output, "stderr").name == f"{output.name}.stderr"
