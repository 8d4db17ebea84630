"""Listings and runs agree with quickie itself, for every kind of module and every version of quickie."""

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import CORPUS, since
from tests.support.environment import BARE_PATH
from tests.support.guests import listed, run

_ORACLE = Path(__file__).with_name("oracle.py")
_QUICKIE = {"PATH": BARE_PATH, "QK_LAUNCHER_RUNNING": "true"}  # keeps it from looking for another interpreter


@cache
def _version(python: Path) -> tuple[int, int]:
    code = "from quickie._meta import __version__; print(__version__)"
    text = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def quickie(python: Path, root: Path, *calls: list[list[str]]) -> Any:
    """Return quickie's own listing of the project, or the results of its command for each of `calls`."""
    done = subprocess.run(
        [python, "-P", _ORACLE, *map(json.dumps, calls)],
        cwd=root,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=_QUICKIE | {"HOME": str(root.parent)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=CORPUS)
def project(request: pytest.FixtureRequest, python: Path, make: Callable[..., Path]) -> Path:
    if _version(python) < since(request.param):
        pytest.skip("this quickie has no namespaces of that kind")
    return make(CORPUS[request.param])


def test_the_listing_equals_quickies(project: Path, python: Path) -> None:
    """Only where quickie is right; `test_argparse_schema.py` has the differences."""
    ours, theirs = listed(project, python), quickie(python, project)
    assert list(ours) == [task["name"] for task in theirs]
    for task in theirs:
        assert ours[task["name"]] == task


@pytest.mark.parametrize("name", [name for name in CORPUS if "_qk/__init__.py" in CORPUS[name]])
def test_the_listing_equals_that_of_qk(name: str, newest: Path, make: Callable[..., Path]) -> None:
    project = make(CORPUS[name])
    done = subprocess.run(
        [newest, "-P", "-m", "quickie", ":list", "--json"],
        cwd=project,
        capture_output=True,
        text=True,
        env=_QUICKIE | {"HOME": str(project.parent)},
        check=True,
    )
    ours = listed(project, newest)
    for theirs in json.loads(done.stdout):
        assert ours.pop(theirs["name"]) == theirs
    assert not ours


_CALLS: dict[str, list[list[str]]] = {
    "functions": [
        ["hello"],
        ["hello", "--help"],
        ["hello", "superfluous"],
        ["other-name"],
        ["a:b"],
        ["Grüße"],
        ["underscored"],
        ["bound"],
        ["greeting", "--name", "you"],
        ["echo", "--", "-x", "", "two words"],
        ["both"],
        ["surrounded"],
        ["fails"],
    ],
    "classes": [["hello", "--name", ""], ["twice"], ["adds", "3", "--factor", "1.5"], ["ls"]],
    "arguments": [
        ["many", "in", "out", "-n", "4", "-ddv", "--port=443", "--pair", "1", "2", "--tag", "x", "--tag", "y"],
        ["many", "in", "--port", "81"],
        ["plain", "--", "--flag"],
    ],
    "namespaces": [["ci:b"], ["named:run:test"], ["grown:made:b"], ["tools:go"], ["grown:ship"]],
    "lazy": [["ci:lift"], ["ci:go"], ["tools:check:test"], ["root:build"]],
}


@pytest.mark.parametrize("name", _CALLS)
def test_a_run_equals_quickies(name: str, python: Path, make: Callable[..., Path]) -> None:
    if _version(python) < since(name):
        pytest.skip("this quickie has no namespaces of that kind")
    project = make(CORPUS[name])
    for call, (exit_code, stdout, stderr) in zip(_CALLS[name], quickie(python, project, _CALLS[name]), strict=True):
        ours = run(project, *call, python=python)
        assert (ours.exit_code, ours.stdout) == (exit_code, stdout), call
        assert bool(ours.stderr) == bool(stderr), call
        if exit_code == 2:
            assert ours.stderr == stderr
        elif call == ["fails"]:
            assert "ValueError" in stderr
            assert "ValueError: it does" in ours.stderr
