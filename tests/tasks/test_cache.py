"""The catalogue of a project: always what a fresh one would be, and described no more often than that takes."""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from qk_mcp.errors import ProjectBroken
from qk_mcp.projects.project import Project
from qk_mcp.tasks import listing
from qk_mcp.tasks.cache import Catalogs
from qk_mcp.tasks.catalog import Catalog
from tests.support.environment import scrubbed
from tests.support.projects import make_project

_COUNTED = """\
import os
counter = os.open(__file__ + ".count", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(counter, b"x")
os.close(counter)
from quickie import task

@task
def hello():
    '''Says hello.'''
"""


class Described:
    """A project, its catalogues, and how often its module was imported."""

    def __init__(self, directory: Path, source: object = _COUNTED, **options: Any) -> None:
        self.root = make_project(directory / "project", source, single_file=isinstance(source, str))  # type: ignore[arg-type]
        (self.root / "_qk.py.count").touch()
        self.project = Project(alias="app", path=self.root, python=sys.executable)
        self.environ = scrubbed(directory / "home")
        self.options = options

    def catalogs(self) -> Catalogs:
        return Catalogs(self.environ, **self.options)

    @property
    def count(self) -> int:
        return (self.root / "_qk.py.count").stat().st_size

    def write(self, text: str) -> None:
        file = self.root / "_qk.py"
        file.write_text(file.read_text().split("    '''")[0] + f"    '''{text}'''\n")


async def _settle() -> None:
    """Let the last change be so old that a further one would have another time."""
    await asyncio.sleep(0.1)


def _run[T](work: Awaitable[T]) -> T:
    async def guarded() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(guarded())


def _help(catalog: Catalog) -> str:
    return catalog.tasks[0].help


@pytest.fixture
def described(tmp_path: Path) -> Described:
    return Described(tmp_path)


def test_an_unchanged_project_is_described_once(described: Described) -> None:
    async def work() -> None:
        await _settle()
        catalogs = described.catalogs()
        first = await catalogs.get(described.project)
        assert await catalogs.get(described.project) is first
        began = time.perf_counter()
        for _ in range(50):
            await catalogs.get(described.project)
        assert (time.perf_counter() - began) / 50 < 0.02
        assert described.count == 1

    _run(work())


def test_every_edit_is_seen_at_once(described: Described) -> None:
    async def work() -> None:
        catalogs = described.catalogs()
        for text in ("one", "two", "six", "one"):  # of one size, within the grain of the file system's clock
            described.write(text)
            assert _help(await catalogs.get(described.project)) == text

    _run(work())


def test_an_edit_that_keeps_size_and_time_is_seen(described: Described) -> None:
    async def work() -> None:
        catalogs = described.catalogs()
        described.write("one")
        file = described.root / "_qk.py"
        stamp = file.stat()
        await _settle()
        assert _help(await catalogs.get(described.project)) == "one"
        described.write("two")
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert _help(await catalogs.get(described.project)) == "two"
        other = described.root.parent / "other.py"
        other.write_text(file.read_text().replace("two", "six"))
        os.utime(other, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        other.replace(file)
        assert _help(await catalogs.get(described.project)) == "six"

    _run(work())


def test_old_bytecode_does_not_win(tmp_path: Path) -> None:
    """`qk` leaves bytecode that Python takes for that of another source of the same size and second."""
    source = (
        "from quickie import task\nfrom . import part\n@task\ndef hello():\n    print()\nhello.__doc__ = part.text\n"
    )
    described = Described(tmp_path, {"_qk/__init__.py": source, "_qk/part.py": "text = 'one'\n"})
    import py_compile

    part = described.root / "_qk" / "part.py"
    py_compile.compile(str(part))
    stamp = part.stat()
    part.write_text("text = 'two'\n")
    os.utime(part, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert _help(_run(described.catalogs().get(described.project))) == "two"


def test_calls_at_the_same_time_share_one_description(described: Described) -> None:
    async def work() -> None:
        await _settle()
        catalogs = described.catalogs()
        told = await asyncio.gather(*(catalogs.get(described.project) for _ in range(8)))
        assert all(each is told[0] for each in told)
        assert described.count == 1

    _run(work())


def test_a_call_after_an_edit_does_not_get_what_was_described_before_it(tmp_path: Path) -> None:
    described = Described(tmp_path, _COUNTED + "\nimport time\ntime.sleep(1)\n")
    file = described.root / "_qk.py"
    file.write_text(file.read_text().replace("Says hello.", "before"))

    async def work() -> None:
        await _settle()
        catalogs = described.catalogs()
        early = asyncio.create_task(catalogs.get(described.project))
        while described.count == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        file.write_text(file.read_text().replace("before", "after"))
        late = asyncio.create_task(catalogs.get(described.project))
        assert _help(await late) == "after"
        assert _help(await early) in ("before", "after")

    _run(work())


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("subprocess.run(['true'])", "a program"),
        ("socket.create_connection(('127.0.0.1', 1), 0.1)", "the network"),
        ("sqlite3.connect(':memory:')", "a database"),
        ("os.open('.', os.O_RDONLY, dir_fd=os.open('/', os.O_RDONLY))", "a directory by its descriptor"),
        ("multiprocessing.get_context('spawn').Process(target=print).start()", "a child process"),
    ],
)
def test_what_no_file_tells_is_described_every_time(line: str, what: str, tmp_path: Path) -> None:
    modules = "contextlib, multiprocessing, os, socket, sqlite3, subprocess"
    prelude = f"import {modules}\nwith contextlib.suppress(OSError):\n    {line}\n"
    described = Described(tmp_path, prelude + _COUNTED)

    async def work() -> None:
        await _settle()
        catalogs = described.catalogs()
        for _ in range(2):
            assert (await catalogs.get(described.project)).uncacheable == what
        assert described.count == 2

    _run(work())


