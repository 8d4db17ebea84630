"""Runs that outlive their call: `background`, `get_run`, `stop_run`, and the hand-over."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from qk_mcp.runs.record import read_runs
from tests.conftest import Demo, Serve
from tests.support.client import LEGACY, MODERN, Client
from tests.support.environment import QK_MCP, scrubbed
from tests.support.person import YES, Asking
from tests.support.processes import descriptors, gone, read_pid, until, zombies

SOURCE = """
    import os, subprocess, sys, time
    from pathlib import Path
    from quickie import Arg, task

    def begin():
        Path("pid").write_text(f"{os.getpid()}\\n")

    def wait_for(name):
        while not os.path.exists(name):
            time.sleep(0.01)

    @task
    def quick():
        print("done")

    @task
    def fail():
        print("it failed", file=sys.stderr)
        sys.exit(3)

    @task
    def steps():
        begin()
        print("\\x1b[32mone\\x1b[0m", flush=True)
        wait_for("gate")
        print("listening", flush=True)
        print("a warning", file=sys.stderr, flush=True)
        wait_for("end")

    @task
    def hang():
        begin()
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        print("hanging", flush=True)
        time.sleep(600)

    @task
    def clean():
        begin()
        try:
            print("hanging", flush=True)
            time.sleep(600)
        finally:
            print("cleaned up", flush=True)

    @task
    def ask():
        print("10%\\r50%\\r100%")
        print("Continue? [y/N] ", end="", flush=True)
        time.sleep(600)

    @task(args=[Arg("count", type=int), Arg("width", type=int)])
    def lines(count, width):
        for number in range(1, count + 1):
            print(str(number).ljust(width, "x"))
        wait_for("end")

    @task
    def crash():
        begin()
        print("before", flush=True)
        wait_for("gate")
        os.kill(os.getppid(), 9)
        time.sleep(600)
