"""A task that prints a million lines, also with secrets to look for."""

from collections.abc import Callable

from tests.bench.answers import check_printed, check_run
from tests.bench.client import Server
from tests.bench.contenders import PEER, Stage
from tests.bench.memory import peak, resident
from tests.bench.projects import LINE, Project, printed
from tests.bench.rows import Goal, Row, in_turn

__all__ = ["lines", "redacted_lines"]

_MANY = 1_000_000
_FEW = 20_000
_PATIENCE = 3_600
_SECRETS = {
    "GITHUB_TOKEN": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "API_KEY": "sk-proj-Zq3Yb7Lk9Wv2Xc5Vn8Mf1Gh4Jd6Sa0PoIuYtReWqLkJhGfDsAzXcVbNmQwErTyUi",
    "DB_PASSWORD": "correct-horse-battery-staple",
    "SIGNING_SECRET": "line-of-nothing-that-is-printed",
}
"""Five values like real ones. The last begins like each printed line."""


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


def redacted_lines(stage: Stage) -> list[Row]:
    """With five secrets in the environment, none of which is printed, against the same without secrets."""
    project = Project(tasks=3, lines=_MANY)
    with (
        stage.ours({"app": project}).with_environ(_SECRETS).serve() as redacting,
        stage.ours({"app": project}).serve() as plain,
    ):
        expected = printed(project)

        def million(server: Server) -> float:
            server.settle()
            answer = server.ask("run_task", _PATIENCE, task_name="lines", timeout=_PATIENCE)
            check_printed(answer.data, expected)
            return answer.seconds

        for each in (redacting, plain):
            each.initialize()
            _one_line(each)
        seconds = in_turn(stage.rounds, {"ours": lambda: million(redacting), "plain": lambda: million(plain)})
        redacting.close()
        plain.close()
    return [
        Row(
            key="redaction.time",
            label="1,000,000 printed lines, 5 secrets",
            ours=seconds["ours"],
            against="the same without secrets",
            theirs=seconds["plain"],
            goal=Goal("times", 1.5),
        )
    ]


def _one_line(server: Server) -> float:
    server.settle()
    answer = server.ask("run_task", task_name="line")
    check_run(answer.data, LINE)
    return answer.seconds
