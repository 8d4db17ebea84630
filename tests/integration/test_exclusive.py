"""Tasks of which only one run at a time may be under way: across names, servers and the command line."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import CommandLine
from tests.support.client import Client
from tests.support.processes import alive, until
from tests.support.projects import make_project
from tests.support.serving import serving

SOURCE = """
    import os, pathlib, signal, subprocess, sys, time
    from quickie import task

    def meet(name):
        pathlib.Path(f"{name}.pid").write_text(str(os.getpid()))
        while not pathlib.Path(f"{name}.go").exists():
            time.sleep(0.01)

    @task(aliases=["b"])
    def build():
        meet("build")
        print("built")

    @task(name="db:build")
    def other():
        print("other")

    @task
    def stubborn():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        meet("stubborn")

    @task(aliases=["next"])
    def check():
        print("checked")

    @task
    def kill_supervisor():
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)

    @task
    def leave():
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        print(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)

    @task
    def descriptors():
        print([os.readlink(entry.path) for entry in os.scandir("/dev/fd") if os.path.islink(entry.path)])
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exclusive")


@pytest.fixture(scope="module")
def config(home: Path) -> Path:
    """A config with two names for one root, one of them through a link, and another root with the same tasks."""
    root, second = (make_project(home / name, SOURCE) for name in ("root", "second"))
    (home / "link").symlink_to(root)
    file = home / "config.toml"
    globs = 'exclusive = ["B*", "stubborn", "kill*", "leave", "descriptors"]'
    paths = {"app": root, "linked": home / "link", "second": second}
    file.write_text("".join(f"[projects.{alias}]\npath = '{path}'\n{globs}\n" for alias, path in paths.items()))
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def servers(home: Path, config: Path) -> Iterator[tuple[Client, Client]]:
    """Two servers of one user."""
    options = (home / "home", None, "--config", str(config))
    with serving(*options) as first, serving(*options) as second:
        yield first, second


@pytest.fixture
def root(home: Path) -> Path:
    """The root, without what earlier tests left in it."""
    for name in ("root", "second"):
        for file in (home / name).glob("*.[pg]*"):
            file.unlink()
    return home / "root"


def begun(root: Path, name: str = "build") -> int:
    """Wait until a run of the task `name` has begun; return its process."""
    file = root / f"{name}.pid"
    until(lambda: file.exists() and file.read_text(), 60, f"{name} to begin")
    return int(file.read_text())


@pytest.mark.long
def test_a_second_run_waits_within_its_timeout_and_names_the_first(
    servers: tuple[Client, Client], root: Path, home: Path
) -> None:
    first, second = servers
    call = first.start("run_task", task_name="build", project="app")
    begun(root)
    for client in (first, second):
        refusal = client.run("b", project="linked", timeout=3).refusal
        assert "task 'b' did not start within its timeout of 3 s: it is running already" in refusal
        assert "run r" in refusal
        assert "of raw (process " in refusal
    waiting = second.start("run_task", task_name="b", project="linked")
    assert second.run("db:build", project="app").data["stdout"] == "other\n"
    assert not waiting.answered
    until(lambda: list((home / "home").rglob("*.lock")), what="the lock file")
    (root / "build.go").touch()
    assert call.wait().data == {"exit_code": 0, "stdout": "built\n", "stderr": ""}
    assert waiting.wait().data["stdout"] == "built\n"
    assert not list((home / "home").rglob("*.lock"))


def test_a_background_run_says_what_it_waits_for(servers: tuple[Client, Client], root: Path) -> None:
    first, second = servers
    call = first.start("run_task", task_name="build", project="app")
    begun(root)
    answer = second.run("build", project="app", background=True).data
    assert answer["state"] == "running"
    assert answer["note"].startswith("the task has not begun: it waits for run r")
    (root / "build.go").touch()
    call.wait()
    answer = second.call("get_run", run_id=answer["run_id"], wait=50).data
    assert (answer["state"], answer["stdout"]) == ("ended", "built\n")


def test_another_root_has_its_own_lock(servers: tuple[Client, Client], root: Path, home: Path) -> None:
    first, second = servers
    call = first.start("run_task", task_name="build", project="app")
    begun(root)
    (home / "second" / "build.go").touch()
    assert second.run("build", project="second").data["stdout"] == "built\n"
    (root / "build.go").touch()
    call.wait()


