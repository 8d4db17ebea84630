"""Stopping a run early ends its whole process tree, and nothing else."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Demo, Serve
from tests.support.client import LEGACY, MODERN, Call, Client
from tests.support.environment import QK_MCP, scrubbed
from tests.support.environments import make_script, make_venv
from tests.support.namespaces import WITHOUT_CGROUPS, WITHOUT_KILL, needs_namespaces
from tests.support.processes import alive, end, gone, read_pid, tree, until

FAMILY = """
    import os, shutil, signal, time
    from pathlib import Path
    from quickie import task

    SLEEP = shutil.which("sleep")

    def child(name, *, session=False, group=False, deaf=False, orphan=False, bare=False, stopped=False):
        first = os.fork()
        if first:
            if orphan:
                os.waitpid(first, 0)
            return
        if session:
            os.setsid()
        if group:
            os.setpgid(0, 0)
        if deaf:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # inherited by the executed program
        if orphan and os.fork():
            os._exit(0)
        Path(name + ".pid").write_text(f"{os.getpid()}\\n")
        if stopped:
            os.kill(os.getpid(), signal.SIGSTOP)
        os.execve(SLEEP, ["sleep", "600"], {} if bare else os.environ)

    def bear_children():
        child("plain")
        child("deaf", deaf=True)
        child("session", session=True)
        child("group", group=True)
        child("stopped", stopped=True)
        child("orphan", orphan=True)
        child("bare", bare=True, session=True)
        child("hermit", session=True, deaf=True, orphan=True, bare=True)

    def last():
        print("ready", flush=True)
        Path("leader.pid").write_text(f"{os.getpid()}\\n")
        time.sleep(600)

    @task
    def family():
        bear_children()
        last()

    @task
    def deaf_family():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        bear_children()
        last()

    @task
    def deaf():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        last()
