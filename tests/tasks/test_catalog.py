"""A guest's report becomes a catalogue, cleaned and bounded."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qk_mcp.tasks.catalog import HELP_LENGTH, TASKS, parse_report
from qk_mcp.text import printable

_ROOT = Path("/project")


def _task(**values: Any) -> dict[str, Any]:
    task = {"name": "build", "aliases": ["b"], "short_help": "Build.", "help": "Build.\n\nIt.", "usage": "usage: build"}
    return {"tasks": [{**task, "file": "/project/_qk/__init__.py", "line": 3, "args": [], **values}]}


def test_a_report_becomes_a_catalogue() -> None:
    argument = {
        "flags": ["-n", "--number"],
        "dest": "number",
        "type": "int",
        "default": 3,
        "required": False,
        "choices": [1, 3],
        "help": "how many",
        "nargs": None,
    }
    report = _task(args=[argument]) | {"python": "3.13.0", "quickie": "1.0.0", "trace": {"uncacheable": "a program"}}
    catalog = parse_report(report, _ROOT)
    (task,) = catalog.tasks
    assert (task.name, task.aliases, task.location, task.error) == ("build", ("b",), "_qk/__init__.py:3", "")
    assert task.args[0].flags == ("-n", "--number")
    assert task.args[0].choices == (1, 3)
    assert (catalog.python, catalog.quickie, catalog.uncacheable) == ("3.13.0", "1.0.0", "a program")


_HOSTILE = "\x1b[31mred\x1b[0m\x1b]0;title\x07 \u202eback\u202c zero\u200bwidth \x00nul \ud800 \U000e0041"


@pytest.mark.parametrize("key", ["help", "usage", "short_help"])
def test_texts_are_cleaned_and_bounded(key: str) -> None:
    (task,) = parse_report(_task(**{key: _HOSTILE}), _ROOT).tasks
    assert getattr(task, key) == "red back zerowidth nul \ufffd" + (" " if key != "short_help" else "")
    (task,) = parse_report(_task(**{key: "x" * 10_000_000}), _ROOT).tasks
    assert len(getattr(task, key)) <= HELP_LENGTH


def test_arguments_are_cleaned_everywhere() -> None:
    argument = {
        "flags": [_HOSTILE],
        "dest": _HOSTILE,
        "type": _HOSTILE,
        "default": {_HOSTILE: [_HOSTILE]},
        "choices": [_HOSTILE],
        "help": _HOSTILE,
        "nargs": _HOSTILE,
    }
    (task,) = parse_report(_task(args=[argument]), _ROOT).tasks
    assert _printable(repr(task.args[0]))


def _printable(text: str) -> bool:
    return printable(text) == text


def test_a_name_that_cannot_be_passed_to_run_task_is_an_error() -> None:
    (task,) = parse_report(_task(name="in\u200bvisible", aliases=["fine", "\x1b[0mcoloured", "x" * 1000]), _ROOT).tasks
    assert task.aliases == ("fine",)
    assert task.name == "invisible"
    assert "cannot be run by this name" in task.error


def test_the_error_of_a_task_is_one_line_with_its_place() -> None:
    error = {"type": "ValueError", "message": "bad\nthing", "frames": [{"file": "/project/_qk/x.py", "line": 7}]}
    (task,) = parse_report(_task(error=error), _ROOT).tasks
    assert task.error == "ValueError: bad thing (_qk/x.py:7)"
    catalog = parse_report({"problems": [{"name": "ci", "error": error}]}, _ROOT)
    assert catalog.problems == ("ci: ValueError: bad thing (_qk/x.py:7)",)


def test_too_many_tasks_are_cut_with_a_note() -> None:
    catalog = parse_report({"tasks": _task()["tasks"] * (TASKS + 1)}, _ROOT)
    assert len(catalog.tasks) == TASKS
    assert str(TASKS) in catalog.problems[0]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
_KEYS = (
    *("tasks", "problems", "python", "quickie", "trace", "name", "aliases", "help", "short_help", "usage", "file"),
    *("line", "args", "error", "flags", "dest", "type", "default", "choices", "nargs", "message", "frames"),
)
_REPORTS = st.recursive(
    _JSON,
    lambda inner: st.dictionaries(st.sampled_from(_KEYS), inner | st.lists(inner, max_size=3)),
    max_leaves=20,
)


@pytest.mark.long
@settings(max_examples=60)
@given(_REPORTS, st.dictionaries(st.sampled_from(_KEYS), _REPORTS))
def test_any_report_becomes_a_catalogue(nested: Any, report: dict[str, Any]) -> None:
    for tried in (report, {"tasks": [report], "problems": [report]}, {"tasks": [{"args": [report, nested]}]}):
        catalog = parse_report(tried, _ROOT)
        for task in catalog.tasks:
            assert _printable(task.name + task.help + task.usage + task.short_help + "".join(task.aliases))
