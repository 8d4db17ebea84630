"""`qk_mcp.guest.process_tree`: what the supervisor finds and kills, on systems that help it less."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Demo, Serve
from tests.support.client import Client
from tests.support.environment import QK_MCP
from tests.support.namespaces import WITHOUT_CGROUPS, WITHOUT_PROC, needs_namespaces
from tests.support.processes import alive, end, gone, read_pid, until

HOPPING = """
    import os, time
    from pathlib import Path
    from quickie import task

    @task
    def hop():
        for number in range(8):
            if os.fork() == 0:
                hops = 0
                while True:
                    if os.fork():
                        os._exit(0)
                    os.setsid()
                    os.environ.clear()
                    hops += 1
                    if hops == 20:
                        Path(f"{number}.hopping").touch()
                    Path(f"{number}.pid").write_text(f"{os.getpid()}\\n")
        time.sleep(600)
"""


@pytest.mark.long
@pytest.mark.parametrize("world", [[], WITHOUT_CGROUPS], ids=["usual", "without cgroups"])
@needs_namespaces
def test_processes_that_fork_while_they_are_killed_end(
    serve: Serve, project: Callable[..., Path], world: list[str]
) -> None:
    """Each forks and exits all the time, into a session of its own."""
    root = project(HOPPING)
    client = serve(root, command=[*world, *QK_MCP, "serve"])
    call = client.start("run_task", task_name="hop", timeout=60)
    until(lambda: len(list(root.glob("*.hopping"))) == 8, what="all to hop")
    call.cancel()
    files = list(root.glob("*.pid"))

    def at_rest() -> bool:
        before = [file.read_text() for file in files]
        time.sleep(0.3)  # in which each would write many numbers
        return before == [file.read_text() for file in files] and not any(alive(int(pid or 0)) for pid in before)

    until(at_rest, 20, "the hopping processes to end")


CHILDREN = """
    import os, subprocess, time
    from pathlib import Path
    from quickie import task

    @task
    def work():
        for name, environ in (("marked", None), ("bare", {})):
            child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env=environ)
            Path(f"{name}.pid").write_text(f"{child.pid}\\n")
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            Path("orphan.pid").write_text(f"{os.getpid()}\\n")
            os.execv("/bin/sleep", ["sleep", "600"])
        os.wait()
        Path("leader.pid").write_text(f"{os.getpid()}\\n")
        time.sleep(600)

    @task
    def late_mutiny():
        script = f"while kill -0 {os.getpid()}; do sleep 0.02; done; kill -9 {os.getppid()}; sleep 600"
        child = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, env={}, stderr=subprocess.DEVNULL)
        Path("child.pid").write_text(f"{child.pid}\\n")
        time.sleep(600)

    @task
    def mutiny():
        import signal
        child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env={})
        Path("child.pid").write_text(f"{child.pid}\\n")
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
"""


def _kill(client: Client) -> None:
    os.kill(client.pid, signal.SIGKILL)
    client.exit_code()


def _family_of(root: Path) -> dict[str, int]:
    return {name: read_pid(root / f"{name}.pid") for name in ("marked", "bare", "orphan", "leader")}


def _without_ctypes(directory: Path) -> dict[str, str]:
    """Return an environment in which no supervisor can adopt orphans, as on macOS."""
    directory.mkdir()
    (directory / "ctypes.py").write_text("raise ImportError('no ctypes')\n")
    return {"PYTHONPATH": str(directory)}


@pytest.mark.long
@pytest.mark.parametrize("leave", [_kill, Client.hang_up], ids=["killed", "left"])
def test_children_end_with_the_server_where_nobody_adopts_orphans(
    serve: Serve, project: Callable[..., Path], tmp_path: Path, leave: Callable[[Client], None]
) -> None:
    """A child is found by its parent, an orphan by its environment."""
    root = project(CHILDREN)
    client = serve(root, environ=_without_ctypes(tmp_path / "site"))
    client.start("run_task", task_name="work")
    pids = _family_of(root)
    leave(client)
    try:
        gone(*pids.values(), within=20)
    finally:
        end(pids.values())


@pytest.mark.long
def test_a_timeout_ends_all_where_nobody_adopts_orphans(
    serve: Serve, project: Callable[..., Path], tmp_path: Path
) -> None:
    root = project(CHILDREN)
    client = serve(root, environ=_without_ctypes(tmp_path / "site"))
    call = client.start("run_task", task_name="work", timeout=2)
    pids = _family_of(root)
    assert "stopped with all its child processes" in call.wait().refusal
    try:
        assert not any(map(alive, pids.values()))
    finally:
        end(pids.values())


@pytest.mark.long
@needs_namespaces
def test_sessions_end_where_there_is_no_proc(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(CHILDREN)
    client = serve(root, command=[*WITHOUT_PROC, *QK_MCP, "serve"])
    call = client.start("run_task", task_name="work", timeout=3)
    pids = _family_of(root)
    assert "timeout of 3 s" in call.wait().refusal
    try:
        gone(*pids.values(), within=5)
    finally:
        end(pids.values())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a supervisor adopt orphans")
@pytest.mark.parametrize("world", [[], pytest.param(WITHOUT_CGROUPS, marks=needs_namespaces)], ids=["usual", "without"])
def test_a_session_ends_although_the_task_has_killed_its_supervisor(
    serve: Serve, project: Callable[..., Path], world: list[str]
) -> None:
    root = project(CHILDREN)
    client = serve(root, command=[*world, *QK_MCP, "serve"])
    refusal = client.run("mutiny").refusal
    assert "was lost" in refusal
    child = read_pid(root / "child.pid")
    try:
        assert not alive(child)
    finally:
        end([child])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a supervisor adopt orphans")
def test_what_the_supervisor_had_found_ends_although_it_is_killed_during_the_stop(demo: Demo) -> None:
    client = demo(CHILDREN)
    assert "timeout of 2 s" in client.run("late-mutiny", timeout=2).refusal
    child = read_pid(demo.root / "child.pid")
    try:
        gone(child, within=5)
    finally:
        end([child])