"""
MEMBERS = ("plain", "deaf", "session", "group", "stopped", "orphan", "bare", "hermit", "leader")


@pytest.fixture
def family(project: Callable[..., Path]) -> Path:
    """A project whose tasks have children of every kind."""
    return project(FAMILY)


def members(root: Path) -> dict[str, int]:
    """Wait for all processes of the family and return their ids."""
    return {name: read_pid(root / f"{name}.pid") for name in MEMBERS}


def all_gone(pids: dict[str, int], within: float) -> None:
    """Fail if not all end in time; then end them and name them."""
    try:
        until(lambda: not any(map(alive, pids.values())), within)
    except AssertionError:
        left = [name for name, pid in pids.items() if alive(pid)]
        end(pids.values())
        raise AssertionError(f"left running: {left}") from None


# The whole tree


@pytest.mark.parametrize("task", ["family", "deaf-family"])
def test_a_timeout_ends_the_whole_tree(demo: Demo, task: str) -> None:
    client = demo(FAMILY)
    call = client.start("run_task", task_name=task, timeout=2)
    answer = call.wait()
    pids = members(demo.root)
    all_gone(pids, 1)
    assert "2 s" in answer.refusal
    assert "ready" in answer.refusal, "the answer contains the output so far"
    assert answer.at - call.sent_at < 2 + 2 + 1, "two seconds to stop it, and one for a busy machine"


@pytest.mark.long
@needs_namespaces
def test_processes_that_cannot_be_killed_are_named(serve: Serve, project: Callable[..., Path]) -> None:
    """As those of `sudo`: here, root without the right to signal others, and a child of another user."""
    root = project("""
        import subprocess, time
        from pathlib import Path
        from quickie import task

        @task
        def escape():
            child = subprocess.Popen(["/bin/sleep", "600"], user=12345, start_new_session=True)
            Path("child.pid").write_text(f"{child.pid}\\n")
            time.sleep(600)
    """)
    client = serve(root, command=[*WITHOUT_CGROUPS, *WITHOUT_KILL, *QK_MCP, "serve"])
    call = client.start("run_task", task_name="escape", timeout=2)
    child = read_pid(root / "child.pid")
    try:
        refusal = call.wait().refusal
        assert f"it was stopped, but these of its processes cannot be killed: {child} /bin/sleep 600" in refusal
        assert alive(child)
    finally:
        end([child])


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a supervisor adopt orphans")
def test_hundreds_of_nested_sessions_end(demo: Demo) -> None:
    """Killed one level at a time, they take longer than a stop may take."""
    client = demo("""
        import os, time
        from pathlib import Path
        from quickie import task

        @task
        def nest():
            for level in range(400):
                if os.fork():
                    break
                os.setsid()
                os.environ.clear()
                with open("pids", "a") as pids:
                    pids.write(f"{os.getpid()}\\n")
            time.sleep(600)
    """)
    call = client.start("run_task", task_name="nest")
    pids = demo.root / "pids"
    until(lambda: pids.exists() and len(pids.read_text().splitlines()) == 400, 200, "all sessions")
    call.cancel()
    nested = {pid: int(pid) for pid in pids.read_text().split()}
    all_gone(nested, 5)


@pytest.mark.parametrize("task", ["family", "deaf-family"])
def test_a_cancelled_call_ends_the_whole_tree_and_is_not_answered(demo: Demo, task: str) -> None:
    client = demo(FAMILY)
    call = client.start("run_task", task_name=task)
    pids = members(demo.root)
    call.cancel()
    all_gone(pids, 10)
    assert client.call("list_tasks").data[0]["project"] == "demo"
    assert not call.answered


def test_a_client_of_the_newest_revision_can_cancel(serve: Serve, family: Path) -> None:
    client = serve(family, version=MODERN)
    call = client.start("run_task", task_name="family", progress=True)
    pids = members(family)
    call.first_report()
    call.cancel()
    all_gone(pids, 10)
    assert client.call("list_tasks").data[0]["project"] == "demo"
    assert not call.answered


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a supervisor adopt orphans")
def test_a_task_that_kills_its_supervisor_is_reported_as_lost(demo: Demo) -> None:
    client = demo("""
        import os, signal, subprocess, time
        from pathlib import Path
        from quickie import task

        @task
        def mutiny():
            child = subprocess.Popen(["sleep", "600"])
            Path("child.pid").write_text(f"{child.pid}\\n")
            Path("leader.pid").write_text(f"{os.getpid()}\\n")
            print("last output")
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
    """)
    refusal = client.call("run_task", task_name="mutiny", timeout=60).refusal
    assert "last output" in refusal
    gone(*(read_pid(demo.root / f"{name}.pid") for name in ("child", "leader")))
    assert client.call("list_tasks").data[0]["tasks"]


def hang_up(client: Client) -> None:
    client.hang_up()


def vanish(client: Client) -> None:
    client.vanish()


def terminate(client: Client) -> None:
    os.kill(client.pid, signal.SIGTERM)


def interrupt(client: Client) -> None:
    os.kill(client.pid, signal.SIGINT)


def drop_the_line(client: Client) -> None:
    os.kill(client.pid, signal.SIGHUP)


def interrupt_as_a_terminal_does(client: Client) -> None:
    os.killpg(client.pid, signal.SIGINT)


_LONG_WAYS = (vanish, interrupt, drop_the_line)
WAYS = [
    hang_up,
    terminate,
    interrupt_as_a_terminal_does,
    *(pytest.param(way, marks=pytest.mark.long) for way in _LONG_WAYS),
]


@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
def test_a_server_that_ends_stops_every_tree(serve: Serve, family: Path, leave: Callable[[Client], None]) -> None:
    client = serve(family)
    client.start("run_task", task_name="family")
    pids = members(family)
    leave(client)
    client.exit_code(within=10)
    all_gone(pids, 1)


@pytest.mark.parametrize("leave", [hang_up, terminate], ids=lambda way: way.__name__)
def test_a_tree_that_ignores_signals_ends_before_a_client_kills_the_server(
    serve: Serve, family: Path, leave: Callable[[Client], None]
) -> None:
    """Clients send SIGTERM two seconds after they closed stdin, and SIGKILL two seconds later."""
    client = serve(family)
    client.start("run_task", task_name="deaf-family")
    pids = members(family)
    began = time.monotonic()
    leave(client)
    client.exit_code(within=10)
    assert time.monotonic() - began < 4
    all_gone(pids, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a supervisor adopt orphans")
def test_a_killed_server_leaves_no_process(serve: Serve, family: Path) -> None:
    client = serve(family)
    client.start("run_task", task_name="deaf-family")
    pids = members(family)
    os.kill(client.pid, signal.SIGKILL)
    assert client.exit_code() == -signal.SIGKILL
    all_gone(pids, 10)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a supervisor adopt orphans")
def test_a_task_without_descriptors_ends_with_a_killed_server(serve: Serve, project: Callable[..., Path]) -> None:
    root = project("""
        import os, time
        from pathlib import Path
        from quickie import task

        @task
        def daemon():
            os.closerange(0, 1024)
            if os.fork() == 0:
                os.setsid()
                Path("child.pid").write_text(f"{os.getpid()}\\n")
                time.sleep(600)
            Path("leader.pid").write_text(f"{os.getpid()}\\n")
            time.sleep(600)
    """)
    client = serve(root)
    client.start("run_task", task_name="daemon")
    pids = {name: read_pid(root / f"{name}.pid") for name in ("child", "leader")}
    os.kill(client.pid, signal.SIGKILL)
    all_gone(pids, 10)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a supervisor adopt orphans")
def test_a_server_killed_during_a_start_leaves_no_process(serve: Serve, family: Path) -> None:
    for moment in (0, 0.05, 0.2):
        client = serve(family)
        client.start("run_task", task_name="deaf")
        time.sleep(moment)
        os.kill(client.pid, signal.SIGKILL)
        client.exit_code()
    # The fixture checks that no process with its servers' mark lives.


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_second_signal_stops_at_once(serve: Serve, family: Path, first: signal.Signals) -> None:
    client = serve(family)
    client.start("run_task", task_name="deaf-family")
    pids = members(family)
    os.kill(client.pid, first)
    time.sleep(0.1)
    os.kill(client.pid, first)
    client.exit_code(within=10)
    all_gone(pids, 1)


def test_a_signal_while_the_client_has_hung_up_stops_at_once(serve: Serve, family: Path) -> None:
    client = serve(family)
    client.start("run_task", task_name="deaf-family")
    pids = members(family)
    client.hang_up()
    time.sleep(0.1)
    os.kill(client.pid, signal.SIGTERM)
    client.exit_code(within=10)
    all_gone(pids, 1)


@pytest.mark.long
def test_a_hundred_runs_at_once_and_then_the_client_leaves(serve: Serve, project: Callable[..., Path]) -> None:
    root = project("""
        import os, time
        from pathlib import Path
        from quickie import Arg, task

        @task(args=[Arg("number")])
        def member(number):
            Path(f"{number}.pid").write_text(f"{os.getpid()}\\n")
            while not (int(number) < 10 and Path("go").exists()):
                time.sleep(0.2)
            print(number)
    """)
    client = serve(root)
    calls = [client.start("run_task", task_name="member", args=[str(n)], timeout=600) for n in range(110)]
    until(lambda: len(list(root.glob("*.pid"))) == 110, 200, "all runs under way")
    pids = {str(number): read_pid(root / f"{number}.pid") for number in range(110)}
    assert client.request("ping").wait().result == {}
    (root / "go").touch()
    assert [call.wait().data["stdout"] for call in calls[:10]] == [f"{number}\n" for number in range(10)]
    assert not any(call.answered for call in calls[10:])
    client.hang_up()
    client.exit_code(within=10)
    all_gone(pids, 1)


@pytest.mark.parametrize("leave", [hang_up, terminate, interrupt], ids=lambda way: way.__name__)
def test_an_idle_server_exits_cleanly(serve: Serve, family: Path, leave: Callable[[Client], None]) -> None:
    client = serve(family)
    leave(client)
    code = client.exit_code(within=10)
    assert code in ({0} if leave is hang_up else {0, 130, 143, -2, -15}), code


def test_a_server_without_initialize_ends_with_stdin(serve: Serve, family: Path) -> None:
    client = serve(family, version="")
    client.hang_up()
    assert client.exit_code() == 0
    assert client.messages == []


# Clean-up


def test_cleanup_tasks_run_when_a_run_is_stopped(demo: Demo) -> None:
    client = demo("""
        import os, time
        from pathlib import Path
        from quickie import task

        @task
        def tidy():
            Path("tidied").touch()

        @task(cleanup=[tidy])
        def work():
            Path("leader.pid").write_text(f"{os.getpid()}\\n")
            time.sleep(600)
    """)
    call = client.start("run_task", task_name="work")
    pid = read_pid(demo.root / "leader.pid")
    call.cancel()
    gone(pid)
    assert (demo.root / "tidied").exists()


GRACE = """
    import os, time
    from pathlib import Path
    from quickie import task

    @task
    def slow():
        Path("leader.pid").write_text(f"{os.getpid()}\\n")
        try:
            time.sleep(600)
        finally:
            Path("interrupted").touch()
            time.sleep(1.5)
            print("cleaned up")
            Path("cleaned").touch()
            while Path("stay").exists():
                time.sleep(0.01)
