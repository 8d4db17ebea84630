"""Each run of a server is recorded, however it ends."""

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from qk_mcp.runs.pruning import KEPT_AGE
from qk_mcp.runs.record import RunRecord, append_run, read_runs
from tests.conftest import Serve
from tests.runs.test_record import made
from tests.support.client import Call, Client
from tests.support.processes import until

SOURCE = """
    import os, sys, time
    from pathlib import Path
    from quickie import task

    @task(extra_args=True)
    def shout(*args):
        print("OUT")
        print("err", file=sys.stderr)

    @task
    def fail():
        raise SystemExit(3)

    @task
    def slow():
        Path("begun").touch()
        time.sleep(600)
"""


def record_of(home: Path) -> Path:
    return home / ".local" / "state" / "qk-mcp" / "runs.jsonl"


def recorded(tmp_path: Path) -> Sequence[RunRecord]:
    runs = read_runs(record_of(tmp_path / "home"))
    assert runs.unreadable == 0
    return runs.records


def begin_slow(client: Client, root: Path) -> Call:
    call = client.start("run_task", task_name="slow")
    client.until(lambda: (root / "begun").exists(), what="the task to begin")
    return call


def test_each_run_has_a_record(serve: Serve, tmp_path: Path) -> None:
    client = serve(SOURCE)
    client.run("shout", "--a", "b c", stdin="a secret")
    client.run("fail")
    client.run("slow", timeout=1)
    client.run("absent")
    shout, fail, slow, absent = recorded(tmp_path)
    assert (shout.project, shout.task, shout.args, shout.client) == ("demo", "shout", ["--a", "b c"], "raw")
    assert (shout.root, shout.server.pid) == (str(tmp_path / "project"), client.pid)
    assert (shout.state, shout.exit_code, shout.succeeded) == ("ended", 0, True)
    assert shout.bytes == {"stdout": 4, "stderr": 4}
    assert shout.seconds is not None
    assert 0 < shout.seconds < 60
    assert (fail.state, fail.exit_code, fail.succeeded) == ("ended", 3, False)
    assert (slow.state, slow.exit_code) == ("timed_out", None)
    assert (absent.state, absent.exit_code) == ("ended", None)
    assert absent.error == "project 'demo' has no task named 'absent'"
    assert "secret" not in record_of(tmp_path / "home").read_text()


def test_a_run_is_recorded_when_it_begins(serve: Serve, project: Callable[..., Path], tmp_path: Path) -> None:
    root = project(SOURCE)
    client = serve(root)
    begin_slow(client, root)
    (record,) = recorded(tmp_path)
    assert (record.state, record.server.pid) == ("running", client.pid)
    assert record.supervisor is not None
    assert record.supervisor.is_running()
    client.process.send_signal(signal.SIGTERM)
    assert client.exit_code() == 143
    assert [record.state for record in recorded(tmp_path)] == ["cancelled"]


def test_a_run_of_a_killed_server_is_lost(serve: Serve, project: Callable[..., Path], tmp_path: Path) -> None:
    root = project(SOURCE)
    client = serve(root)
    begin_slow(client, root)
    client.process.kill()
    client.exit_code()
    assert [record.state for record in recorded(tmp_path)] == ["lost"]


def test_a_run_of_another_server_is_waited_for(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    first, second = serve(root), serve(root)
    run_id = first.call("run_task", task_name="slow", background=True).data["run_id"]
    until((root / "begun").exists, what="the task to begin")
    answer = second.call("get_run", run_id=run_id, wait=0.5, until="x").data
    assert answer["state"] == "running"
    assert "another server runs it" in answer["note"]
    call = second.start("get_run", run_id=run_id, wait=60)
    assert second.call("list_tasks").data
    assert not call.answered
    assert first.call("stop_run", run_id=run_id).data["state"] == "stopped"
    assert call.wait().data["state"] == "stopped"


def test_runs_go_on_without_a_record(serve: Serve, tmp_path: Path) -> None:
    client = serve(SOURCE, environ={"XDG_STATE_HOME": str(tmp_path / "state")})
    (tmp_path / "state").write_text("not a directory")
    for _ in range(2):
        assert client.run("shout").data["exit_code"] == 0
    assert client.stderr().count("cannot record runs in") == 1


def test_each_line_is_whole_json(serve: Serve, tmp_path: Path) -> None:
    serve(SOURCE).run("shout", "x" * 100_000, os.fsdecode(b"\xff"))
    begin, end = record_of(tmp_path / "home").read_text().splitlines()
    assert (json.loads(begin)["state"], json.loads(end)["state"]) == ("running", "ended")
    assert max(len(begin), len(end)) <= 8192


def test_a_person_stops_a_run(serve: Serve, project: Callable[..., Path], tmp_path: Path) -> None:
    """The supervisor gets a signal. The agent gets the output so far, and learns that a person stopped the run."""
    root = project("""
        import time
        from pathlib import Path
        from quickie import task

        @task
        def slow():
            print("working", flush=True)
            Path("begun").touch()
            try:
                time.sleep(600)
            finally:
                Path("cleaned up").touch()
    """)
    client = serve(root)
    call = begin_slow(client, root)
    (record,) = recorded(tmp_path)
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGUSR2)
    refusal = call.wait().refusal
    assert "a person stopped it with `qk-mcp runs stop`" in refusal
    assert "working" in refusal
    assert (root / "cleaned up").exists(), "the usual stop sequence"
    assert [record.state for record in recorded(tmp_path)] == ["stopped"]


