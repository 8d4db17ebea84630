"""A broken part of a module costs only itself, and an import cannot disturb the listing."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.guests import describe, listed, run

type Make = Callable[..., Path]

_BROKEN = """
    from quickie import Arg, Namespace, Task, task

    @task(aliases=["ok"])
    def fine():
        '''Works.'''
        print("fine")

    class Exits(Task):
        def add_args(self, parser):
            raise SystemExit(3)

    class Raises(Task):
        '''Has a text.'''
        def add_args(self, parser):
            parser.add_argument("--x", type=5)

    class Speechless(Task):
        def get_help(self):
            raise OSError("no help")

    class Elusive(Task):
        @property
        def parser(self):
            raise BaseException("not even an Exception")

    exits, raises, speechless, elusive = Exits(), Raises(), Speechless(), Elusive()
    odd = fine.__class__("odd", aliases=["also-odd"])
    no_aliases = fine.__class__("no-aliases", aliases=7)
"""

_BROKEN_NAMESPACES = """
    from quickie import Namespace, namespace, task

    @task
    def fine():
        print("fine")

    @namespace
    def missing():
        import not_there_at_all
        return [fine]

    @namespace
    def exits():
        raise SystemExit("gone")

    @namespace(path="good")
    def works():
        return [fine]

    circle = Namespace(path="circle")
    other = Namespace(path="other")
    circle.add(other)
    other.add(circle)
    itself = Namespace({"x": fine}, path="itself")
    itself.add(itself)
"""


@pytest.mark.long
def test_a_task_that_cannot_be_described_costs_only_itself(make: Make, python: Path) -> None:
    root = make(_BROKEN)
    report = describe(root, python)
    tasks = {task["name"]: task for task in report["tasks"]}
    failures = {name: task["error"]["type"] for name, task in tasks.items() if "error" in task}
    assert failures == {
        "exits": "SystemExit",
        "raises": "ValueError",
        "speechless": "OSError",
        "elusive": "BaseException",
    }
    assert tasks["fine"]["aliases"] == ["ok"]
    assert tasks["odd"]["aliases"] == ["also-odd"]
    assert tasks["raises"]["help"] == "Has a text."
    assert tasks["raises"]["error"]["frames"][-1]["code"] == 'parser.add_argument("--x", type=5)'
    assert [problem["name"] for problem in report["problems"]] == ["no_aliases"]
    for name in ("fine", "ok", "also-odd"):
        assert run(root, name, python=python).stdout == "fine\n"


def test_a_broken_namespace_costs_only_itself(make: Make, python: Path) -> None:
    if "0.6" in str(python):
        pytest.skip("quickie 0.6 has no lazy namespaces")
    root = make(_BROKEN_NAMESPACES)
    report = describe(root, python)
    names = [task["name"] for task in report["tasks"]]
    problems = {problem["name"][:10]: problem["error"]["type"] for problem in report["problems"]}
    assert problems["missing"] == "ModuleNotFoundError"
    assert problems["exits"] == "SystemExit"
    assert "fine" in names
    assert "good:fine" in names + report["tasks"][names.index("fine")]["aliases"]
    for name in ("fine", "good:fine"):
        assert run(root, name, python=python).stdout == "fine\n"
    assert run(root, "missing:fine", python=python).event["event"] == "unknown"
    assert run(root, "god:fine", python=python).event["near"][0] == "good:fine"


@pytest.mark.parametrize(
    "line",
    [
        "print('x' * 1_000_000)",
        "assert sys.stdin.read() == ''",
        "os.chdir('/')",
        "sys.stdout = sys.stderr = None",
        "os.closerange(0, 1000)",
        "threading.Thread(target=time.sleep, args=(60,)).start()",
        "subprocess.Popen(['sleep', '3'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
        "os.environ.clear()",
        "sys.path.clear()",
        "os.fork()",
        "sys.setrecursionlimit(120)",
        "sys.modules['_qk'] = sys.modules['_qk']",
        "atexit.register(lambda: 1 / 0)",
    ],
)
def test_an_import_cannot_disturb_the_listing(line: str, make: Make) -> None:
    modules = "atexit, os, subprocess, sys, threading, time"
    root = make(f"import {modules}\nfrom quickie import task\n{line}\n@task\ndef fine():\n    '''Still here.'''\n")
    assert listed(root)["fine"]["help"] == "Still here."


@pytest.mark.parametrize("name", ["_qk", "with space/_qk", "Grüße 'and' \"quotes\"/_qk"])
def test_a_project_may_have_any_name_and_be_a_link(name: str, make: Make, tmp_path: Path) -> None:
    root = make("from quickie import task\nfrom .sub import x\n@task\ndef hello(): pass\n")
    (root / "_qk" / "sub.py").write_text("x = 1\n")
    link = tmp_path / "elsewhere" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(root / "_qk")
    assert listed(link.parent)["hello"]["location"] == "_qk/__init__.py:3"


def test_another_tasks_module_on_pythonpath_is_ignored(make: Make) -> None:
    other = make("raise RuntimeError('the wrong one')\n", "other")
    root = make("from quickie import task\nassert __file__\n@task\ndef right(): print('right')\n")
    assert "right" in listed(root, PYTHONPATH=str(other))
    assert run(root, "right", PYTHONPATH=str(other)).stdout == "right\n"


def test_describing_and_running_write_nothing_into_the_project(make: Make, python: Path) -> None:
    root = make(
        {"_qk/__init__.py": "from quickie import task\nfrom . import sub\n@task\ndef t(): pass", "_qk/sub.py": ""}
    )
    (root / "_qk" / "sub.py").touch()
    before = sorted(root.rglob("*"))
    listed(root, python)
    run(root, "t", python=python)
    assert sorted(root.rglob("*")) == before


def test_a_read_only_project_is_described(make: Make) -> None:
    root = make("from quickie import task\n@task\ndef t(): print(1)\n")
    for path in (root / "_qk" / "__init__.py", root / "_qk", root):
        path.chmod(0o555)
    try:
        assert "t" in listed(root)
        assert run(root, "t").stdout == "1\n"
    finally:
        root.chmod(0o755)
        (root / "_qk").chmod(0o755)


def test_an_old_quickie_is_reported(make: Make, tmp_path: Path) -> None:
    old = tmp_path / "old" / "quickie"
    old.mkdir(parents=True)
    (old / "__init__.py").touch()
    (old / "_meta.py").write_text("__version__ = '0.5.1'\n")
    error = describe(make(""), PYTHONPATH=str(old.parent))["error"]
    assert (error["type"], error["message"]) == ("OldQuickie", "0.5.1")


def test_a_missing_quickie_is_reported(make: Make, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    error = describe(make(""), tmp_path / "bare" / "bin" / "python")["error"]
    assert error["missing"] == "quickie"
