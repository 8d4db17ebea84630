"""From the start of a server to its first answers, and to its end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.answers import check, check_listing
from tests.bench.contenders import BARE, Contender, Stage
from tests.bench.projects import Project
from tests.bench.rows import Goal, Row, in_turn

__all__ = ["six_projects", "slow_import", "start"]

_INITIALIZED = Goal("times", 1.05)
_FIRST = Goal("times", 1.10)
_EXIT = Goal("at most", 0.1)


@dataclass(frozen=True, slots=True)
class _Life:
    """Times in the life of a server: seconds since its start, and for `exit` since stdin was closed."""

    initialized: float
    first: float
    exit: float


def start(stage: Stage) -> list[Row]:
    """One project of 30 tasks."""
    row = _measure(stage, {"app": Project(tasks=30)})
    return [
        row("start.initialize", "spawn to `initialize` answered", lambda life: life.initialized, _INITIALIZED),
        row("start.first", "spawn to first `list_tasks`: 30 tasks", lambda life: life.first, _FIRST),
        row("start.exit", "idle exit once stdin is closed", lambda life: life.exit, _EXIT),
    ]


def six_projects(stage: Stage) -> list[Row]:
    """Six projects of 30 tasks."""
    row = _measure(stage, {f"app{number}": Project(tasks=30) for number in range(6)})
    return [
        row("start-6.initialize", "spawn to `initialize`: 6 projects", lambda life: life.initialized, _INITIALIZED),
        row("start-6.first", "spawn to first `list_tasks`: 6 projects of 30", lambda life: life.first, _FIRST),
    ]


def slow_import(stage: Stage) -> list[Row]:
    """One project with a slow import."""
    row = _measure(stage, {"app": Project(tasks=30, import_seconds=0.3)})
    return [
        row("start-slow.first", "spawn to first `list_tasks`: import sleeps 0.3 s", lambda life: life.first, _FIRST)
    ]


type _MakeRow = Callable[[str, str, Callable[[_Life], float], Goal], Row]


def _measure(stage: Stage, projects: Mapping[str, Project]) -> _MakeRow:
    expected = {alias: project.names for alias, project in projects.items()}
    ours, bare = stage.ours(projects), stage.bare()

    def our_life() -> _Life:
        return _life(ours, "list_tasks", lambda data: check_listing(data, expected), detail="full")

    def bare_life() -> _Life:
        return _life(bare, "nothing", lambda data: check(data == "", f"the bare server says {data!r}"))

    works: dict[str, Callable[[], _Life]] = {"ours": our_life, "bare": bare_life}
    in_turn(1, works)  # uncounted: it fills the caches of the file system and of bytecode
    lives = in_turn(stage.rounds, works)

    def row(key: str, label: str, figure: Callable[[_Life], float], goal: Goal) -> Row:
        figures: dict[str, Sequence[float]] = {who: [figure(life) for life in each] for who, each in lives.items()}
        return Row(key=key, label=label, ours=figures["ours"], against=BARE, theirs=figures["bare"], goal=goal)

    return row


def _life(contender: Contender, tool: str, right: Callable[[Any], None], **arguments: Any) -> _Life:
    with contender.serve() as server:
        initialized = server.seconds_to_initialize()
        answer = server.ask(tool, **arguments)
        right(answer.data)
        server.settle()
        return _Life(initialized, answer.at - server.began, server.seconds_to_exit())
