"""`qk_mcp.runs.record`: whole lines, whoever writes them, and readers that skip anything else."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from qk_mcp.host.identity import ProcessIdentity, identify_process
from qk_mcp.runs.record import Recorder, RunRecord, append_run, new_run_id, read_runs


def made(run: str = "", **fields: object) -> RunRecord:
    server = identify_process(os.getpid())
    assert server
    record = RunRecord(
        run=run or new_run_id(),
        time=time.time(),
        project="demo",
        root="/demo",
        task="build",
        args=["--fast"],
        client="raw",
        server=server,
    )
    return replace(record, **fields)  # type: ignore[arg-type]


def test_the_last_line_of_a_run_is_its_state(tmp_path: Path) -> None:
    file = tmp_path / "state" / "runs.jsonl"
    begun = made(supervisor=ProcessIdentity(4, "5"))
    other = made()
    ended = replace(begun, state="ended", exit_code=-9, seconds=1.5, bytes={"stdout": 3}, files={"stdout": "/out"})
    for record in (begun, other, ended):
        append_run(file, record)
    assert read_runs(file).records == [ended, other]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_missing_record_has_no_runs(tmp_path: Path) -> None:
    assert read_runs(tmp_path / "runs.jsonl").records == []


@pytest.mark.parametrize(
    "args", [["x" * 100_000], ["\ud800"] * 50_000, ["\x00" * 199] * 40], ids=["one", "many", "escaped"]
)
def test_a_line_stays_small(tmp_path: Path, args: list[str]) -> None:
    file = tmp_path / "runs.jsonl"
    append_run(file, made("r1", args=args, task="t" * 10_000, error="e" * 10_000))
    assert file.stat().st_size <= 8192
    (record,) = read_runs(file).records
    assert record.args is not None
    assert record.args[0][:100] == args[0][:100]
    if len(args) > 1:
        assert record.args[-1] == f"(and {len(args) - len(record.args) + 1} more)"


def test_arguments_that_fit_are_complete(tmp_path: Path) -> None:
    args = ["", "ä\udc80\n", "x" * 3000, '{"run": "']
    append_run(tmp_path / "runs.jsonl", made(args=args))
    (record,) = read_runs(tmp_path / "runs.jsonl").records
    assert record.args == args


def test_torn_and_foreign_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    first, second, third = made(), made(), made()
    append_run(file, first)
    whole = file.read_bytes()
    for line in (b"", b"\n", b"[1]\n", b"[" * 100_000 + b"\n", b"\xff\x00\n", b'{"run": "r9", "time": 1}\n'):
        with file.open("ab") as stream:
            stream.write(line)
    append_run(file, second)
    with file.open("ab") as stream:
        stream.write(whole[: len(whole) // 2])  # a full disk
    append_run(file, third)
    runs = read_runs(file)
    assert runs.records == [first, second, third], "a torn line does not take the next one with it"
    assert runs.unreadable == 6


@pytest.mark.parametrize(
    "change",
    [
        '"time": 1e300',
        '"time": NaN',
        '"seconds": -1',
        '"exit_code": Infinity',
        '"state": "odd"',
        '"server": [1]',
        '"bytes": []',
    ],
)
def test_impossible_values_are_no_record(tmp_path: Path, change: str) -> None:
    file = tmp_path / "runs.jsonl"
    append_run(file, made())
    file.write_text(file.read_text().replace("}\n", f", {change}}}\n"))
    runs = read_runs(file)
    assert (runs.records, runs.unreadable) == ([], 1)


def test_a_record_that_stays_locked_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    append_run(file, made())
    with file.open() as pruning:
        fcntl.flock(pruning, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another process has locked it"):
            append_run(file, made())
    append_run(file, made())
    assert len(read_runs(file).records) == 2


def test_a_run_whose_server_is_gone_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    running = made()
    gone = running.server._replace(started="0")  # an earlier process with this id
    append_run(file, running)
    append_run(file, made("r1", server=gone))
    append_run(file, made("r2", server=gone, state="ended", exit_code=0))
    assert [record.state for record in read_runs(file).records] == ["running", "lost", "ended"]


WRITER = """
import sys
from pathlib import Path
from tests.runs.test_record import made
from qk_mcp.runs.record import append_run

print("ready", flush=True)
sys.stdin.read()
for number in range(100):
    append_run(Path(sys.argv[2]), made(f"{sys.argv[1]}-{number}", args=["x" * 5000]))
"""


def test_ten_processes_write_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
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
    for writer in writers:
        assert writer.wait() == 0
        assert writer.stdout
        writer.stdout.close()
    runs = read_runs(file)
    assert runs.unreadable == 0
    assert {record.run for record in runs.records} == {f"{w}-{n}" for w in range(10) for n in range(100)}


def test_an_unwritable_record_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state").write_text("not a directory")
    recorder = Recorder(tmp_path / "state" / "runs.jsonl")
    recorder.write(made())
    recorder.write(made())
    (message,) = [record.message for record in caplog.records]
    assert "cannot record runs in" in message


def test_lines_are_plain_json(tmp_path: Path) -> None:
    append_run(tmp_path / "runs.jsonl", made("r1", args=None))
    line = json.loads((tmp_path / "runs.jsonl").read_text())
    assert (line["run"], line["args"], line["state"]) == ("r1", None, "running")
