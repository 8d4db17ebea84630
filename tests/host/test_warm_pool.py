"""Warm guests: a warm run equals a cold run, and the pool notices when it would not."""

import asyncio
import json
import os
import shutil
import signal
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import quickie

from qk_mcp.host.warm_pool import WarmPool
from qk_mcp.interpreters.plan import resolve
from qk_mcp.projects.project import Project
from tests.conftest import Serve
from tests.support.client import Client
from tests.support.environment import MARK, scrubbed
from tests.support.environments import make_venv, site_of
from tests.support.processes import alive, gone, tree, until
from tests.support.projects import make_project

LOOK = """
    import gc, json, os, resource, signal, sys, threading
    from quickie import app, task

    @task
    def look(*args):
        facts = {
            "directory": os.getcwd(),
            "environment": {k: v for k, v in os.environ.items() if not k.startswith("QK_MCP_RUN_")},
            "argv": sys.argv,
            "program": app.program_name,
            "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
            "descriptors": sorted(os.listdir("/dev/fd")),
            "signals": {n: str(signal.getsignal(n)) for n in range(1, signal.NSIG)},
            "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "threads": [thread.name for thread in threading.enumerate()],
            "leads": [os.getpid() == os.getsid(0), os.getpid() == os.getpgrp()],
            "umask": os.umask(0o22),
            "nice": os.nice(0),
            "path": sys.path,
            "modules": sorted(sys.modules),
            "streams": [[type(s).__name__, s.encoding, s.errors, s.line_buffering, s.isatty()]
                        for s in (sys.stdin, sys.stdout, sys.stderr)],
            "collector": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()],
            "recursion": sys.getrecursionlimit(),
        }
        print(json.dumps(facts))
"""


def warm_guest(client: Client) -> list[int]:
    """Wait for a warm guest of a server with -vv, and return its processes: the supervisor and its child."""

    def waiting() -> list[int]:
        lines = [line for line in client.stderr().splitlines() if " warm" in line or " waiting pid=" in line]
        if not lines or " warm" in lines[-1]:
            return []
        supervisor = int(lines[-1].rpartition("=")[2])
        found = [supervisor, *tree(supervisor)]
        return found if alive(supervisor) and len(found) == 2 else []

    return until(waiting, what="a warm guest")


def look(client: Client) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(client.run("look").data["stdout"])
    return facts


def warm_runs(client: Client) -> int:
    return client.stderr().count("project=demo warm")


def test_warm_and_cold_runs_look_the_same_to_a_task(serve: Serve, tmp_path: Path) -> None:
    warm = serve(LOOK, "-vv")
    first = look(warm)
    warm_guest(warm)
    second = look(warm)
    assert warm_runs(warm) == 1
    cold = serve(tmp_path / "project", "-vv", "--no-warm")
    third = look(cold)
    fourth = look(cold)
    assert warm_runs(cold) == 0
    assert tree(cold.pid) == []
    for facts in (first, second, third, fourth):
        del facts["environment"][MARK], facts["environment"]["TMPDIR"]  # the tests give each server its own
    assert first == second
    assert third == fourth
    assert second == fourth


def test_a_warm_guest_runs_the_current_module(serve: Serve, tmp_path: Path) -> None:
    client = serve("from quickie import task\n@task\ndef say():\n    print('old')\n", "-vv")
    assert client.run("say").data["stdout"] == "old\n"
    warm_guest(client)
    module = tmp_path / "project" / "_qk" / "__init__.py"
    before = module.stat()
    module.write_text(module.read_text().replace("old", "new"))
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert client.run("say").data["stdout"] == "new\n"
    assert warm_runs(client) == 1


def test_a_run_replaces_a_warm_guest_that_was_killed(serve: Serve) -> None:
    client = serve(LOOK, "-vv")
    first = look(client)
    for pid in warm_guest(client):
        os.kill(pid, signal.SIGKILL)
    assert look(client) == first


def test_a_warm_guest_with_another_interpreter_is_replaced(serve: Serve, tmp_path: Path) -> None:
    client = serve("import sys\nfrom quickie import task\n@task\ndef which():\n    print(sys.prefix)\n", "-vv")
    outside = client.run("which").data["stdout"].strip()
    old = warm_guest(client)
    environment = tmp_path / "project" / ".venv"
    make_venv(environment)
    (site_of(environment) / "quickie.pth").write_text(f"{Path(quickie.__file__).parents[1]}\n")
    assert client.run("which").data["stdout"].strip() == str(environment) != outside
    gone(*old)
    assert warm_runs(client) == 0
    warm_guest(client)
    shutil.rmtree(environment)
    assert client.run("which").data["stdout"].strip() == outside


