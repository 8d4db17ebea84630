"""Runs in the background: how fast one is started, and how fast the output of a long one is read and searched."""

from collections.abc import Callable

from tests.bench.answers import check, check_run
from tests.bench.client import Server
from tests.bench.contenders import Stage
from tests.bench.projects import LINE, Project
from tests.bench.rows import Goal, Row, in_turn

__all__ = ["background"]

_LINES = 1_000_000
_PATIENCE = 600


def background(stage: Stage) -> list[Row]:
    """A task that sleeps is started; a task that has printed a million lines is looked at."""
    with stage.ours({"app": Project(tasks=4, lines=_LINES, wait=_PATIENCE)}).serve() as server:
        server.initialize()
        server.ask("run_task", task_name="line")  # uncounted: the first run in a project is always cold
        run_id = server.ask("run_task", task_name="lines", background=True).data["run_id"]
        ended = server.ask("get_run", _PATIENCE, run_id=run_id, wait=_PATIENCE).data
        check(ended["state"] == "ended", f"a run did not end: {str(ended)[:300]}")

        def look() -> float:
            answer = server.ask("get_run", run_id=run_id)
            check(answer.data["stdout"].endswith(f"line {_LINES - 1}\n"), "the last line is missing")
            check(answer.data["stdout"].count("\n") == 60, "there are not sixty lines")
            return answer.seconds

        def grep() -> float:
            answer = server.ask("get_run", run_id=run_id, grep="line 99999[0-9]$")
            check(answer.data["stdout"].count("\n") == 10, "matching lines are missing")
            return answer.seconds

        works: dict[str, Callable[[], float]] = {
            "start": lambda: _start(server),
            "warm": lambda: _warm(server),
            "look": look,
            "grep": grep,
        }
        seconds = in_turn(stage.rounds, works)
        server.close()
    return [
        Row(
            key="background.start",
            label="`run_task` with `background`, a task that sleeps",
            ours=seconds["start"],
            against="a warm run of a task that prints a line",
            theirs=seconds["warm"],
            goal=Goal("times", 1.1),
        ),
        Row(
            key="background.look",
            label="`get_run` of a run with a million lines",
            ours=seconds["look"],
            goal=Goal("at most", 0.02),
        ),
        Row(key="background.grep", label="… with `grep`", ours=seconds["grep"], goal=Goal("at most", 1.0)),
    ]


def _start(server: Server) -> float:
    server.settle()
    answer = server.ask("run_task", task_name="wait", background=True)
    check(answer.data["state"] == "running", f"a run did not go on: {str(answer.data)[:300]}")
    server.ask("stop_run", run_id=answer.data["run_id"])
    return answer.seconds


def _warm(server: Server) -> float:
    server.settle()
    answer = server.ask("run_task", task_name="line")
    check_run(answer.data, LINE)
    return answer.seconds