"""


@pytest.fixture
def patient(serve: Serve, project: Callable[..., Path], tmp_path: Path) -> tuple[Client, Path]:
    """A server whose project has thirty seconds for clean-up, and the project's root."""
    root = project(GRACE)
    config = tmp_path / "config.toml"
    config.write_text(f"[projects.demo]\npath = {str(root)!r}\ngrace = 30\n")
    return serve(None, "--config", str(config)), root


@pytest.mark.long
def test_a_project_can_give_its_tasks_time_for_clean_up(patient: tuple[Client, Path]) -> None:
    client, root = patient
    assert "cleaned up" in client.run("slow", timeout=1.5).refusal
    (root / "leader.pid").unlink()
    (root / "cleaned").unlink()
    call = client.start("run_task", task_name="slow")
    pid = read_pid(root / "leader.pid")
    call.cancel()
    gone(pid)
    assert (root / "cleaned").exists()


def test_a_client_that_leaves_does_not_wait_for_clean_up(patient: tuple[Client, Path]) -> None:
    client, root = patient
    (root / "stay").touch()
    client.start("run_task", task_name="slow")
    pid = read_pid(root / "leader.pid")
    began = time.monotonic()
    client.hang_up()
    client.exit_code(within=10)
    assert time.monotonic() - began < 4
    assert (root / "interrupted").exists()
    gone(pid)