def test_an_old_catalogue_is_described_anew_in_the_background(tmp_path: Path) -> None:
    described = Described(tmp_path, refresh=0.2)

    async def work() -> None:
        await _settle()
        catalogs = described.catalogs()
        first = await catalogs.get(described.project)
        await asyncio.sleep(0.3)
        assert await catalogs.get(described.project) is first
        while described.count < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await catalogs.close()

    _run(work())


def test_a_failure_is_remembered_until_it_is_mended(tmp_path: Path) -> None:
    described = Described(tmp_path, _COUNTED + "\nimport not_there\n")

    async def work() -> None:
        await _settle()
        catalogs = described.catalogs()
        texts = set()
        for _ in range(2):
            with pytest.raises(ProjectBroken) as failure:
                await catalogs.get(described.project)
            texts.add(str(failure.value))
        assert described.count == 1
        (text,) = texts
        assert "No module named 'not_there'" in text
        assert "_qk.py:11: import not_there" in text
        assert f"{sys.executable} -m pip install not_there" in text
        (described.root / "not_there.py").touch()
        assert await catalogs.get(described.project)

    _run(work())


def test_the_environment_counts(tmp_path: Path) -> None:
    described = Described(
        tmp_path, "import probe\nfrom quickie import task\n@task\ndef hello(): pass\nhello.__doc__ = probe.text\n"
    )
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        (directory / "probe.py").write_text(f"text = {directory.name!r}\n")
    described.environ["PYTHONPATH"] = f"{first}{os.pathsep}{second}"

    async def work() -> None:
        await _settle()
        catalogs = described.catalogs()
        told = await catalogs.get(described.project)
        assert _help(told) == "first"
        assert await catalogs.get(described.project) is told
        (first / "probe.py").unlink()
        assert _help(await catalogs.get(described.project)) == "second"
        (first / "probe").mkdir()
        (first / "probe" / "__init__.py").write_text("text = 'shadow'\n")
        assert _help(await catalogs.get(described.project)) == "shadow"

    _run(work())


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"_qk.py": "import not_there.part\n"}, "-m pip install not_there"),
        ({"_qk.py": "import yaml\n"} if find_spec("yaml") is None else {"_qk.py": "import cv2\n"}, "-m pip install "),
        ({"_qk/__init__.py": "import beside\n", "beside.py": ""}, "move beside into "),
        ({"_qk/__init__.py": "from .absent import x\n"}, "mend the project's code at the place shown"),
        ({"_qk/other.py": ""}, "_qk/__init__.py"),
        ({"_qk.py": "def broken(:\n    pass\n"}, "_qk.py:1: def broken(:"),
        ({"_qk.py": "import sys\nsys.exit(3)\n"}, "sys.exit(3)"),
        ({"_qk.py": "def outer():\n    inner()\ndef inner():\n    1 / 0\nouter()\n"}, "_qk.py:2: inner()"),
        (
            {"_qk.py": "try:\n    {}['key']\nexcept KeyError as e:\n    raise ValueError('x') from e\n"},
            "caused by KeyError",
        ),
    ],
)
def test_an_error_says_what_to_mend(files: dict[str, str], expected: str, tmp_path: Path) -> None:
    described = Described(tmp_path, files)
    with pytest.raises(ProjectBroken) as failure:
        _run(described.catalogs().get(described.project))
    text = str(failure.value)
    assert expected in text
    assert sys.executable in text
    assert "hint: " in text
    assert "importlib" not in text


