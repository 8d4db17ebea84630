"""The benchmark fails on wrong answers, never on slow ones."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench.answers import Wrong, check, check_listing, check_printed, check_run
from tests.bench.contenders import Stage
from tests.bench.rows import Goal, Row
from tests.bench.scenarios import GROWTH, USUAL, choose, measure

ROOT = Path(__file__).parents[2]
TASK = {"name": "a", "help": "A.", "usage": "usage: a"}


@pytest.mark.long
def test_its_smallest_row_is_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--rounds", "1", "--row", "command.version", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (row,) = report["rows"]
    assert row["key"] == "command.version"
    assert row["ours"] > 0
    assert row["theirs"] > 0
    assert row["met"] in (True, False)
    assert report["machine"]["packages"]["fastmcp"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: check_listing(None, {"app": ["a"]}),
        lambda: check_listing([], {"app": ["a"]}),
        lambda: check_listing([{"project": "app", "tasks": []}], {"app": ["a"]}),
        lambda: check_listing([{"project": "app", "tasks": [TASK, TASK]}], {"app": ["a"]}),
        lambda: check_listing([{"project": "app", "tasks": [TASK], "error": "broken"}], {"app": ["a"]}),
        lambda: check_listing([{"project": "app", "tasks": [TASK | {"usage": None}]}], {"app": ["a"]}),
        lambda: check_listing([{"project": name, "tasks": [TASK]} for name in ("app", "b")], {"app": ["a"]}),
        lambda: check_run(None, "x"),
        lambda: check_run({"exit_code": 1, "stdout": "x\n", "stderr": ""}, "x"),
        lambda: check_run({"exit_code": 0, "stdout": "y\n", "stderr": ""}, "x"),
        lambda: check_run({"exit_code": 0, "stdout": "x\n", "stderr": "!"}, "x"),
        lambda: check_printed({"exit_code": 0, "stdout": "1\n3\n"}, "1\n2\n3\n"),
    ],
)
def test_a_wrong_answer_is_noticed(wrong: Callable[[], None]) -> None:
    with pytest.raises(Wrong):
        wrong()


def test_right_answers_are_taken() -> None:
    check_listing([{"project": "app", "tasks": [TASK]}], {"app": ["a"]})
    check_run({"exit_code": 0, "stdout": "x\n", "stderr": ""}, "x")
    check_printed({"exit_code": 0, "stdout": "1\n2"}, "1\n2\n")


@pytest.mark.parametrize("kept", ["1\n2\n3\n", "1\n3\n"])
def test_a_bounded_answer_is_checked_by_its_file(tmp_path: Path, kept: str) -> None:
    file = tmp_path / "output"
    file.write_text(kept)
    answer: dict[str, Any] = {"exit_code": 0, "stdout": "1\n2\n3\n", "truncated": {"stdout": {"file": str(file)}}}
    if kept == answer["stdout"]:
        check_printed(answer, "1\n2\n3\n")
    else:
        with pytest.raises(Wrong):
            check_printed(answer, "1\n2\n3\n")


def test_one_wrong_answer_costs_its_row_alone() -> None:
    def wrong(stage: Stage) -> list[Row]:
        answer, _ = stage.command_line({}).run("--version")
        check(answer == "another version", f"it says {answer!r}")
        return []

    def right(_: Stage) -> list[Row]:
        return [Row(key="right", label="right", ours=[1.0])]

    rows = measure({"wrong": wrong, "right": right}, rounds=1, whole=False)
    assert [bool(row.wrong) for row in rows] == [True, False]


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("times", 2), True),
        (Goal("times", 1.9), False),
        (Goal("more", 1), True),
        (Goal("more", 0.9), False),
        (Goal("at most", 2), True),
        (Goal("at most", 1.9), False),
        (None, None),
    ],
)
def test_a_goal_is_a_multiple_a_difference_or_a_figure(goal: Goal | None, met: bool | None) -> None:
    assert Row(key="", label="", ours=[1, 2, 9], theirs=[1], goal=goal).met is met


def test_rows_are_chosen_by_their_names_or_what_these_begin_with() -> None:
    assert choose([], growth=False) == USUAL
    assert choose([], growth=True) == USUAL | GROWTH
    assert set(choose(["list", "start.exit"], growth=False)) == {"list.300", "list.10x30", "list.slow", "start"}
    with pytest.raises(KeyError):
        choose(["lis"], growth=False)