def test_a_suspended_task_cleans_up_when_it_is_stopped(demo: Demo) -> None:
    """A suspended process handles no signal but SIGKILL until it is continued."""
    client = demo("""
        import os, signal, time
        from pathlib import Path
        from quickie import task

        @task
        def suspend():
            Path("leader.pid").write_text(f"{os.getpid()}\\n")
            try:
                os.kill(0, signal.SIGSTOP)
                time.sleep(600)
            finally:
                print("cleaned up")
    """)
    assert "cleaned up" in client.run("suspend", timeout=2).refusal
    gone(read_pid(demo.root / "leader.pid"))


def test_the_answer_contains_output_printed_during_the_stop(demo: Demo) -> None:
    client = demo("""
        import sys, time
        from quickie import task

        @task
        def talk():
            print("first words")
            print("a complaint", file=sys.stderr)
            try:
                time.sleep(600)
            finally:
                print("last words")
    """)
    refusal = client.call("run_task", task_name="talk", timeout=1.5).refusal
    for words in ("first words", "a complaint", "last words"):
        assert words in refusal


def test_a_timeout_while_the_project_is_still_being_loaded(demo: Demo) -> None:
    client = demo("""
        import os, time
        from pathlib import Path
        from quickie import task

        if not Path("listed").exists():
            Path("leader.pid").write_text(f"{os.getpid()}\\n")
            time.sleep(600)

        @task
        def never(): ...
    """)
    refusal = client.call("run_task", task_name="never", timeout=1.5).refusal
    assert "1.5 s" in refusal
    gone(read_pid(demo.root / "leader.pid"))


