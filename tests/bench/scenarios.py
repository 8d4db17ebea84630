"""The scenarios: each returns the rows whose keys begin with its name."""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bench import answering, backgrounding, commanding, growing, listing, printing, running, starting
from tests.bench.contenders import Stage
from tests.bench.rows import Row

__all__ = ["GROWTH", "USUAL", "Scenario", "choose", "measure", "within"]

type Scenario = Callable[[Stage], list[Row]]

USUAL: dict[str, Scenario] = {
    "start": starting.start,
    "start-6": starting.six_projects,
    "start-slow": starting.slow_import,
    "list.300": listing.large_project,
    "list.10x30": listing.ten_projects,
    "list.slow": listing.slow_import,
    "run": running.run,
    "run-1": running.run_small,
    "run-300": running.run_large,
    "run-slow": running.run_slow,
    "run-recorded": running.run_recorded,
    "lines": printing.lines,
    "redaction": printing.redacted_lines,
    "bytes": answering.sizes,
    "failed": answering.failed_run,
    "background": backgrounding.background,
    "command.list": commanding.projects_list,
    "command.json": commanding.projects_list_json,
    "command.version": commanding.version,
    "command.help": commanding.help_text,
}
GROWTH: dict[str, Scenario] = {
    "tasks": growing.many_tasks,
    "projects": growing.many_projects,
    "runs": growing.many_runs,
}


def choose(names: Sequence[str], *, growth: bool) -> dict[str, Scenario]:
    """Return the scenarios with the named rows, or all without names; raise KeyError for an unknown name."""
    known = USUAL | GROWTH
    if not names:
        return known if growth else USUAL
    chosen: dict[str, Scenario] = {}
    for row in names:
        found = {name for name in known if within(row, name) or within(name, row)}
        if not found:
            raise KeyError(row)
        chosen |= {name: known[name] for name in known if name in found}
    return chosen


def within(key: str, name: str) -> bool:
    """Return whether the row `key` is `name` or below it."""
    return f"{key}.".startswith(f"{name}.")


def measure(scenarios: Mapping[str, Scenario], *, rounds: int, whole: bool) -> list[Row]:
    """Measure scenarios in turn, with progress on stderr; one with a wrong answer returns a row that says so."""
    rows: list[Row] = []
    for number, (name, scenario) in enumerate(scenarios.items(), 1):
        print(f"[{number}/{len(scenarios)}] {name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            try:
                rows += scenario(Stage(Path(directory).resolve(), rounds, whole))
            except AssertionError as wrong:  # from `check`, or from the client: no answer in time
                rows.append(Row(key=name, label=name, ours=(), wrong=str(wrong)))
    return rows
