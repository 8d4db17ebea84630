"""The entries of a listing: the keys, the filter, and how a long answer is shortened."""

import json
from pathlib import Path
from typing import Any

import pytest

from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import Project
from qk_mcp.tasks.catalog import Argument, Catalog, Task
from qk_mcp.tasks.listing import ANSWER_LIMIT, FULL_LIMIT, listing_text, make_entries
from tests.support.projects import make_project

_FLAG = Argument(("--flag",), "flag", None, False, False, None, "A flag. " + "x" * 100, 0)
_PATHS = Argument(("paths",), "paths", "str", None, True, None, None, "+")
_APP = Project(alias="app", path=Path("/project"))


def _catalog(*names: str, problems: tuple[str, ...] = ()) -> Catalog:
    tasks = tuple(
        Task(name, (f"{name}-alias",), "Short.", "Long. " + "y" * 100, "usage: x", "_qk.py:1", (_FLAG, _PATHS))
        for name in names
    )
    return Catalog(Path("/project"), tasks, problems, "3.13.0", "1.0.0", "")


def _many(count: int) -> Catalog:
    return _catalog(*(f"namespace:task-{number}" for number in range(count)))


def _entry(catalog: Catalog, **options: Any) -> dict[str, Any]:
    [entry] = make_entries([(_APP, catalog)], **options)
    return entry


def _size(*entries: dict[str, Any]) -> int:
    return len(json.dumps(entries, ensure_ascii=False).encode())


def test_an_entry_has_the_documented_keys() -> None:
    entry = _entry(_catalog("build"))
    assert list(entry) == ["project", "project_root", "tasks"]
    (task,) = entry["tasks"]
    assert list(task) == ["name", "aliases", "short_help", "help", "usage", "location", "args_schema"]
    assert list(task["args_schema"][0]) == [
        "flags", "dest", "type", "default", "required", "choices", "help", "nargs"
    ]  # fmt: skip


def test_the_short_form_has_a_usage_line_and_no_empty_keys() -> None:
    plain = Task("plain", (), "", "", "usage: plain", None, ())
    catalog = Catalog(Path("/project"), (*_catalog("build").tasks, plain), (), "3.13.0", "1.0.0", "")
    entry = _entry(catalog, detail="short")
    usage = "[--flag] PATHS..."
    build = {"name": "build", "aliases": ["build-alias"], "short_help": "Short.", "usage": usage}
    assert entry["tasks"] == [build, {"name": "plain"}]
    assert "note" not in entry


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
    entry = _entry(_catalog("build", "test:Unit", "[x]", "*"), pattern=pattern)
    assert [task["name"] for task in entry["tasks"]] == expected


def test_a_filter_without_matches_names_the_nearest_tasks() -> None:
    note = _entry(_catalog("build", "test"), pattern="biuld")["note"]
    assert note == "none of its 2 tasks has a name that matches 'biuld'; the nearest names are 'build'"
    assert _entry(_catalog("build"), pattern="x")["note"] == "its only task has no name that matches 'x'"
    assert _entry(_catalog(), pattern="x")["note"] == "it has no tasks"


def test_a_filter_that_matches_in_one_project_needs_no_note_in_others() -> None:
    entries = make_entries([(_APP, _catalog("build")), (_APP, _catalog("test"))], pattern="build")
    assert [len(entry["tasks"]) for entry in entries] == [1, 0]
    assert not any("note" in entry for entry in entries)


@pytest.mark.parametrize("pattern", ["[" * 100_000, "*a" * 100_000, "?" * 100_000, "a" * 1_000_000, "[" * 600])
def test_a_huge_filter_takes_no_time(pattern: str) -> None:
    entry = _entry(_many(2_000), pattern=pattern)
    assert entry["tasks"] == []
    assert len(entry["note"]) < 500


def test_a_namespace_that_failed_to_load_is_noted() -> None:
    note = _entry(_catalog("build", problems=("ci: ImportError: no", "x: y")))["note"]
    assert "ci: ImportError: no; x: y" in note


def test_a_broken_project_has_its_root_if_it_has_one(tmp_path: Path) -> None:
    root = make_project(tmp_path / "app", "")
    failure = QkMcpError("it is broken", hint="fix it")
    [entry, rootless] = make_entries(
        [(Project(alias="app", path=root), failure), (Project(alias="b", path=tmp_path / "none"), failure)]
    )
    assert entry == {"project": "app", "project_root": str(root), "tasks": [], "error": str(failure)}
    assert rootless["project_root"] is None


def test_a_long_answer_is_short_and_a_longer_one_has_names_only() -> None:
    full, short, names, cut = (_entry(_many(count)) for count in (30, 150, 800, 5_000))
    assert "help" in full["tasks"][0]
    assert "note" not in full
    assert (len(short["tasks"]), set(short["tasks"][0])) == (150, {"name", "aliases", "short_help", "usage"})
    assert "`filter`" in short["note"]
    assert (len(names["tasks"]), names["tasks"][0]) == (800, {"name": "namespace:task-0"})
    assert f"{5_000 - len(cut['tasks'])} more tasks are left out" in cut["note"]
    assert len(cut["tasks"]) > 1_000
    for entry in (full, short, names, cut):
        assert _size(entry) <= ANSWER_LIMIT


def test_full_detail_has_a_larger_bound() -> None:
    full, short = (_entry(_many(count), detail="full") for count in (300, 2_000))
    assert ANSWER_LIMIT < _size(full) < FULL_LIMIT
    assert "note" not in full
    assert "note" in short
    assert _size(short) < FULL_LIMIT


def test_many_projects_share_the_bound() -> None:
    projects = [(Project(alias=f"app{number}", path=Path("/project")), _many(1_000)) for number in range(20)]
    entries = make_entries(projects)
    assert _size(*entries) <= ANSWER_LIMIT
    assert all(entry["tasks"] for entry in entries)


@pytest.mark.parametrize("sign", ["x", "é", "\n"])
def test_many_long_errors_share_the_bound(sign: str) -> None:
    short, long = QkMcpError("it is broken"), QkMcpError(sign * 20_000)
    projects = [(Project(alias=f"app{number}", path=Path("/project")), long) for number in range(20)]
    entries = make_entries([*projects, (_APP, short), (_APP, _many(100))])
    assert _size(*entries) <= ANSWER_LIMIT
    assert entries[20]["error"] == "it is broken"
    assert all(len(entry["error"]) > 300 for entry in entries[:20])
    assert len(entries[21]["tasks"]) == 100


def test_the_text_has_a_line_per_task() -> None:
    entries = make_entries([(_APP, _catalog("build", "test")), (_APP, _catalog())])
    text = listing_text(entries)
    assert json.loads(text) == entries
    assert [line for line in text.splitlines() if '"name"' in line] == [
        json.dumps(entries[0]["tasks"][0]) + ",",
        json.dumps(entries[0]["tasks"][1]),
    ]