# Processes that a task leaves running on purpose

LEAVE = """
    import subprocess, sys
    from pathlib import Path
    from quickie import task

    @task
    def leave():
        subprocess.Popen([sys.executable, "child.py"], start_new_session={session})
        while not Path("count").exists():
            pass
        sys.exit(3)
"""
CHILD = """
    import os, time
    from pathlib import Path

    Path("child.pid").write_text(f"{os.getpid()}\\n")
    number = 0
    while True:
        print("x" * 1000, flush=True)  # must not fail although the reader has gone
        number += 1
        Path("new").write_text(str(number))
        Path("new").rename("count")
        time.sleep(0.002)
"""


@pytest.mark.parametrize("session", [True, False], ids=["own session", "same session"])
def test_a_child_that_holds_the_pipes_does_not_hold_up_the_answer_and_lives(demo: Demo, session: bool) -> None:
    client = demo({"_qk/__init__.py": LEAVE.format(session=session), "child.py": CHILD})
    answer = client.call("run_task", task_name="leave", timeout=60).data
    child = read_pid(demo.root / "child.pid")
    try:
        assert answer["exit_code"] == 3
        assert [entry["pid"] for entry in answer["left_running"]] == [child]
        assert sys.executable in answer["left_running"][0]["command"]
        count = int((demo.root / "count").read_text())
        # More than the pipe holds, so that a child would block if nobody read its output.
        until(lambda: int((demo.root / "count").read_text()) > count + 200, what="the child to go on")
    finally:
        end([child])


def test_a_process_left_running_outlives_the_server(serve: Serve, project: Callable[..., Path]) -> None:
    root = project("""
        import os, subprocess
        from pathlib import Path
        from quickie import task

        @task
        def leave():
            child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            Path("child.pid").write_text(f"{child.pid}\\n")
    """)
    client = serve(root)
    assert client.run("leave").data["left_running"][0]["command"] == "sleep 600"
    child = read_pid(root / "child.pid")
    try:
        client.hang_up()
        client.exit_code()
        time.sleep(0.5)
        assert alive(child)
    finally:
        end([child])


@pytest.mark.parametrize("leave", [Client.hang_up, lambda client: client.process.kill()], ids=["left", "killed"])
def test_a_process_left_running_may_write_after_the_server_has_ended(
    serve: Serve, project: Callable[..., Path], leave: Callable[[Client], None]
) -> None:
    root = project("""
        import subprocess
        from pathlib import Path
        from quickie import task

        @task
        def leave():
            loop = "while :; do echo line; echo error >&2; date >alive; sleep 0.1; done"
            child = subprocess.Popen(["sh", "-c", loop])
            Path("child.pid").write_text(f"{child.pid}\\n")
    """)
    client = serve(root)
    assert client.run("leave").data["exit_code"] == 0
    child = read_pid(root / "child.pid")
    try:
        leave(client)
        client.exit_code()
        (root / "alive").unlink()
        time.sleep(1)
        assert alive(child)
        assert (root / "alive").exists()
    finally:
        end([child])


@pytest.mark.long
def test_a_task_that_suspends_its_supervisor_is_stopped(demo: Demo) -> None:
    """Only the supervisor can find its child of another session and environment."""
    client = demo("""
        import os, signal, subprocess, time
        from pathlib import Path
        from quickie import task

        @task
        def freeze():
            child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env={})
            Path("child.pid").write_text(f"{child.pid}\\n")
            Path("task.pid").write_text(f"{os.getpid()}\\n")
            os.kill(os.getppid(), signal.SIGSTOP)
            time.sleep(600)
    """)
    refusal = client.call("run_task", task_name="freeze", timeout=2).refusal
    assert "timeout of 2 s" in refusal
    pids = [read_pid(demo.root / f"{name}.pid") for name in ("task", "child")]
    try:
        gone(*pids)
    finally:
        end(pids)
    assert client.run("freeze", timeout=2).is_error