def test_the_command_line_waits_too_and_says_so(
    servers: tuple[Client, Client], root: Path, home: Path, config: Path
) -> None:
    call = servers[0].start("run_task", task_name="build", project="app")
    begun(root)
    typed = CommandLine(home / "home").start("run", "--config", config, "app", "build")
    assert typed.stderr is not None
    assert b"it waits for run r" in typed.stderr.readline()
    (root / "build.go").touch()
    call.wait()
    stdout, _ = typed.communicate(timeout=60)
    assert (typed.returncode, stdout) == (0, b"built\n")


@pytest.mark.long
def test_an_agent_waits_for_a_person(servers: tuple[Client, Client], root: Path, home: Path, config: Path) -> None:
    typed = CommandLine(home / "home").start("run", "--config", config, "app", "build")
    begun(root)
    assert "this one is: qk-mcp run (process " in servers[0].run("build", project="app", timeout=3).refusal
    (root / "build.go").touch()
    typed.communicate(timeout=60)
    assert servers[0].run("build", project="app").data["exit_code"] == 0


def test_a_killed_server_keeps_the_lock_until_its_tree_has_ended(
    servers: tuple[Client, Client], root: Path, home: Path, config: Path
) -> None:
    with serving(home / "home", None, "--config", str(config)) as doomed:
        doomed.start("run_task", task_name="stubborn", project="app")
        pid = begun(root, "stubborn")
        (root / "stubborn.pid").unlink()
        waiting = servers[1].start("run_task", task_name="stubborn", project="app")
        os.kill(doomed.pid, signal.SIGKILL)
        other = begun(root, "stubborn")
        assert not alive(pid)
        assert other != pid
        (root / "stubborn.go").touch()
        waiting.wait()


@pytest.mark.parametrize("task", ["kill_supervisor", "leave"])
def test_the_lock_ends_with_the_run(servers: tuple[Client, Client], task: str) -> None:
    """A lost run leaves nothing. What an ended task left running has no part in the lock."""
    for client in servers:
        answer = client.run(task.replace("_", "-"), project="app")
        if task == "leave":
            os.kill(int(answer.data["stdout"]), signal.SIGKILL)
        else:
            assert "was lost" in answer.refusal


def test_a_run_that_waits_obeys_rules_that_come_meanwhile(tmp_path: Path) -> None:
    root, home = make_project(tmp_path / "root", SOURCE), tmp_path / "home"
    command_line = CommandLine(home)
    table = f"[projects.app]\npath = '{root}'\nexclusive = ['build']\n"
    command_line.write_config(table)
    with serving(home, None, "-v") as client:
        call = client.start("run_task", task_name="build", project="app")
        begun(root)
        waiting = client.start("run_task", task_name="build", project="app")
        until(lambda: "wait project=app" in client.stderr(), what="the second run to wait")
        command_line.write_config(f"{table}deny = ['build']\n")
        (root / "build.go").touch()
        call.wait()
        assert "'build' is not allowed" in waiting.wait().refusal


def test_a_cancelled_wait_leaves_the_lock_free(servers: tuple[Client, Client], root: Path) -> None:
    first, second = servers
    call = first.start("run_task", task_name="build", project="app")
    begun(root)
    waiting = second.start("run_task", task_name="build", project="app")
    waiting.cancel()
    (root / "build.go").touch()
    call.wait()
    assert first.run("build", project="app").data["exit_code"] == 0


def test_a_task_has_no_copy_of_the_lock(servers: tuple[Client, Client]) -> None:
    assert ".lock" not in servers[0].run("descriptors", project="app").data["stdout"]


def test_a_lock_that_cannot_be_made_refuses_the_run(tmp_path: Path, config: Path) -> None:
    state = tmp_path / "home" / ".local" / "state" / "qk-mcp"
    state.mkdir(parents=True)
    (state / "locks").write_text("a file")
    with serving(tmp_path / "home", None, "--config", str(config)) as client:
        refusal = client.run("build", project="app").refusal
        assert "did not start, because nothing can keep it from running twice" in refusal
        assert client.run("check", project="app").data["stdout"] == "checked\n"
