"""`qk_mcp.runs.durations`: the median of the last successful runs, read again when the record changes."""

from pathlib import Path

from qk_mcp.runs.durations import Durations
from qk_mcp.runs.record import append_run
from tests.runs.test_record import made


def test_the_last_ten_successful_runs_count(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    durations = Durations(file)
    assert durations.usual() == {}
    for seconds in [1000.0] * 5 + [1.0, 2.0, 3.0, 4.0, 5.04, 5.04, 7.0, 8.0, 9.0, 10.0]:
        append_run(file, made(state="ended", exit_code=0, seconds=seconds))
        append_run(file, made(state="ended", exit_code=1, seconds=0.1))
        append_run(file, made(state="timed_out", seconds=60.0))
    append_run(file, made())
    append_run(file, made(root="/other", state="ended", exit_code=0, seconds=123.0))
    usual = durations.usual()
    assert usual == {("/demo", "build"): 5.0, ("/other", "build"): 120.0}
    append_run(file, made(root="/other", state="ended", exit_code=0, seconds=123.0))
    assert durations.usual() is usual, "nothing has changed"


def test_only_the_end_of_a_long_record_is_read(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    append_run(file, made(task="old", state="ended", exit_code=0, seconds=1.0))
    for _ in range(50):
        append_run(file, made(args=["x" * 4000], state="ended", exit_code=0, seconds=2.0))
    assert Durations(file).usual() == {("/demo", "build"): 2.0}
