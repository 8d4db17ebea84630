"""A module that fails to load is reported with its type, message, place and causes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.guests import describe, run

type Make = Callable[..., Path]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import not_there", {"type": "ModuleNotFoundError", "missing": "not_there"}),
        ("from . import nothing", {"type": "ImportError"}),
        ("from .nothing import x", {"type": "ModuleNotFoundError"}),
        ("x = (", {"type": "SyntaxError"}),
        ("raise SystemExit", {"type": "SystemExit", "exit_code": 0}),
        ("import sys; sys.exit('bye')", {"type": "SystemExit", "exit_code": 1, "message": "bye"}),
        ("raise KeyboardInterrupt", {"type": "KeyboardInterrupt"}),
        ("def deep(): deep()\ndeep()", {"type": "RecursionError"}),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})", {"type": "Odd"}),
        ("raise ExceptionGroup('several', [ValueError('one'), KeyError('two')])", {"type": "ExceptionGroup"}),
    ],
)
def test_a_module_that_fails_is_reported_with_its_place(line: str, expected: dict[str, Any], make: Make) -> None:
    root = make({"_qk/__init__.py": f"a = 1\n\n{line}\n"})
    error = describe(root)["error"]
    assert {key: error.get(key) for key in expected} == expected
    assert "missing" in expected or "missing" not in error
    frame = error["frames"][-1]
    assert frame["file"] == str(root / "_qk" / "__init__.py")
    assert frame["line"] >= 3
    assert frame["code"]
    broken = run(root, "any")
    assert broken.event == {"event": "broken", "error": error}


def test_causes_notes_and_groups_are_reported(make: Make) -> None:
    root = make(
        """
        try:
            try:
                {}["key"]
            except KeyError as error:
                raise ValueError("bad value") from error
        except ValueError as error:
            error.add_note("look at the key")
            raise ExceptionGroup("several", [error, TypeError("bad type")])
        """
    )
    error = describe(root)["error"]
    assert [part["message"] for part in error["errors"]] == ["bad value\nlook at the key", "bad type"]
    assert [cause["type"] for cause in error["causes"]] == ["ValueError", "KeyError"]
