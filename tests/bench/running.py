"""Running a task that prints one line, with a warm guest and with one that is started for the run."""

import os
from functools import partial

from tests.bench.answers import check_run
from tests.bench.client import Server
from tests.bench.contenders import PEER, Stage
from tests.bench.projects import LINE, Project
from tests.bench.rows import Goal, Row, in_turn

__all__ = ["run", "run_large", "run_recorded", "run_slow", "run_small"]

_WARM = Goal("times", 0.1)
_COLD = Goal("times", 0.75)


def run(stage: Stage) -> list[Row]:
    """In a project of 30 tasks."""
    return _runs(stage, "run", "30 tasks", Project(tasks=30))


def run_small(stage: Stage) -> list[Row]:
    """In a project of one task."""
    return _runs(stage, "run-1", "1 task", Project(tasks=1))


def run_large(stage: Stage) -> list[Row]:
    """In a project of 300 tasks."""
    return _runs(stage, "run-300", "300 tasks", Project(tasks=300))


def run_slow(stage: Stage) -> list[Row]:
    """In a project with a slow import, which each run repeats; without a goal."""
    return _runs(stage, "run-slow", "import sleeps 0.3 s", Project(tasks=30, import_seconds=0.3), goals=False)


def run_recorded(stage: Stage) -> list[Row]:
    """With rules and a record, against neither: without a usable state directory, no run is recorded."""
    projects = {"app": Project(tasks=30)}
    recorded = stage.command_line(projects, 'deny = ["deploy*", "db:*"]\nconfirm = ["release*"]')
    plain = stage.command_line(projects).with_environ({"XDG_STATE_HOME": os.devnull})
    with recorded.serve() as ours, plain.serve() as theirs:
        works = {"ours": partial(_once, ours), "theirs": partial(_once, theirs)}
        for server in (ours, theirs):
            server.initialize()
        in_turn(1, works)
        seconds = in_turn(stage.rounds, works)
    return [
        Row(
            key="run-recorded",
            label="`run_task`, warm, with rules and a record",
            ours=seconds["ours"],
            against="without them",
            theirs=seconds["theirs"],
            goal=Goal("more", 0.003),
        )
    ]


def _once(server: Server) -> float:
    server.settle()
    answer = server.ask("run_task", task_name="line")
    check_run(answer.data, LINE)
    return answer.seconds


def _runs(stage: Stage, key: str, what: str, project: Project, *, goals: bool = True) -> list[Row]:
    projects = {"app": project}
    with (
        stage.ours(projects).serve() as warm,
        stage.ours(projects, "--no-warm").serve() as cold,
        stage.peer(projects).serve() as peer,
    ):
        works = {"warm": partial(_once, warm), "cold": partial(_once, cold), "peer": partial(_once, peer)}
        for server in (warm, cold, peer):
            server.initialize()
        in_turn(1, works)  # uncounted: the first run in a project is always cold
        seconds = in_turn(stage.rounds, works)
        warm.settle()
        exits = [warm.seconds_to_exit()]
        cold.close()
        peer.close()
    rows = []
    for way, goal in {"warm": _WARM, "cold": _COLD}.items():
        rows.append(
            Row(
                key=f"{key}.{way}",
                label=f"`run_task`, {way}: {what}",
                ours=seconds[way],
                against=PEER,
                theirs=seconds["peer"],
                goal=goal if goals else None,
            )
        )
    exit_row = Row(key=f"{key}.exit", label="idle exit with a warm guest", ours=exits, goal=Goal("at most", 0.1))
    return [*rows, exit_row] if key == "run" else rows
