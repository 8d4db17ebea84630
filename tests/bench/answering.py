"""Answers that fit: bytes of long listings and of a failed run, and what searching its output for failures costs."""

import json
from collections.abc import Callable
from typing import Any

from tests.bench.answers import check, check_listing
from tests.bench.client import Server, ToolAnswer
from tests.bench.contenders import PEER, Stage
from tests.bench.projects import REPORTED, Project
from tests.bench.rows import Goal, Row, in_turn

__all__ = ["failed_run", "sizes"]

_LIMIT = 40_000
"""Bytes of JSON of an answer."""
_LISTED = (30, 300)
_PRINTED = 400_000
_MUCH = 100_000_000
_PATIENCE = 600


def sizes(stage: Stage) -> list[Row]:
    """Bytes of JSON for listings of 30 and 300 tasks, and for a failed run that prints 400 kB."""
    rows = [_listing(stage, count) for count in _LISTED]
    projects = {"app": Project(tasks=30, lines=_PRINTED // REPORTED)}
    ours, theirs = _both(stage, projects, lambda server: _run_report(server, 1))
    check(ours.data["exit_code"] == theirs.data["exit_code"] == 1, f"a failed run succeeds: {theirs.data}")
    return [*rows, _size_row("bytes.failed", f"answer of a failed run of {_PRINTED // 1000} kB", ours, theirs)]


def failed_run(stage: Stage) -> list[Row]:
    """A run of 100 MB that fails, with lines of the gap that look like failures, and the same run that succeeds."""
    with stage.ours({"app": Project(tasks=30, lines=_MUCH // REPORTED)}).serve() as server:
        server.initialize()
        works: dict[str, Callable[[], ToolAnswer]] = {
            "failed": lambda: _run_report(server, 1),
            "succeeded": lambda: _run_report(server, 0),
        }
        answers = in_turn(stage.rounds, works)
        server.close()
    for name, each in answers.items():
        for answer in each:
            check(("look like failures" in answer.data["stdout"]) is (name == "failed"), f"a run that {name} is wrong")
    return [
        Row(
            key="failed.time",
            label=f"a failed run of {_MUCH // 1_000_000} MB, with rescued lines",
            ours=[answer.seconds for answer in answers["failed"]],
            against="the same, successful",
            theirs=[answer.seconds for answer in answers["succeeded"]],
            goal=Goal("times", 1.2),
        )
    ]


def _listing(stage: Stage, count: int) -> Row:
    project = Project(tasks=count)
    ours, theirs = _both(stage, {"app": project}, lambda server: server.ask("list_tasks"))
    for answer in (ours, theirs):
        check_listing(answer.data, {"app": project.names}, full=answer is theirs)
    return _size_row(f"bytes.{count}", f"answer of `list_tasks`: {count} tasks", ours, theirs)


def _both(
    stage: Stage, projects: dict[str, Project], ask: Callable[[Server], ToolAnswer]
) -> tuple[ToolAnswer, ToolAnswer]:
    """Return what our server and quickie's own answer."""
    answers = []
    for contender in (stage.ours(projects), stage.peer(projects)):
        with contender.serve() as server:
            server.initialize()
            answers.append(ask(server))
            server.close()
    ours, theirs = answers
    return ours, theirs


def _run_report(server: Server, code: int) -> ToolAnswer:
    server.settle()
    return server.ask("run_task", _PATIENCE, task_name="report", args=[str(code)], timeout=_PATIENCE)


def _size_row(key: str, label: str, ours: ToolAnswer, theirs: ToolAnswer) -> Row:
    return Row(
        key=key,
        label=label,
        ours=[_size(ours.data)],
        against=PEER,
        theirs=[_size(theirs.data)],
        unit="B",
        goal=Goal("at most", _LIMIT),
    )


def _size(data: Any) -> int:
    return len(json.dumps(data, ensure_ascii=False).encode())