def test_a_run_can_be_stopped_as_soon_as_it_is_recorded(serve: Serve, tmp_path: Path) -> None:
    client = serve("import time; time.sleep(600)", "--describe-timeout", "1")
    call = client.start("run_task", task_name="slow")
    client.until(lambda: recorded(tmp_path), what="the record of the run")
    (record,) = recorded(tmp_path)
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGUSR2)
    assert "a person stopped it" in call.wait().refusal


def test_output_of_every_kind_is_kept(serve: Serve, tmp_path: Path) -> None:
    client = serve(SOURCE)
    client.run("shout")
    client.run("fail")
    shout, fail = recorded(tmp_path)
    assert {stream: Path(file).read_text() for stream, file in shout.files.items()} == {
        "stdout": "OUT\n",
        "stderr": "err\n",
    }
    assert "".join(Path(file).read_text() for file in fail.files.values()) == ""


def test_a_server_prunes_while_it_answers(serve: Serve, tmp_path: Path) -> None:
    """Pruning waits for whoever appends; meanwhile the server answers."""
    file = record_of(tmp_path / "home")
    outputs = file.with_name("outputs")
    outputs.mkdir(parents=True)
    long_ago = time.time() - KEPT_AGE - 60
    old = outputs / "20260101-000000-build-r0123456789.stdout"
    old.touch()
    os.utime(old, (long_ago, long_ago))
    append_run(file, made("r0123456789", time=long_ago, state="ended"))
    with file.open() as appending:
        fcntl.flock(appending, fcntl.LOCK_SH)
        client = serve(SOURCE)
        client.until(lambda: not old.exists(), what="the removal of an old output")
        assert client.run("shout").data["exit_code"] == 0
        assert recorded(tmp_path)[0].run == "r0123456789"
    until(lambda: recorded(tmp_path)[0].run != "r0123456789", what="the removal of an old record")
    (record,) = recorded(tmp_path)
    assert (record.task, record.state) == ("shout", "ended")


def test_a_full_listing_says_how_long_a_task_usually_takes(serve: Serve) -> None:
    client = serve(SOURCE)

    def usual() -> dict[str, object]:
        (entry,) = client.call("list_tasks").data
        return {task["name"]: task["usually"] for task in entry["tasks"] if "usually" in task}

    assert usual() == {}
    client.run("shout")
    client.run("fail")
    ((name, seconds),) = usual().items()
    assert name == "shout"
    assert isinstance(seconds, float)
    assert 0 < seconds < 60


def test_output_of_a_run_in_another_server_is_not_pruned(
    serve: Serve, project: Callable[..., Path], tmp_path: Path
) -> None:
    root = project("""
        import time
        from pathlib import Path
        from quickie import task

        @task
        def slow():
            print("x" * 200_000, flush=True)
            Path("begun").touch()
            time.sleep(600)
    """)
    client = serve(root)
    begin_slow(client, root)
    outputs = record_of(tmp_path / "home").with_name("outputs")
    (file,) = until(lambda: list(outputs.glob("*.stdout")), what="the output file")
    old = outputs / "20260101-000000-build-r0123456789.stdout"
    old.touch()
    long_ago = time.time() - KEPT_AGE - 60
    for each in (file, old):
        os.utime(each, (long_ago, long_ago))
    serve(root).until(lambda: not old.exists(), what="the removal of an old output")
    assert file.exists()
    assert [record.state for record in recorded(tmp_path)] == ["running"]


@pytest.mark.long
def test_ten_servers_record_at_once(serve: Serve, project: Callable[..., Path], tmp_path: Path) -> None:
    root = project(SOURCE)
    clients = [serve(root) for _ in range(10)]
    calls = [client.start("run_task", task_name="shout") for client in clients for _ in range(5)]
    for call in calls:
        assert call.wait().data["exit_code"] == 0
    records = recorded(tmp_path)
    assert len(records) == 50
    assert {record.server.pid for record in records} == {client.pid for client in clients}
    assert all(record.succeeded for record in records)