def test_children_that_have_ended_are_not_reported(demo: Demo) -> None:
    client = demo("""
        import subprocess
        from quickie import task

        @task
        def wait():
            subprocess.run(["sleep", "0.1"])
            subprocess.Popen(["true"])
    """)
    assert set(client.run("wait").data) == {"exit_code", "stdout", "stderr"}


# Cancelling


@pytest.mark.long
def test_cancelling_at_every_moment(demo: Demo) -> None:
    client = demo("""
        import os, time
        from pathlib import Path
        from quickie import task

        @task
        def work():
            Path(f"{os.getpid()}.pid").write_text(f"{os.getpid()}\\n")
            print("at work")
            time.sleep(0.2)
            print("done")
    """)
    for moment in range(25):
        call = client.start("run_task", task_name="work", progress=True)
        time.sleep(moment * 0.015)
        call.cancel()
    assert client.run("work").data["stdout"] == "at work\ndone\n"
    gone(*(read_pid(file) for file in demo.root.glob("*.pid")))


def test_cancelling_twice_after_the_end_and_without_a_call(demo: Demo) -> None:
    client = demo(FAMILY)
    call = client.start("list_tasks")
    call.wait()
    call.cancel()
    Call(client, 9999, "tools/call", 0).cancel()
    run = client.start("run_task", task_name="deaf")
    pid = read_pid(demo.root / "leader.pid")
    run.cancel()
    run.cancel()
    assert client.call("list_tasks").data[0]["tasks"]
    gone(pid)
    assert not run.answered


def test_cancelling_one_of_two_runs_does_not_affect_the_other(demo: Demo) -> None:
    client = demo("""
        import os, time
        from pathlib import Path
        from quickie import Arg, task

        @task(args=[Arg("name")])
        def member(name):
            Path(f"{name}.pid").write_text(f"{os.getpid()}\\n")
            while not Path("go").exists():
                time.sleep(0.01)
            print(name)
    """)
    one, two = (client.start("run_task", task_name="member", args=[name]) for name in ("one", "two"))
    pids = [read_pid(demo.root / f"{name}.pid") for name in ("one", "two")]
    one.cancel()
    gone(pids[0])
    assert alive(pids[1])
    (demo.root / "go").touch()
    assert two.wait().data["stdout"] == "two\n"


# Before the task has begun


def _below(pid: int) -> list[int]:
    return [each for each in tree(pid) if each != pid]


DEPLOY = """
    import os
    from pathlib import Path
    from quickie import task

    @task
    def deploy():
        print("deployed", flush=True)
        Path("deployed").touch()
"""


