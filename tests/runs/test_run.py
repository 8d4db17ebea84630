"""`qk_mcp.runs.run`: the limits of a run and its end, through the wire."""

import os
import resource
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from qk_mcp.runs.run import Request
from tests.conftest import Demo
from tests.support.processes import alive, end, gone, read_pid, until

LEAVES_A_CHILD = """
    import os, subprocess, time
    from pathlib import Path
    from quickie import task

    @task
    def leave():
        child = subprocess.Popen(["sleep", "600"])
        Path("child.pid").write_text(f"{child.pid}\\n")
        Path("task.pid").write_text(f"{os.getpid()}\\n")
        print("x" * 100_000)
        Path("ready").touch()
        while not os.path.exists("gate"):
            time.sleep(0.01)
"""

ASKS = """
    import os, sys, time
    from quickie import task

    @task
    def ask():
        print("Working: 3 of 5")
        print("Overwrite config? [y/N] ", end="", flush=True)
        time.sleep(600)

    @task
    def edit():
        os.write(1, b"\\x1b[?1049h\\x1b[1;1H~")
        time.sleep(600)

    @task
    def work():
        print("[#####     ]", end="", flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize(
    ("task", "cause"), [("ask", "asked 'Overwrite config? [y/N]'"), ("edit", "opened a full-screen program")]
)
def test_a_task_that_waits_for_a_person_is_explained(demo: Demo, task: str, cause: str) -> None:
    refusal = demo(ASKS).call("run_task", task_name=task, timeout=3).refusal
    assert f"It {cause}" in refusal
    assert "no terminal" in refusal
    assert "larger `timeout`" not in refusal


def test_a_task_that_is_slow_needs_a_larger_timeout(demo: Demo) -> None:
    refusal = demo(ASKS).call("run_task", task_name="work", timeout=3).refusal
    assert "larger `timeout`" in refusal
    assert "terminal" not in refusal


@pytest.mark.parametrize(
    ("timeout", "grace", "begins"),
    [(None, 0.5, None), (9, 5, 9), (60, 0.5, 58.5), (60, 0, 58.5), (60, 10.5, 48.5), (60, 600, 30)],
)
def test_a_long_timeout_includes_the_stop(timeout: float | None, grace: float, begins: float | None) -> None:
    request = Request(task="work", timeout=timeout, bounds_call=True, grace=grace, output=Path("output"))
    assert request.limit == begins


@pytest.mark.long
def test_a_long_timeout_bounds_the_call(demo: Demo) -> None:
    call = demo(ASKS).start("run_task", task_name="work", timeout=10)
    assert "timeout of 10 s" in call.wait().refusal
    assert call.wait().at - call.sent_at < 10


@pytest.mark.long
def test_a_task_that_ended_while_the_server_was_suspended_has_not_timed_out(demo: Demo) -> None:
    client = demo(LEAVES_A_CHILD)
    call = client.start("run_task", task_name="leave", timeout=5)
    child = read_pid(demo.root / "child.pid")
    client.hear("xxx")
    until(lambda: (demo.root / "ready").exists(), what="the task to print")
    os.kill(client.pid, signal.SIGSTOP)
    try:
        (demo.root / "gate").touch()
        gone(read_pid(demo.root / "task.pid"))
        time.sleep(max(0.0, call.sent_at + 5.5 - time.monotonic()))  # past the timeout
    finally:
        os.kill(client.pid, signal.SIGCONT)
    try:
        answer = call.wait().data
        assert answer["exit_code"] == 0
        assert alive(child), "what a task leaves running on purpose stays"
        assert [each["pid"] for each in answer["left_running"]] == [child]
    finally:
        end([child])


@pytest.mark.skipif(sys.platform != "linux", reason="changes the limits of another process")
def test_a_failure_at_the_end_of_a_run_does_not_lose_the_answer(demo: Demo) -> None:
    """The server has no descriptor left when the task ends."""
    client = demo(LEAVES_A_CHILD)
    server = psutil.Process(client.pid)
    call = client.start("run_task", task_name="leave", timeout=60)
    child = read_pid(demo.root / "child.pid")
    client.hear("xxx")
    until(lambda: (demo.root / "ready").exists(), what="the task to print")
    limits = server.rlimit(resource.RLIMIT_NOFILE)
    try:
        server.rlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        (demo.root / "gate").touch()
        answer = call.wait().data
    finally:
        server.rlimit(resource.RLIMIT_NOFILE, limits)
        end([child])
    assert answer["exit_code"] == 0
    assert answer["stdout"].startswith("xxx")
    assert "could not" in answer["note"]
    assert client.run("leave").data["exit_code"] == 0, "the server goes on"
    end([read_pid(demo.root / "child.pid")])


@pytest.mark.skipif(sys.platform != "linux", reason="the supervisor knows the whole tree on Linux only")
def test_many_children_are_listed_in_part(demo: Demo) -> None:
    client = demo("""
        import subprocess
        from quickie import task

        @task
        def leave():
            for _ in range(60):
                subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
    """)
    before = set(psutil.pids())
    try:
        answer = client.run("leave", timeout=60).data
        assert len(answer["left_running"]) == 20
        assert "40 more processes" in answer["note"]
    finally:
        end(each.pid for each in psutil.process_iter(["name"]) if each.pid not in before and each.name() == "sleep")
