"""Costs that grow with the number of tasks, projects and runs; these rows have no goals."""

import time
from collections.abc import Callable

from tests.bench.answers import check, check_listing, check_run
from tests.bench.client import Server
from tests.bench.contenders import PEER, Stage
from tests.bench.memory import family, peak, resident
from tests.bench.projects import LINE, Project
from tests.bench.rows import Row, in_turn

__all__ = ["many_projects", "many_runs", "many_tasks"]

_TASKS, _PROJECTS, _RUNS = 2_000, 50, 100


def many_tasks(stage: Stage) -> list[Row]:
    """One project of 2,000 tasks, whose listing is shortened."""
    project = Project(tasks=_TASKS)

    def right(entries: object) -> None:
        check_listing(entries, {"app": project.names}, full=False)

    with stage.ours({"app": project}).serve() as ours, stage.peer({"app": project}).serve() as peer:
        first = _first(ours, right)
        _first(peer, right)

        def once(server: Server) -> float:
            answer = server.ask("list_tasks")
            right(answer.data)
            return answer.seconds

        once(ours)
        works: dict[str, Callable[[], float]] = {"ours": lambda: once(ours), "peer": lambda: once(peer)}
        seconds = in_turn(stage.rounds, works)
        held = resident(ours.pid)
        ours.close()
        peer.close()
    what = f"{_TASKS:,} tasks"
    return [
        Row(key="tasks.first", label=f"first `list_tasks`: {what}", ours=[first]),
        Row(
            key="tasks.list",
            label=f"unchanged `list_tasks`: {what}",
            ours=seconds["ours"],
            against=PEER,
            theirs=seconds["peer"],
        ),
        Row(key="tasks.memory", label=f"memory of the server: {what}", ours=[held], unit="MB"),
    ]


def many_projects(stage: Stage) -> list[Row]:
    """Fifty projects of 30 tasks."""
    one = {"app0": Project(tasks=30)}
    many = {f"app{number}": Project(tasks=30) for number in range(_PROJECTS)}
    held: dict[int, float] = {}
    first: dict[int, float] = {}
    later: dict[int, list[float]] = {}
    for projects in (one, many):
        expected = {alias: project.names for alias, project in projects.items()}

        def right(entries: object, expected: dict[str, list[str]] = expected) -> None:
            check_listing(entries, expected, full=False)

        with stage.ours(projects).serve() as server:
            count = len(projects)
            first[count] = _first(server, right)
            server.ask("list_tasks")
            server.settle()
            later[count] = [server.ask("list_tasks").seconds for _ in range(stage.rounds)]
            held[count] = resident(server.pid)
            server.close()
    each = (held[_PROJECTS] - held[1]) / (_PROJECTS - 1)
    what = f"{_PROJECTS} projects of 30"
    return [
        Row(key="projects.first", label=f"first `list_tasks`: {what}", ours=[first[_PROJECTS]]),
        Row(
            key="projects.list",
            label=f"unchanged `list_tasks`: {what}",
            ours=later[_PROJECTS],
            against="the same, one project",
            theirs=later[1],
        ),
        Row(
            key="projects.memory",
            label=f"memory of the server: {what}",
            ours=[held[_PROJECTS]],
            against="the same, one project",
            theirs=[held[1]],
            unit="MB",
        ),
        Row(key="projects.each", label="… held for each project", ours=[each], unit="MB"),
    ]


def many_runs(stage: Stage) -> list[Row]:
    """A hundred runs at once of a task that takes a second."""
    projects = {"app": Project(tasks=30)}

    def together(server: Server) -> float:
        server.initialize()
        server.settle()
        began = time.monotonic()
        answers = server.gather([server.start("run_task", task_name="wait", timeout=100) for _ in range(_RUNS)])
        for answer in answers:
            check_run(answer.data, LINE)
        return max(answer.at for answer in answers) - began

    with stage.ours(projects).serve() as ours, peak(ours.pid) as most:
        took = together(ours)
        ours.settle()
        after = resident(ours.pid)
        ours.close()
    with stage.peer(projects).serve() as peer:
        peer_took = together(peer)
        peer.close()
    what = f"{_RUNS} runs at once"
    return [
        Row(key="runs.time", label=f"{what} of a task of 1 s", ours=[took], against=PEER, theirs=[peer_took]),
        Row(
            key="runs.server",
            label="… peak memory of the server",
            ours=[most.seen],
            against="the same, afterwards",
            theirs=[after],
            unit="MB",
        ),
        *_crowd(stage),
    ]


def _crowd(stage: Stage) -> list[Row]:
    """The server's descendants while all runs are in progress, and how fast they end."""
    with stage.ours({"app": Project(tasks=30, wait=1_000)}).serve() as server:
        server.initialize()
        for _ in range(_RUNS):
            server.start("run_task", task_name="wait", timeout=1_000)
        server.settle(longest=100)
        memory, processes = family(server.pid)
        check(processes >= _RUNS, f"of {_RUNS} runs there are {processes} processes")
        gone = server.seconds_to_exit()
    return [
        Row(key="runs.guests", label=f"… memory of the {processes} processes below it", ours=[memory], unit="MB"),
        Row(key="runs.exit", label=f"exit with {_RUNS} runs in progress", ours=[gone]),
    ]


def _first(server: Server, right: Callable[[object], None]) -> float:
    server.initialize()
    answer = server.ask("list_tasks")
    right(answer.data)
    server.settle()
    return answer.at - server.began