@pytest.mark.parametrize("leave", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_warm_guest_ends_with_the_server(serve: Serve, leave: signal.Signals) -> None:
    client = serve(LOOK, "-vv")
    look(client)
    waiting = warm_guest(client)
    client.process.send_signal(leave)
    gone(*waiting)


def test_the_pool_is_bounded(serve: Serve, tmp_path: Path) -> None:
    source = "from quickie import task\n@task\ndef hello():\n    print('hello')\n"
    projects = {}
    for number in range(6):
        root = tmp_path / f"p{number}"
        (root / "_qk").mkdir(parents=True)
        (root / "_qk" / "__init__.py").write_text(source)
        projects[f"p{number}"] = root
    client = serve(projects)
    for alias in projects:
        assert client.run("hello", project=alias).data["exit_code"] == 0
    until(lambda: len(tree(client.pid)) == 8, what="four warm guests of two processes each")


def test_a_warm_guest_is_replaced_when_python_would_start_differently(serve: Serve, tmp_path: Path) -> None:
    """Python reads .pth files only at its start, and an edit in place does not change the directory."""
    root = make_project(
        tmp_path / "project",
        """
        import os, sys
        from quickie import task

        sys.path.insert(0, "things.zip")
        import thing

        @task
        def show():
            print(os.environ["STARTED"], thing.VALUE)
        """,
    )
    site = site_of(root / ".venv")
    make_venv(root / ".venv")
    (site / "quickie.pth").write_text(f"{Path(quickie.__file__).parents[1]}\n")

    def write(word: str) -> None:
        (site / "started.pth").write_text(f"import os; os.environ['STARTED'] = '{word}'\n")
        with zipfile.ZipFile(root / "things.zip", "w") as archive:
            archive.writestr(f"{word}.txt", word * 100)
            archive.writestr("thing.py", f"VALUE = '{word}'")

    write("one")
    client = serve(root, "-vv")
    assert client.run("show").data["stdout"] == "one one\n"
    warm_guest(client)
    write("second")
    assert client.run("show").data["stdout"] == "second second\n"


@pytest.mark.long
def test_a_warm_guest_notices_what_has_appeared_and_disappeared(serve: Serve, tmp_path: Path) -> None:
    """None of these changes a time of a file that Python has read."""
    root = make_project(
        tmp_path / "project",
        """
        import os
        from quickie import task

        @task
        def show():
            print(os.environ.get("STARTED"), os.environ.get("PTH"))
        """,
    )
    make_venv(root / ".venv")
    site = site_of(root / ".venv")
    (site / "quickie.pth").write_text(f"{Path(quickie.__file__).parents[1]}\n")
    (site / "started.pth").write_text("import os; os.environ['PTH'] = 'pth'\n")
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for directory in (first, second, third):
        directory.mkdir()
        (directory / "sitecustomize.py").write_text(f"import os; os.environ['STARTED'] = {directory.name!r}\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("import os; os.environ['STARTED'] = 'package'\n")
    link = tmp_path / "link"
    link.symlink_to(first)

    def point_to_second() -> None:
        link.unlink()
        link.symlink_to(second)

    def swap() -> None:
        second.rename(tmp_path / "aside")
        third.rename(second)

    config = tmp_path / "config.toml"  # in the server's own environment, it would change the server's Python
    config.write_text(f"[projects.demo]\npath = {str(root)!r}\nenv.PYTHONPATH = {str(link)!r}\n")
    client = serve(None, "--config", str(config), "-vv")
    assert client.run("show").data["stdout"] == "first pth\n"
    for change, seen in (
        (lambda: (first / "sitecustomize.py").unlink(), "None pth"),
        (lambda: package.rename(first / "sitecustomize"), "package pth"),
        (lambda: (first / "sitecustomize").rename(package), "None pth"),
        (point_to_second, "second pth"),
        (swap, "third pth"),
        (lambda: (site / "started.pth").unlink(), "third None"),
    ):
        warm_guest(client)
        time.sleep(0.3)  # until it waits for a request
        change()
        assert client.run("show").data["stdout"] == f"{seen}\n"


def test_an_unused_warm_guest_is_dismissed(tmp_path: Path) -> None:
    """In this process, because a server's warm guest waits for ten minutes."""
    project = Project(alias="app", path=make_project(tmp_path / "project", LOOK))
    plan = resolve(project, scrubbed(tmp_path / "home"))

    async def prepare(pool: WarmPool) -> None:
        before = tree(os.getpid())
        pool.prepare(plan)
        async with asyncio.timeout(30):
            while len(started := [pid for pid in tree(os.getpid()) if pid not in before]) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while any(map(alive, started)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(prepare(WarmPool(idle=1.5)))
