"""The command line, as whole processes."""

import json
from collections.abc import Callable

import qk_mcp
from tests.bench.answers import check
from tests.bench.contenders import EMPTY, Contender, Stage
from tests.bench.projects import Project
from tests.bench.rows import Goal, Row, in_turn

__all__ = ["help_text", "projects_list", "projects_list_json", "version"]

_NEAR = Goal("more", 0.06)
_PROJECTS = {"one": Project(tasks=1), "shop": Project(tasks=30), "site": Project(tasks=30)}


def projects_list(stage: Stage) -> list[Row]:
    """Three projects, as a table."""

    def right(said: str) -> None:
        check(all(alias in said for alias in _PROJECTS), f"projects list says {said!r}")

    return [_beside(stage, "command.list", ("projects", "list"), (), right)]


def projects_list_json(stage: Stage) -> list[Row]:
    """Three projects, for a program."""

    def right(said: str) -> None:
        check(len(json.loads(said)) == len(_PROJECTS), f"projects list --json says {said!r}")

    return [_beside(stage, "command.json", ("projects", "list", "--json"), (), right)]


def version(stage: Stage) -> list[Row]:
    """What version it is."""
    return [
        _beside(
            stage,
            "command.version",
            ("--version",),
            ("--version",),
            lambda said: check(said.strip().endswith(qk_mcp.__version__), f"--version says {said!r}"),
        )
    ]


def help_text(stage: Stage) -> list[Row]:
    """How it is used."""
    return [
        _beside(
            stage,
            "command.help",
            ("--help",),
            ("--help",),
            lambda said: check("serve" in said and "inspect" in said, f"--help says {said!r}"),
        )
    ]


def _beside(stage: Stage, key: str, args: tuple[str, ...], same: tuple[str, ...], right: Callable[[str], None]) -> Row:
    def ran(contender: Contender, args: tuple[str, ...], right: Callable[[str], None]) -> float:
        said, seconds = contender.run(*args)
        right(said)
        return seconds

    ours, empty = stage.command_line(_PROJECTS), stage.empty_app()
    works: dict[str, Callable[[], float]] = {
        "ours": lambda: ran(ours, args, right),
        "empty": lambda: ran(empty, same, lambda _: None),
    }
    in_turn(1, works)  # uncounted
    seconds = in_turn(stage.rounds, works)
    label = " ".join(["qk-mcp", *args])
    return Row(
        key=key,
        label=f"`{label}`, whole process",
        ours=seconds["ours"],
        against=EMPTY,
        theirs=seconds["empty"],
        goal=_NEAR,
    )