def test_two_thousand_tasks_are_described_in_seconds(tmp_path: Path) -> None:
    tasks = "".join(f"@task(args=['--option', 'word'])\ndef task_{number}(**_): 'Help.'\n" for number in range(2_000))
    described = Described(tmp_path, f"from quickie import task\n{tasks}")
    began = time.monotonic()
    assert len(_run(described.catalogs().get(described.project)).tasks) == 2_000
    assert time.monotonic() - began < 10


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_a_module_that_does_not_end_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    source = """
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "300"], start_new_session=True)
        print("on my way", flush=True)
        time.sleep(300)
    """
    described = Described(tmp_path, source, timeout=1.0)

    async def work() -> None:
        began = time.monotonic()
        with pytest.raises(ProjectBroken) as failure:
            await described.catalogs().get(described.project)
        assert time.monotonic() - began < 4
        assert "within 1 s" in str(failure.value)
        assert "on my way" in str(failure.value)
        assert not _children()

    _run(work())


def test_what_an_import_leaves_running_is_ended(tmp_path: Path) -> None:
    source = "import subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True)\n"
    described = Described(tmp_path, source)

    async def work() -> None:
        await described.catalogs().get(described.project)
        assert not _children()

    _run(work())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("os._exit(7)", "exit code 7"),
        ("os.kill(os.getpid(), 9)", "ended by SIGKILL"),
        ("print('x' * 1_000_000, flush=True); os._exit(0)", "exit code 0"),
        ("sys.exit('no more')", "no more"),
    ],
)
def test_a_module_that_ends_its_interpreter_is_an_error(line: str, expected: str, tmp_path: Path) -> None:
    described = Described(tmp_path, f"import os, sys\n{line}\n")
    with pytest.raises(ProjectBroken) as failure:
        _run(described.catalogs().get(described.project))
    assert expected in str(failure.value)
    assert len(str(failure.value)) < 5_000


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no directory below /dev")
def test_a_project_below_dev_is_one_like_any_other() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        described = Described(Path(directory))

        async def work() -> None:
            catalogs = described.catalogs()
            for text in ("one", "two"):
                described.write(text)
                await _settle()
                for _ in range(2):
                    assert _help(await catalogs.get(described.project)) == text

        _run(work())


@pytest.mark.parametrize(
    ("hang", "told"),
    [
        ("time.sleep(600)", "describing it took longer than 3 s"),
        ("os._exit(3)", "describing it ended with exit code 3"),
    ],
)
def test_a_task_that_cannot_be_described_to_the_end_hides_no_other(hang: str, told: str, tmp_path: Path) -> None:
    source = f"""
        import os, time
        from quickie import Task, task

        class Middle(Task):
            def get_help(self):
                {hang}

        middle = Middle()

        @task(aliases=["a"])
        def after(): "After it."

        @task
        def before(): "Before it."
    """
    described = Described(tmp_path, {"_qk/__init__.py": source}, timeout=3.0)
    catalog = _run(described.catalogs().get(described.project))
    after, before, middle = catalog.tasks
    assert (after.name, after.aliases, before.name) == ("after", ("a",), "before")
    assert middle.error == told
    assert not before.error or before.error.startswith("not described, for describing the task 'middle'")


def test_a_namespace_that_never_answers_hides_no_task(tmp_path: Path) -> None:
    source = """
        import time
        from quickie import namespace, task

        @namespace
        def slow():
            time.sleep(600)

        @task
        def fine(): "Works."
    """
    described = Described(tmp_path, {"_qk/__init__.py": source}, timeout=3.0)
    catalog = _run(described.catalogs().get(described.project))
    [fine] = catalog.tasks
    assert fine.error == "not described, for asking the namespace 'slow' for its tasks took longer than 3 s"
    assert catalog.problems == ("slow: asking it for its tasks took longer than 3 s",)


def test_a_default_without_end_is_bounded_as_a_whole(tmp_path: Path) -> None:
    source = """
        from quickie import Arg, task

        @task(args=[Arg(f"--o{number}", default=[["x" * 2000] * 100] * 100) for number in range(20)])
        def big(**given): ...
    """
    described = Described(tmp_path, {"_qk/__init__.py": source})
    [task] = _run(described.catalogs().get(described.project)).tasks
    assert len(repr(task.args)) < 20 * 40_000


