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

    def right(output: str) -> None:
        check(all(alias in output for alias in _PROJECTS), f"projects list prints {output!r}")

    return [_compare(stage, "command.list", ("projects", "list"), (), right)]


def projects_list_json(stage: Stage) -> list[Row]:
    """Three projects, as JSON."""

    def right(output: str) -> None:
        check(len(json.loads(output)) == len(_PROJECTS), f"projects list --json prints {output!r}")

    return [_compare(stage, "command.json", ("projects", "list", "--json"), (), right)]


def version(stage: Stage) -> list[Row]:
    """The version."""
    return [
        _compare(
            stage,
            "command.version",
            ("--version",),
            ("--version",),
            lambda output: check(output.strip().endswith(qk_mcp.__version__), f"--version prints {output!r}"),
        )
    ]


def help_text(stage: Stage) -> list[Row]:
    """The help."""
    return [
        _compare(
            stage,
            "command.help",
            ("--help",),
            ("--help",),
            lambda output: check("serve" in output and "inspect" in output, f"--help prints {output!r}"),
        )
    ]


def _compare(stage: Stage, key: str, args: tuple[str, ...], same: tuple[str, ...], right: Callable[[str], None]) -> Row:
    def ran(contender: Contender, args: tuple[str, ...], right: Callable[[str], None]) -> float:
        output, seconds = contender.run(*args)
        right(output)
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
