"""Listing unchanged projects again."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.bench.answers import check_listing
from tests.bench.client import Server
from tests.bench.contenders import PEER, Stage
from tests.bench.projects import Project
from tests.bench.rows import Goal, Row, in_turn

__all__ = ["large_project", "slow_import", "ten_projects"]

_FIFTIETH = Goal("times", 1 / 50)
_CALLS = 5
"""Calls to our server in a round."""


def large_project(stage: Stage) -> list[Row]:
    """One project of 300 tasks."""
    return [_unchanged(stage, "list.300", "unchanged `list_tasks`: 300 tasks", {"app": Project(tasks=300)})]


def ten_projects(stage: Stage) -> list[Row]:
    """Ten projects of 30 tasks."""
    projects = {f"app{number}": Project(tasks=30) for number in range(10)}
    return [_unchanged(stage, "list.10x30", "unchanged `list_tasks`: 10 projects of 30", projects)]


def slow_import(stage: Stage) -> list[Row]:
    """One project with a slow import."""
    projects = {"app": Project(tasks=30, import_seconds=0.3)}
    return [_unchanged(stage, "list.slow", "unchanged `list_tasks`: import sleeps 0.3 s", projects)]


def _unchanged(stage: Stage, key: str, label: str, projects: Mapping[str, Project]) -> Row:
    expected = {alias: project.names for alias, project in projects.items()}
    with stage.ours(projects).serve() as ours, stage.peer(projects).serve() as peer:
        arguments: dict[Server, dict[str, Any]] = {ours: {"detail": "full"}, peer: {}}

        def asked(server: Server, calls: int) -> list[float]:
            seconds = []
            for _ in range(calls):
                answer = server.ask("list_tasks", **arguments[server])
                check_listing(answer.data, expected)
                seconds.append(answer.seconds)
            return seconds

        for server in (ours, peer):
            server.initialize()
            asked(server, 1)
            server.settle()
        asked(ours, 1)  # files written just before the first listing are cached from the second one on
        ours.settle()
        works: dict[str, Callable[[], list[float]]] = {
            "ours": lambda: asked(ours, _CALLS),
            "peer": lambda: asked(peer, 1),
        }
        seconds = in_turn(stage.rounds, works)
        ours.close()
        peer.close()
    return Row(
        key=key,
        label=label,
        ours=[each for calls in seconds["ours"] for each in calls],
        against=PEER,
        theirs=[each for calls in seconds["peer"] for each in calls],
        goal=_FIFTIETH,
    )
