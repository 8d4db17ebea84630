"""`qk_mcp.guest.cgroup`: a tree in a control group of its own, through the wire."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from qk_mcp.guest.cgroup import create_cgroup, remove_cgroup
from tests.conftest import Demo, Serve
from tests.support.environment import QK_MCP
from tests.support.namespaces import WITHOUT_KILL, needs_namespaces
from tests.support.processes import alive, end, gone, read_pid, until

SOURCE = """
    import os, signal, subprocess, time
    from pathlib import Path
    from quickie import task

    def hermit():
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            Path("child.pid").write_text(f"{os.getpid()}\\n")
            null = os.open("/dev/null", os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            os.execve("/bin/sleep", ["sleep", "600"], {})
        os.wait()

    @task
    def group():
        print(next(line for line in open("/proc/self/cgroup") if line.startswith("0::")), end="")

    @task
    def leave():
        hermit()
        group()

    @task
    def mutiny():
        hermit()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)

    @task
    def escape():
        child = subprocess.Popen(["/bin/sleep", "600"], user=12345, start_new_session=True)
        Path("child.pid").write_text(f"{child.pid}\\n")
        time.sleep(600)
"""


def _abandoned_group(name: str) -> str | None:
    """Return a group whose process has been killed, or None if no group can be made here."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        path = create_cgroup(name, process.pid)
        process.kill()
    return path


def _delegated() -> bool:
    path = _abandoned_group("test")
    if path:
        remove_cgroup(path)
    return path is not None


pytestmark = pytest.mark.skipif(not _delegated(), reason="no control group is delegated to this user")


@pytest.mark.long
def test_each_tree_has_a_group_that_is_removed(demo: Demo) -> None:
    client = demo(SOURCE)
    first, second = (client.run("group").data["stdout"] for _ in range(2))
    assert "/qk-mcp-" in first
    assert first != second
    assert not _groups_named(first)


def test_what_a_task_leaves_running_leaves_the_group(demo: Demo) -> None:
    client = demo(SOURCE)
    answer = client.run("leave").data
    child = read_pid(demo.root / "child.pid")
    try:
        assert [each["pid"] for each in answer["left_running"]] == [child]
        assert alive(child)
        assert "qk-mcp-" not in Path(f"/proc/{child}/cgroup").read_text()
        assert not _groups_named(answer["stdout"])
    finally:
        end([child])


def test_an_orphan_ends_although_the_task_has_killed_its_supervisor(demo: Demo) -> None:
    """Nothing but the group connects it with the run."""
    client = demo(SOURCE)
    assert "was lost" in client.run("mutiny").refusal
    child = read_pid(demo.root / "child.pid")
    try:
        gone(child, within=5)
    finally:
        end([child])


@pytest.mark.long
@needs_namespaces
def test_processes_of_another_user_end(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    client = serve(root, command=[*WITHOUT_KILL, *QK_MCP, "serve"])
    call = client.start("run_task", task_name="escape", timeout=2)
    child = read_pid(root / "child.pid")
    try:
        assert "stopped with all its child processes" in call.wait().refusal
        gone(child, within=5)
    finally:
        end([child])


def test_groups_of_killed_processes_are_removed_at_the_next_start(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    group = _abandoned_group("stale")
    assert group
    serve(root).call("list_tasks")
    until(lambda: not Path(group).exists(), 20, "the group to be removed")


def _groups_named(line: str) -> list[Path]:
    return list(Path("/sys/fs/cgroup").rglob(Path(line.strip()).name))
