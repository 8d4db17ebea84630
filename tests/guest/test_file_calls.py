"""Calls of `os.stat` and similar functions are seen, also through references made before tracing began."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qk_mcp.guest.file_trace import unchanged
from tests.conftest import Demo
from tests.support.guests import describe

type Make = Callable[..., Path]

_PACKAGES = """
    from pathlib import Path
    from quickie import task

    names = sorted(path.parent.name for path in Path(__file__).resolve().parents[1].glob("*/pkg.toml"))

    @task
    def packages(): ...

    packages.__doc__ = " ".join(names)
"""


def test_a_listing_follows_a_glob(demo: Demo) -> None:
    """In Python 3.13, `Path.glob` calls an `os.lstat` that was bound when the module was imported."""
    client = demo(_PACKAGES)

    def names() -> str:
        [task] = client.call("list_tasks").data[0]["tasks"]
        return str(task["help"])

    for name in ("one", "two"):
        (demo.root / name).mkdir()
    (demo.root / "one" / "pkg.toml").touch()
    time.sleep(0.1)  # until a further change gets another timestamp
    assert names() == "one"
    assert names() == "one"
    (demo.root / "two" / "pkg.toml").touch()
    assert names() == "one two"


_EARLY = {
    "a function": "from os import lstat",
    "an attribute of a class": "class Early:\n    look = staticmethod(os.lstat)\nlstat = Early.look",
    "an item": "early = [os.lstat]\nlstat = lambda path: early[0](path)",
    "a closure": "def bind(look):\n    return lambda path: look(path)\nlstat = bind(os.lstat)",
    "an instance": "class Early: ...\nearly = Early()\nearly.look = os.lstat\nlstat = lambda path: early.look(path)",
    "a default": "def lstat(path, look=os.lstat):\n    return look(path)",
}


@pytest.mark.parametrize("early", _EARLY)
def test_an_early_reference_is_replaced_or_makes_the_project_uncacheable(
    early: str, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(f"import os\n{_EARLY[early]}\n")
    root = make("""
        import sitecustomize
        from quickie import task

        try:
            sitecustomize.lstat("missing.txt")
        except FileNotFoundError:
            pass

        @task
        def hello(): ...
    """)
    trace: dict[str, Any] = describe(root, PYTHONPATH=str(tmp_path / "site"))["trace"]
    assert unchanged(trace)
    (root / "missing.txt").touch()
    assert trace["uncacheable"] == "a copy of a function of os" or not unchanged(trace)
    assert bool(trace["uncacheable"]) == (early in ("an instance", "a default"))
