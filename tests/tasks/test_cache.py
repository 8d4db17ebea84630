"""A cached catalogue always equals a new one, and a project is described no more often than that needs."""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qk_mcp.errors import ProjectBroken
from qk_mcp.projects.project import Project
from qk_mcp.tasks import listing
from qk_mcp.tasks.cache import CatalogCache
from qk_mcp.tasks.catalog import Catalog
from tests.support.environment import scrubbed
from tests.support.processes import new_children
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

    def catalogs(self) -> CatalogCache:
        return CatalogCache(self.environ, **self.options)

    @property
    def count(self) -> int:
        return (self.root / "_qk.py.count").stat().st_size

    def write(self, text: str) -> None:
        file = self.root / "_qk.py"
        file.write_text(file.read_text().split("    '''")[0] + f"    '''{text}'''\n")


async def _settle() -> None:
    """Wait until a further change would get another timestamp."""
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


def test_every_edit_shows_in_the_next_listing(described: Described) -> None:
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


def test_stale_bytecode_is_not_used(tmp_path: Path) -> None:
    """`qk` leaves bytecode that also fits another source of the same size and second."""
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
        catalogues = await asyncio.gather(*(catalogs.get(described.project) for _ in range(8)))
        assert all(each is catalogues[0] for each in catalogues)
        assert described.count == 1

    _run(work())


def test_a_call_after_an_edit_gets_no_older_description(tmp_path: Path) -> None:
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


def test_calls_for_an_uncacheable_project_share_no_older_description(tmp_path: Path) -> None:
    described = Described(
        tmp_path, "import subprocess, time\nsubprocess.run(['true'])\n" + _COUNTED + "time.sleep(1)\n"
    )

    async def work() -> None:
        catalogs = described.catalogs()
        early = asyncio.create_task(catalogs.get(described.project))
        while described.count == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        late = [asyncio.create_task(catalogs.get(described.project)) for _ in range(2)]
        first, *others = await asyncio.gather(early, *late)
        assert others[0] is others[1]
        assert first is not others[0]
        assert described.count == 2

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
def test_an_uncacheable_project_is_described_every_time(line: str, what: str, tmp_path: Path) -> None:
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


def test_an_old_catalogue_is_refreshed_in_the_background(tmp_path: Path) -> None:
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


def test_a_failure_is_cached_until_it_is_fixed(tmp_path: Path) -> None:
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
        assert f"ask the user which package provides it and install that for {sys.executable}" in text
        (described.root / "not_there.py").touch()
        assert await catalogs.get(described.project)

    _run(work())


def test_modules_outside_the_project_count(tmp_path: Path) -> None:
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
        listed = await catalogs.get(described.project)
        assert _help(listed) == "first"
        assert await catalogs.get(described.project) is listed
        (first / "probe.py").unlink()
        assert _help(await catalogs.get(described.project)) == "second"
        (first / "probe").mkdir()
        (first / "probe" / "__init__.py").write_text("text = 'shadow'\n")
        assert _help(await catalogs.get(described.project)) == "shadow"

    _run(work())


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no directory below /dev")
def test_a_project_below_dev_works() -> None:
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


def test_a_cancelled_call_leaves_nothing_and_affects_no_other(tmp_path: Path) -> None:
    described = Described(tmp_path, "import time\ntime.sleep(1)\n" + _COUNTED)
    descriptors = len(list(Path("/dev/fd").iterdir()))

    async def work() -> None:
        before, catalogs = new_children(set()), described.catalogs()
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
        assert not new_children(before)
        closing = asyncio.create_task(catalogs.get(described.project))
        await asyncio.sleep(0.3)
        await catalogs.close()
        assert not new_children(before)
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


@pytest.mark.long
def test_the_listing_equals_a_fresh_one_after_each_edit(tmp_path: Path) -> None:
    _compare_listings(tmp_path / "edited", [(name, "b", name == "nothing") for name in _EDITS])


@pytest.mark.long
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.lists(_EDIT, min_size=4, max_size=8))
def test_the_listing_equals_a_fresh_one_after_any_edits(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, str, bool]]
) -> None:
    _compare_listings(tmp_path_factory.mktemp("edited"), edits)


def _compare_listings(directory: Path, edits: list[tuple[str, str, bool]]) -> None:
    files = {"_qk/__init__.py": _MODULE, "_qk/part.py": "text = 'a'\n", "_qk/shadow.py": "text = 'a'\n"}
    files |= {f"{name}/choice.txt": name for name in ("one", "two")} | {"listed/x": "", "scanned/one": ""}
    described = Described(directory, files)
    (described.root / "link").symlink_to(described.root / "one")

    async def work() -> None:
        catalogs = described.catalogs()
        for name, text, settled in edits:
            _EDITS[name](described.root, text)
            if settled:
                await _settle()
                await catalogs.get(described.project)
            cached = listing.make_entries([(described.project, await catalogs.get(described.project))])
            fresh = listing.make_entries([(described.project, await described.catalogs().get(described.project))])
            assert cached == fresh, name

    _run(work())
