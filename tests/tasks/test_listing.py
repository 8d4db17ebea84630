"""The entries of a listing: the keys, the filter, and how a long answer shrinks."""

import json
from pathlib import Path
from typing import Any

import pytest

from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import Project
from qk_mcp.tasks.catalog import Argument, Catalog, Task
from qk_mcp.tasks.listing import broken_entry, project_entry, shrink
from tests.support.projects import make_project

_ARGUMENT = Argument(("--flag",), "flag", None, False, False, None, "A flag. " + "x" * 100, 0)


def _catalog(*names: str, problems: tuple[str, ...] = ()) -> Catalog:
    tasks = tuple(
        Task(name, (f"{name}-alias",), "Short.", "Long. " + "y" * 100, "usage: x", "_qk.py:1", (_ARGUMENT,))
        for name in names
    )
    return Catalog(Path("/project"), tasks, problems, "3.13.0", "1.0.0", "")


def _names(pattern: str) -> list[str]:
    return [task["name"] for task in project_entry("app", _catalog("build", "test:Unit", "[x]", "*"), pattern)["tasks"]]


def test_an_entry_has_the_keys_of_the_contract() -> None:
    listed = project_entry("app", _catalog("build"))
    assert set(listed) == {"project", "project_root", "tasks"}
    (task,) = listed["tasks"]
    assert list(task) == ["name", "aliases", "short_help", "help", "usage", "location", "args_schema"]
    assert list(task["args_schema"][0]) == [
        "flags", "dest", "type", "default", "required", "choices", "help", "nargs"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["build", "test:Unit", "[x]", "*"]),
        ("UI", ["build"]),
        ("unit", ["test:Unit"]),
        ("-alias", ["build", "test:Unit", "[x]", "*"]),
        ("test:*", ["test:Unit"]),
        ("*i?d", ["build"]),
        ("[bt]*s", ["build", "test:Unit"]),
        ("[x]", ["[x]"]),
        ("*", ["build", "test:Unit", "[x]", "*"]),
        ("nothing", []),
    ],
)
def test_the_filter(pattern: str, expected: list[str]) -> None:
    assert _names(pattern) == expected


def test_a_namespace_that_failed_to_load_is_noted() -> None:
    note = project_entry("app", _catalog("build", problems=("ci: ImportError: no", "x: y")))["note"]
    assert "ci: ImportError: no; x: y" in note


def test_a_broken_project_has_its_root_if_it_has_one(tmp_path: Path) -> None:
    root = make_project(tmp_path / "app", "")
    failure = QkMcpError("it is broken", hint="fix it")
    listed = broken_entry(Project(alias="app", path=root), failure)
    assert listed == {"project": "app", "project_root": str(root), "tasks": [], "error": str(failure)}
    assert broken_entry(Project(alias="app", path=tmp_path / "none"), failure)["project_root"] is None


def _size(entries: list[dict[str, Any]]) -> int:
    return len(json.dumps(entries, ensure_ascii=False).encode())


def test_an_answer_that_fits_is_not_changed() -> None:
    entries = [project_entry("app", _catalog("build"))]
    assert shrink(entries) == entries


def test_a_long_answer_shrinks_step_by_step_and_keeps_every_key() -> None:
    full = project_entry("app", _catalog(*(f"task-{number}" for number in range(100))))
    seen = []
    for limit in range(_size([full]), 0, -1_000):
        (listed,) = shrink([full], limit)
        task = listed["tasks"][0]
        assert list(task) == list(full["tasks"][0])
        assert [each["name"] for each in listed["tasks"]] == [each["name"] for each in full["tasks"]]
        assert (task["aliases"], task["short_help"]) == (["task-0-alias"], "Short.")
        state = (
            task["help"] is None,
            task["args_schema"] is None,
            task["usage"] is None and task["location"] is None,
        )
        if state == (True, False, False):
            assert task["args_schema"][0] == {**full["tasks"][0]["args_schema"][0], "help": None}
        if state not in seen:
            seen.append(state)
        assert ("note" in listed) == any(state)
        assert not any(state) or "`filter`" in listed["note"]
    assert seen == [(False, False, False), (True, False, False), (True, True, False), (True, True, True)]


def test_the_largest_entry_shrinks_first() -> None:
    small = project_entry("small", _catalog("build"))
    large = project_entry("large", _catalog(*(f"task-{number}" for number in range(200)), problems=("x: y",)))
    listed = shrink([small, large, small], _size([small, large, small]) - 1)
    assert listed[0] == listed[2] == small
    assert listed[1]["tasks"][0]["help"] is None
    assert listed[1]["note"].startswith(large["note"])
    assert large["tasks"][0]["help"] is not None


def test_two_thousand_tasks_fit() -> None:
    catalog = _catalog(*(f"namespace:of:task-{number}" for number in range(2_000)))
    (listed,) = shrink([project_entry("app", catalog)])
    assert len(listed["tasks"]) == 2_000
    assert _size([listed]) < 500_000