"""


def start(client: Client, task: str, *args: str, **more: Any) -> dict[str, Any]:
    """Start a task in the background; return the answer of a task that runs."""
    answer: dict[str, Any] = client.run(task, *args, background=True, **more).data
    assert answer["exit_code"] is None
    assert answer["state"] == "running"
    return answer


def states(home: Path) -> dict[str, str]:
    """Return the recorded state of each run."""
    return {record.run: record.state for record in read_runs(home / ".local/state/qk-mcp/runs.jsonl").records}


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_server_is_started_awaited_used_and_stopped(serve: Serve, tmp_path: Path, version: str) -> None:
    client = serve(SOURCE, version=version)
    run = start(client, "steps")
    pid = read_pid(tmp_path / "project" / "pid")
    waiting = client.start("get_run", run_id=run["run_id"], until="^listen(ing)?$", wait=60)
    (tmp_path / "project" / "gate").touch()
    ready = waiting.wait().data
    assert "matches `until`: stdout 2: listening" in ready["note"]
    assert ready["stdout"].splitlines()[:2] == ["one", "listening"]
    assert Path(ready["files"]["stdout"]).read_bytes() == b"\x1b[32mone\x1b[0m\nlistening\n", "`tail -f` reads along"
    stopped = client.call("stop_run", run_id=run["run_id"]).data
    assert (stopped["state"], stopped["exit_code"]) == ("stopped", None)
    assert stopped["stderr"].startswith("a warning\n")
    gone(pid)
    assert states(tmp_path / "home") == {run["run_id"]: "stopped"}


def test_an_early_end_is_complete(demo: Demo) -> None:
    client = demo(SOURCE)
    answer = client.run("fail", background=True).data
    assert (answer["exit_code"], answer["stderr"], answer["state"]) == (3, "it failed\n", "ended")
    again = client.call("get_run", run_id=answer["run_id"]).data
    assert (again["exit_code"], again["stderr"], again["state"]) == (3, "it failed\n", "ended")
    assert "no task named" in client.run("absent", background=True).refusal


def test_a_wait_returns_at_the_end(demo: Demo) -> None:
    client = demo(SOURCE)
    run = start(client, "steps")
    early = client.call("get_run", run_id=run["run_id"], wait=0.01).data
    assert early["state"] == "running"
    call = client.start("get_run", run_id=run["run_id"], wait=60)
    (demo.root / "gate").touch()
    (demo.root / "end").touch()
    answer = call.wait().data
    assert (answer["state"], answer["exit_code"], answer["stderr"]) == ("ended", 0, "a warning\n")
    assert answer["next"] == "2,1"
    until_ended = client.call("get_run", run_id=run["run_id"], until="never", wait=60).data
    assert "no line matches" in until_ended["note"]


@pytest.mark.long
def test_a_cancelled_wait_leaves_the_run(demo: Demo) -> None:
    client = demo(SOURCE)
    run = start(client, "steps")
    call = client.start("get_run", run_id=run["run_id"], until="listening", wait=60)
    client.call("get_run", run_id=run["run_id"])
    call.cancel()
    (demo.root / "gate").touch()
    (demo.root / "end").touch()
    assert client.call("get_run", run_id=run["run_id"], wait=60).data["exit_code"] == 0


def test_new_lines_follow_an_earlier_answer(demo: Demo) -> None:
    client = demo(SOURCE)
    run = start(client, "lines", "10", "1")
    first = client.call("get_run", run_id=run["run_id"], until="^10", lines=3).data
    assert (first["stdout"], first["next"]) == ("8\n9\n10\n", "10,0")
    page = client.call("get_run", run_id=run["run_id"], after="4", lines=3).data
    assert (page["stdout"], page["next"]) == ("5\n6\n7\n", "7,0")
    assert "3 more lines follow" in page["note"]
    page = client.call("get_run", run_id=run["run_id"], after=page["next"]).data
    assert (page["stdout"], page["next"]) == ("8\n9\n10\n", "10,0")
    found = client.call("get_run", run_id=run["run_id"], grep="1|3", lines=2).data
    assert found["stdout"] == "3: 3\n10: 10\n"
    assert "the last 2 of 3 lines that match" in found["note"]
    assert client.call("get_run", run_id=run["run_id"], lines=0).data["stdout"] == ""
    (demo.root / "end").touch()
    assert client.call("get_run", run_id=run["run_id"], wait=60).data["exit_code"] == 0


def test_a_prompt_and_a_redrawn_line_are_shown(demo: Demo) -> None:
    client = demo(SOURCE)
    run = start(client, "ask")
    answer = client.call("get_run", run_id=run["run_id"], until="Continue", wait=60).data
    assert answer["stdout"] == "100%\nContinue? [y/N] "
    assert answer["next"] == "1,0"
    assert client.call("stop_run", run_id=run["run_id"]).data["state"] == "stopped"


@pytest.mark.parametrize("more", [{}, {"after": "0"}, {"grep": "x"}, {"grep": "x", "after": "0"}])
def test_an_answer_is_bounded(demo: Demo, more: dict[str, str]) -> None:
    client = demo(SOURCE)
    run = start(client, "lines", "2000", "2500")
    client.call("get_run", run_id=run["run_id"], until="^2000", lines=0)
    answer = client.call("get_run", run_id=run["run_id"], lines=100_000, **more)
    assert 20_000 < len(json.dumps(answer.data, ensure_ascii=False).encode()) <= 40_000
    client.call("stop_run", run_id=run["run_id"])


def test_an_expression_is_checked_and_ended_when_it_is_slow(demo: Demo) -> None:
    client = demo(SOURCE)
    run = start(client, "lines", "3", "60")
    for name in ("until", "grep"):
        refusal = client.call("get_run", run_id=run["run_id"], **{name: "a(b"}).refusal
        assert f"'{name}'" in refusal
        assert "position 1" in refusal
    slow = client.start("get_run", run_id=run["run_id"], grep="(x+x+)+y")
    assert client.run("quick").data["exit_code"] == 0
    assert not slow.answered, "the server answers while the search goes on"
    assert "longer than 3 s" in slow.wait().refusal
    client.call("stop_run", run_id=run["run_id"])


def test_stopping_lets_a_task_clean_up_and_is_idempotent(demo: Demo) -> None:
    client = demo(SOURCE)
    run = start(client, "clean")
    client.call("get_run", run_id=run["run_id"], until="hanging")
    first = client.call("stop_run", run_id=run["run_id"]).data
    assert "cleaned up\n" in first["stdout"]
    assert "cleaned up\n" in Path(first["files"]["stdout"]).read_text()
    second = client.call("stop_run", run_id=run["run_id"]).data
    assert (second["state"], second["stdout"]) == ("stopped", first["stdout"])
    assert "had ended before" in second["note"]
    assert "no run 'r0'" in client.call("stop_run", run_id="r0").refusal


def test_a_timeout_keeps_the_output(demo: Demo) -> None:
    client = demo(SOURCE)
    run = start(client, "hang", timeout=2)
    pid = read_pid(demo.root / "pid")
    answer = client.call("get_run", run_id=run["run_id"], wait=60).data
    assert (answer["state"], answer["exit_code"]) == ("timed_out", None)
    assert answer["stdout"].startswith("hanging\n")
    assert "timeout of 2 s" in answer["note"]
    gone(pid)


def test_a_cancelled_start_stops_the_task(demo: Demo) -> None:
    client = demo(SOURCE)
    call = client.start("run_task", task_name="hang", background=True)
    pid = read_pid(demo.root / "pid")
    call.cancel()
    runs = until(lambda: client.call("get_run").data["runs"], what="the run")
    if runs[0]["state"] != "running":
        gone(pid)
    else:  # it was answered before it could be cancelled
        client.call("stop_run", run_id=runs[0]["run_id"])


def test_a_lost_run_is_reported(demo: Demo) -> None:
    client = demo(SOURCE)
    run = start(client, "crash")
    pid = read_pid(demo.root / "pid")
    (demo.root / "gate").touch()
    answer = client.call("get_run", run_id=run["run_id"], wait=60).data
    assert (answer["state"], answer["stdout"]) == ("lost", "before\n")
    gone(pid)


def test_the_newest_runs_are_listed(demo: Demo) -> None:
    client = demo(SOURCE)
    client.run("quick")
    run = start(client, "steps")
    newest, quick = client.call("get_run").data["runs"][:2]
    assert (newest["run_id"], newest["state"], newest["exit_code"]) == (run["run_id"], "running", None)
    assert (quick["task"], quick["state"], quick["exit_code"]) == ("quick", "ended", 0)
    assert client.call("get_run", run_id=quick["run_id"]).data["stdout"] == "done\n", "also after its call"
    client.call("stop_run", run_id=run["run_id"])


@pytest.mark.long
def test_a_call_is_handed_over(serve: Serve, tmp_path: Path) -> None:
    client = serve(SOURCE, "--hand-over", "2")
    answer = client.run("steps").data
    assert (answer["state"], answer["exit_code"], answer["stdout"]) == ("running", None, "one\n")
    assert f"get_run(run_id='{answer['run_id']}'" in answer["note"]
    assert Path(answer["files"]["stdout"]).read_bytes() == b"\x1b[32mone\x1b[0m\n"
    for name in ("gate", "end"):
        (tmp_path / "project" / name).touch()
    ended = until(lambda: client.call("get_run", run_id=answer["run_id"], wait=60).data)
    assert (ended["exit_code"], ended["stdout"]) == (0, "one\nlistening\n")
    assert "timeout of 1 s" in client.run("hang", timeout=1).refusal


@pytest.mark.long
@pytest.mark.parametrize(("more", "agrees"), [({"background": True}, True), ({}, True), ({"background": True}, False)])
def test_a_call_waits_for_the_person_before_it_is_answered(serve: Serve, more: dict[str, Any], agrees: bool) -> None:
    client: Any = serve(SOURCE, "--confirm", "hang", "--hand-over", "1", kind=Asking)
    call = client.start("run_task", task_name="hang", **more)
    client.until(lambda: client.questions, what="the question")
    time.sleep(2.2)  # longer than the call would last without a question
    assert not call.answered
    (question,) = [message.frame for message in client.messages if message.frame.get("method") == "elicitation/create"]
    client.send({"jsonrpc": "2.0", "id": question["id"], "result": YES if agrees else {"action": "decline"}})
    if agrees:
        answer = call.wait().data
        assert (answer["state"], answer["exit_code"]) == ("running", None)
        assert client.call("stop_run", run_id=answer["run_id"]).data["state"] == "stopped"
    else:
        assert "confirm" in call.wait().refusal


def test_without_background_each_run_ends_with_its_call(serve: Serve) -> None:
    client = serve(SOURCE, "--no-background", "--hand-over", "1")
    tools = client.request("tools/list").wait().result["tools"]
    assert [tool["name"] for tool in tools] == ["list_tasks", "run_task"]
    assert "background" not in json.dumps(tools)
    assert "timeout of 1.5 s" in (refusal := client.run("hang", timeout=1.5).refusal)
    assert "background" not in refusal


@pytest.mark.parametrize("value", ["0", "soon", "-1", "nan"])
def test_a_wrong_hand_over_is_refused(tmp_path: Path, value: str) -> None:
    command = [*QK_MCP, "serve", f"--hand-over={value}"]
    result = subprocess.run(command, env=scrubbed(tmp_path), cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 2
    assert "--hand-over" in result.stderr


@pytest.mark.parametrize("how", ["end of file", "SIGTERM", "SIGKILL"])
def test_runs_end_with_the_server(serve: Serve, tmp_path: Path, how: str) -> None:
    client = serve(SOURCE)
    run = start(client, "hang")
    pid = read_pid(tmp_path / "project" / "pid")
    client.call("get_run", run_id=run["run_id"], until="hanging")
    if how == "end of file":
        client.hang_up()
    else:
        os.kill(client.pid, signal.Signals[how])
    client.exit_code()
    gone(pid)
    assert Path(run["files"]["stdout"]).read_text().startswith("hanging\n")
    assert states(tmp_path / "home") == {run["run_id"]: "lost" if how == "SIGKILL" else "stopped"}


def test_a_run_of_an_earlier_server_is_known(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    client = serve(root)
    run_id = client.run("quick", background=True).data["run_id"]
    client.call("get_run", run_id=run_id, wait=60)
    client.close()
    answer = serve(root).call("get_run", run_id=run_id, grep="o").data
    assert (answer["exit_code"], answer["state"], answer["stdout"]) == (0, "ended", "1: done\n")


def test_a_run_of_another_server_can_be_read_but_not_stopped(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    run = start(serve(root), "hang")
    other = serve(root)
    answer = until(lambda: (now := other.call("get_run", run_id=run["run_id"]).data)["stdout"] and now)
    assert (answer["state"], answer["stdout"]) == ("running", "hanging\n")
    assert "qk-mcp runs stop" in other.call("stop_run", run_id=run["run_id"]).refusal


def test_a_person_can_stop_a_run(serve: Serve, tmp_path: Path) -> None:
    client = serve(SOURCE)
    run = start(client, "hang")
    pid = read_pid(tmp_path / "project" / "pid")
    call = client.start("get_run", run_id=run["run_id"], wait=60)
    command = [*QK_MCP, "runs", "stop", run["run_id"]]
    stopping = subprocess.run(command, env=scrubbed(tmp_path / "home"), capture_output=True, text=True)
    assert stopping.returncode == 0, stopping.stderr
    answer = call.wait().data
    assert answer["state"] == "stopped"
    assert "person" in answer["note"]
    gone(pid)


def test_an_output_that_cannot_be_kept_is_shown_from_memory(serve: Serve, tmp_path: Path) -> None:
    state = tmp_path / "home" / ".local" / "state"
    state.mkdir(parents=True)
    (state / "qk-mcp").write_text("not a directory")
    client = serve(SOURCE)
    run = start(client, "lines", "100", "3")
    until(lambda: client.call("get_run", run_id=run["run_id"]).data["stdout"].endswith("100\n"))
    answer = client.call("get_run", run_id=run["run_id"], lines=2).data
    assert answer["stdout"] == "99x\n100\n"
    assert "incomplete" in answer["note"]
    client.call("stop_run", run_id=run["run_id"])


@pytest.mark.long
def test_too_many_runs_are_refused(serve: Serve) -> None:
    client = serve(SOURCE)
    calls = [client.start("run_task", task_name="hang", background=True) for _ in range(64)]
    runs = [call.wait(300).data["run_id"] for call in calls]
    refusal = client.run("hang", background=True).refusal
    assert "64 tasks" in refusal
    assert runs[0] in refusal
    client.call("stop_run", run_id=runs[0])
    run_id = client.run("quick", background=True).data["run_id"]
    assert client.call("get_run", run_id=run_id, wait=60).data["exit_code"] == 0


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=pytest.mark.long)])
def test_many_runs_leave_nothing(demo: Demo, rounds: int) -> None:
    """Five endings: by itself, stopped, timed out, a cancelled start, and a lost run."""
    client = demo(SOURCE)
    server = psutil.Process(client.pid)

    def held() -> tuple[int, int]:
        found = descriptors(client.pid).values()
        return len([target for target in found if not target.startswith("anon_inode")]), len(zombies(client.pid))

    def one_round() -> None:
        assert client.run("quick", background=True).data["exit_code"] == 0
        run = start(client, "hang")
        client.call("get_run", run_id=run["run_id"], until="hang", grep="hang")
        assert client.call("stop_run", run_id=run["run_id"]).data["state"] == "stopped"
        run = start(client, "hang", timeout=1.5)
        assert client.call("get_run", run_id=run["run_id"], wait=60).data["state"] == "timed_out"
        client.start("run_task", task_name="hang", background=True).cancel()
        run = start(client, "crash")
        (demo.root / "gate").touch()
        assert client.call("get_run", run_id=run["run_id"], wait=60).data["state"] == "lost"
        (demo.root / "gate").unlink()
        until(lambda: all(each["state"] != "running" for each in client.call("get_run").data["runs"]))

    one_round()
    time.sleep(0.2)
    before = held()
    for _ in range(rounds):
        one_round()
    until(lambda: held()[0] <= before[0] and not held()[1], what=f"{before}, not {held()}")
    until(lambda: len(server.children(recursive=True)) <= 2, what="a warm interpreter only")
