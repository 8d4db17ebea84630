"""`qk_mcp.runs.pruning`: old outputs and records go, those in use stay, and no line is lost."""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qk_mcp.runs import pruning
from qk_mcp.runs.output_files import OutputFile, output_path, stream_file
from qk_mcp.runs.pruning import KEPT_AGE, prune_runs
from qk_mcp.runs.record import append_run, new_run_id, read_runs, record_beside
from tests.runs.test_record import made

LONG_AGO = time.time() - KEPT_AGE - 60


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    directory = tmp_path / "state" / "outputs"
    directory.mkdir(parents=True)
    return directory


def kept(outputs: Path, *streams: str, old: str = "", size: int = 10) -> list[Path]:
    """Make the files of a run; those named in `old` are too old to be kept."""
    output = output_path(outputs, "task", new_run_id())
    files = [stream_file(output, stream) for stream in streams]
    for file in files:
        file.write_bytes(b"x" * size)
        if file.suffix.removeprefix(".") in old.split():
            os.utime(file, (LONG_AGO, LONG_AGO))
    return files


def test_old_outputs_go_and_the_files_of_a_run_stay_together(outputs: Path) -> None:
    kept(outputs, "stdout", "stderr", old="stdout stderr")
    kept(outputs, "stderr", old="stderr")
    staying = kept(outputs, "stdout", "stderr", old="stdout") + kept(outputs, "stdout")
    other = outputs / "20260101-000000-notes.stdout"
    other.touch()
    os.utime(other, (LONG_AGO, LONG_AGO))
    prune_runs(outputs)
    assert set(outputs.iterdir()) == {*staying, other}


def test_the_oldest_outputs_go_when_there_is_too_much(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "FILES_LIMIT", 2500)
    runs = [kept(outputs, "stdout", "stderr", size=500) for _ in range(4)]
    for age, files in enumerate(reversed(runs)):
        for file in files:
            os.utime(file, (time.time() - age * 100,) * 2)
    prune_runs(outputs)
    assert set(outputs.iterdir()) == {*runs[2], *runs[3]}


def test_files_in_use_are_kept(outputs: Path) -> None:
    output = output_path(outputs, "task", new_run_id())
    writing, other = OutputFile(stream_file(output, "stdout")), stream_file(output, "stderr")
    writing.write(b"x" * 200_000)
    other.touch()
    for file in (writing.path, other):
        os.utime(file, (LONG_AGO, LONG_AGO))
    prune_runs(outputs)
    assert set(outputs.iterdir()) == {writing.path, other}
    writing.keep()
    os.utime(writing.path, (LONG_AGO, LONG_AGO))
    prune_runs(outputs)
    assert list(outputs.iterdir()) == []


def test_old_records_go_but_none_of_a_run_that_is_under_way(outputs: Path) -> None:
    file = record_beside(outputs)
    gone = made().server._replace(started="0")
    append_run(file, made("r1", time=LONG_AGO, state="ended", seconds=5.0))
    append_run(file, made("r2", time=LONG_AGO))
    append_run(file, made("r3", time=LONG_AGO, server=gone))
    append_run(file, made("r4", time=LONG_AGO, state="ended", seconds=3600.0))
    append_run(file, made("r5"))
    prune_runs(outputs)
    assert [record.run for record in read_runs(file).records] == ["r2", "r4", "r5"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert set(file.parent.iterdir()) == {file, outputs}


def test_lines_that_are_no_records_go(outputs: Path) -> None:
    file = record_beside(outputs)
    append_run(file, made("r1"))
    with file.open("ab") as stream:
        stream.write(b"torn\n")
    prune_runs(outputs)
    runs = read_runs(file)
    assert ([record.run for record in runs.records], runs.unreadable) == (["r1"], 0)


def test_one_process_prunes_at_a_time(outputs: Path) -> None:
    files = kept(outputs, "stdout", old="stdout")
    descriptor = os.open(outputs.parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    prune_runs(outputs)
    assert list(outputs.iterdir()) == files
    os.close(descriptor)
    prune_runs(outputs)
    assert list(outputs.iterdir()) == []


def test_nothing_to_prune_is_no_failure(tmp_path: Path) -> None:
    prune_runs(tmp_path / "state" / "outputs")
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys, time
from pathlib import Path
from tests.runs.test_pruning import LONG_AGO, made
from qk_mcp.runs.record import append_run

print("ready", flush=True)
sys.stdin.read()
for number in range(200):
    append_run(Path(sys.argv[2]), made(f"{sys.argv[1]}-{number}"))
    append_run(Path(sys.argv[2]), made(f"old-{number}", time=LONG_AGO, state="ended"))
"""


@pytest.mark.long
def test_no_line_is_lost_while_ten_processes_append(outputs: Path) -> None:
    file = record_beside(outputs)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(number), file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for number in range(10)
    ]
    for writer in writers:
        assert writer.stdout
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:  # all at once
        assert writer.stdin
        writer.stdin.close()
    pruned = 0
    while any(writer.poll() is None for writer in writers):
        before = file.stat().st_ino if file.exists() else None
        prune_runs(outputs)
        pruned += before is not None and file.stat().st_ino != before
    for writer in writers:
        assert writer.wait() == 0
        assert writer.stdout
        writer.stdout.close()
    assert pruned > 0
    prune_runs(outputs)
    runs = read_runs(file)
    assert runs.unreadable == 0
    assert {record.run for record in runs.records} == {f"{w}-{n}" for w in range(10) for n in range(200)}