def test_a_cancelled_call_leaves_nothing_and_does_not_harm_others(tmp_path: Path) -> None:
    described = Described(tmp_path, "import time\ntime.sleep(1)\n" + _COUNTED)
    descriptors = len(list(Path("/dev/fd").iterdir()))

    async def work() -> None:
        catalogs = described.catalogs()
        one = asyncio.create_task(catalogs.get(described.project))
        other = asyncio.create_task(catalogs.get(described.project))
        await asyncio.sleep(0.3)
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        assert await other
        described.write("again")
        alone = asyncio.create_task(catalogs.get(described.project))
        await asyncio.sleep(0.3)
        alone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await alone
        assert not _children()
        closing = asyncio.create_task(catalogs.get(described.project))
        await asyncio.sleep(0.3)
        await catalogs.close()
        assert not _children()
        with pytest.raises(asyncio.CancelledError):
            await closing

    _run(work())
    assert len(list(Path("/dev/fd").iterdir())) <= descriptors


_MODULE = """
    import os, pathlib
    from quickie import Arg, task
    import json, shadow
    from . import part

    root = pathlib.Path(__file__).resolve().parent.parent
    data = (root / "data.txt").read_text() if (root / "data.txt").exists() else "no data"
    names = sorted(os.listdir(root / "listed"))
    scanned = sorted((entry.name, entry.stat().st_size) for entry in os.scandir(root / "scanned"))

    class Reads:
        def __iter__(self):
            return iter([(root / "link" / "choice.txt").read_text()])

    @task(args=[Arg("--read", choices=Reads(), metavar="IT")])
    def hello(read):
        print()

    hello.__doc__ = repr((shadow.text, part.text, data, names, scanned))
"""

_EDITS: dict[str, Callable[[Path, str], object]] = {
    "part": lambda root, text: (root / "_qk/part.py").write_text(f"text = {text!r}\n"),
    "part in place, time kept": lambda root, text: _keep_time(root / "_qk/part.py", f"text = {text!r}\n"),
    "part replaced, time kept": lambda root, text: _replace(root / "_qk/part.py", f"text = {text!r}\n"),
    "data": lambda root, text: (root / "data.txt").write_text(text),
    "no data": lambda root, _: (root / "data.txt").unlink(missing_ok=True),
    "listed": lambda root, text: (root / "listed" / text).touch(),
    "not listed": lambda root, text: (root / "listed" / text).unlink(missing_ok=True),
    "scanned": lambda root, text: (root / "scanned/one").write_text(text * len(text)),
    "link": lambda root, text: _point(root / "link", root / ("one" if text < "b" else "two")),
    "behind the link": lambda root, text: (root / "one/choice.txt").write_text(text),
    "shadow": lambda root, text: (root / "_qk/shadow.py").write_text(f"text = {text!r}\n"),
    "shadowing package": lambda root, text: _package(root / "_qk/shadow", text),
    "no shadowing package": lambda root, _: shutil.rmtree(root / "_qk/shadow", ignore_errors=True),
    "part becomes a package": lambda root, text: _package(root / "_qk/part", text),
    "part is no package": lambda root, _: shutil.rmtree(root / "_qk/part", ignore_errors=True),
    "nothing": lambda *_: None,
    "elsewhere": lambda root, text: (root / "unrelated.txt").write_text(text),
}


def _keep_time(file: Path, text: str) -> None:
    stamp = file.stat()
    file.write_text(text)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def _replace(file: Path, text: str) -> None:
    stamp = file.stat()
    other = file.with_name("other")
    other.write_text(text)
    os.utime(other, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    other.replace(file)


def _point(link: Path, target: Path) -> None:
    link.unlink()
    link.symlink_to(target)


def _package(directory: Path, text: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "__init__.py").write_text(f"text = {text!r}\n")


_EDIT = st.tuples(st.sampled_from(sorted(_EDITS)), st.sampled_from(["a", "b", "c"]), st.booleans())


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(_EDIT, min_size=4, max_size=8))
@example([(name, "b", name == "nothing") for name in _EDITS])
def test_the_listing_always_equals_a_fresh_one(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, str, bool]]
) -> None:
    files = {"_qk/__init__.py": _MODULE, "_qk/part.py": "text = 'a'\n", "_qk/shadow.py": "text = 'a'\n"}
    files |= {f"{name}/choice.txt": name for name in ("one", "two")} | {"listed/x": "", "scanned/one": ""}
    described = Described(tmp_path_factory.mktemp("edited"), files)
    (described.root / "link").symlink_to(described.root / "one")

    async def work() -> None:
        catalogs = described.catalogs()
        for name, text, settled in edits:
            _EDITS[name](described.root, text)
            if settled:
                await _settle()
                await catalogs.get(described.project)
            told = listing.entry("app", await catalogs.get(described.project))
            fresh = listing.entry("app", await described.catalogs().get(described.project))
            assert told == fresh, name

    _run(work())
