"""A task that prints a million lines."""

from collections.abc import Callable

from tests.bench.answers import check_printed, check_run
from tests.bench.client import Server
from tests.bench.contenders import PEER, Stage
from tests.bench.memory import peak, resident
from tests.bench.projects import LINE, Project, printed
from tests.bench.rows import Goal, Row, in_turn

__all__ = ["lines"]

_MANY = 1_000_000
_FEW = 20_000
_PATIENCE = 3_600


def lines(stage: Stage) -> list[Row]:
    """quickie's server prints fewer lines unless `--whole` is given, and its time is scaled."""
    ours, few = Project(tasks=3, lines=_MANY), Project(tasks=3, lines=_MANY if stage.whole else _FEW)
    peaks: list[float] = []
    idle: list[float] = []
    with stage.ours({"app": ours}).serve() as server, stage.peer({"app": few}).serve() as peer:
        expected, expected_of_peer = printed(ours), printed(few)

        def million() -> float:
            server.settle()
            idle.append(resident(server.pid))
            with peak(server.pid) as found:
                answer = server.ask("run_task", _PATIENCE, task_name="lines", timeout=_PATIENCE)
            peaks.append(found.seen)
            check_printed(answer.data, expected)
            return answer.seconds

        def scaled() -> float:
            begin = _one_line(peer)
            answer = peer.ask("run_task", _PATIENCE, task_name="lines", timeout=_PATIENCE)
            check_printed(answer.data, expected_of_peer)
            return begin + (answer.seconds - begin) * _MANY / few.lines

        for each in (server, peer):
            each.initialize()
            _one_line(each)
        works: dict[str, Callable[[], float]] = {"ours": million, "peer": scaled}
        seconds = in_turn(1 if stage.whole else stage.rounds, works)
        server.close()
        peer.close()
    return [
        Row(
            key="lines.time",
            label="1,000,000 printed lines",
            ours=seconds["ours"],
            against=PEER,
            theirs=seconds["peer"],
            goal=Goal("times", 1 / 20),
            note=""
            if stage.whole
            else f"quickie's server printed {_FEW:,} lines; its time is scaled (--whole measures all of it)",
        ),
        Row(
            key="lines.memory",
            label="… peak memory of the server",
            ours=peaks,
            against="the same, idle",
            theirs=idle,
            unit="MB",
            goal=Goal("more", 32),
        ),
    ]


def _one_line(server: Server) -> float:
    server.settle()
    answer = server.ask("run_task", task_name="line")
    check_run(answer.data, LINE)
    return answer.seconds