def test_a_run_cancelled_before_it_begins_never_begins(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(DEPLOY)
    client = serve(root, "--no-warm")
    for pause in (0, 0, 0.01, 0.02):
        call = client.start("run_task", task_name="deploy")
        time.sleep(pause)
        call.cancel()
    assert client.run("deploy", timeout=0.01).refusal
    until(lambda: not _below(client.pid))
    assert not (root / "deployed").exists()


def test_a_run_that_timed_out_before_it_began_did_nothing(serve: Serve, project: Callable[..., Path]) -> None:
    """If the answer says that the task has not begun, it has not."""
    root = project(DEPLOY)
    client = serve(root, "--no-warm")
    for hundredths in range(1, 30, 4):
        answer = client.run("deploy", timeout=hundredths / 100)
        if answer.is_error and "did not start within" in answer.text:
            assert "deployed" not in answer.text
            assert not (root / "deployed").exists()
        (root / "deployed").unlink(missing_ok=True)


def test_a_run_whose_server_ends_before_it_begins_never_begins(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(DEPLOY)
    client = serve(root, "--no-warm")
    client.start("run_task", task_name="deploy")
    time.sleep(0.005)
    client.process.terminate()
    client.process.wait(30)
    gone(*_below(client.pid))
    time.sleep(0.5)
    assert not (root / "deployed").exists()


@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
def test_an_interpreter_that_never_gets_ready_is_killed(
    serve: Serve, project: Callable[..., Path], leave: Callable[[Client], None]
) -> None:
    root = project(DEPLOY)
    make_venv(root / ".venv", quickie="1.0.0")
    (root / ".venv" / "bin" / "python").unlink()
    make_script(root / ".venv" / "bin" / "python", "#!/bin/sh", f"echo $$ > {root}/pid", "exec sleep 600")
    client = serve(root, "--describe-timeout", "0.5", "--no-warm")  # a warm guest would write its pid, too
    began = time.monotonic()
    assert "did not start within" in client.run("deploy", timeout=0.5).refusal
    assert time.monotonic() - began < 10, "the answer waited for the interpreter"
    gone(read_pid(root / "pid"))
    (root / "pid").unlink()
    client.start("run_task", task_name="deploy")
    pid = read_pid(root / "pid")
    leave(client)
    client.process.wait(30)
    gone(pid)


def test_an_interpreter_that_does_not_start_is_reported(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(DEPLOY)
    make_venv(root / ".venv", quickie="1.0.0")
    (root / ".venv" / "bin" / "python").unlink()
    make_script(root / ".venv" / "bin" / "python", "#!/bin/sh", "echo 'libpython is missing' >&2", "exit 127")
    refusal = serve(root).run("deploy").refusal
    assert "its interpreter ended with exit code 127 while the tasks were loaded" in refusal
    assert "libpython is missing" in refusal


# Kept output


def test_the_output_of_a_cancelled_run_is_kept_and_a_timeout_names_its_own(demo: Demo) -> None:
    client = demo("""
        import sys, time
        from pathlib import Path
        from quickie import task

        @task
        def much():
            print("x" * 200_000)
            print("y" * 200_000, file=sys.stderr, flush=True)
            Path("ready").touch()
            time.sleep(600)
    """)
    outputs = demo.root.parent / "home" / ".local" / "state" / "qk-mcp" / "outputs"
    before = set(outputs.glob("*"))
    call = client.start("run_task", task_name="much")
    until((demo.root / "ready").exists)
    call.cancel()
    sizes = {".stdout": 200_001, ".stderr": 200_001}

    def new_files() -> set[Path]:
        return {file for file in outputs.glob("*.std*") if file not in before}

    until(lambda: {file.suffix: file.stat().st_size for file in new_files()} == sizes, what="complete outputs")
    before |= new_files()
    refusal = client.run("much", timeout=2).refusal
    for name in ("stdout", "stderr"):
        [kept] = [file for file in new_files() if file.suffix == f".{name}"]
        assert str(kept) in refusal


@pytest.mark.long
def test_half_a_hang_up_ends_the_server(tmp_path: Path, project: Callable[..., Path]) -> None:
    """Node gives its children a socket as stdin, and closes only one direction of it."""
    root = project("""
        from quickie import task

        @task
        def flood():
            while True:
                print("x" * 1000)
    """)
    ours, theirs = socket.socketpair()
    with subprocess.Popen(
        [*QK_MCP, "serve", "--project", f"demo:{root}"],
        stdin=theirs.fileno(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=scrubbed(tmp_path / "home"),
    ) as server:
        theirs.close()
        assert server.stdout
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        flood = {"name": "run_task", "arguments": {"task_name": "flood"}}
        for message in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": flood},
        ):
            ours.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdout.readline()
        until(lambda: len(_below(server.pid)) > 1)
        time.sleep(2)  # nobody reads, and the pipe is full
        running = _below(server.pid)
        ours.shutdown(socket.SHUT_WR)
        server.wait(10)
        ours.close()
    gone(*running)
