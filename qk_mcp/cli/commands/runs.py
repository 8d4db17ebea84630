"""`qk-mcp runs`: what agents have run, the output of a run, and how a person stops one."""

import json
import signal
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Group, Parameter

from qk_mcp.cli.runs.elsewhere import run_there
from qk_mcp.cli.runs.select import begins_since, find_run, has_failed, is_of_project, parse_age, recorded_runs
from qk_mcp.cli.ui.help import examples
from qk_mcp.cli.ui.messages import note
from qk_mcp.errors import RunNotStopped

if TYPE_CHECKING:
    from qk_mcp.runs.record import RunRecord

__all__ = ["runs"]

_ON_SCREEN = 50
"""Runs that a terminal shows, unless `--since` says how many."""
_STOP_LIMIT = 60.0
"""Seconds to wait for the end of a run that was stopped. A project's `grace` may be long."""
_GONE_LIMIT = 5.0
"""Seconds to wait for the end of a run whose supervisor has gone already."""
_PAUSE = 0.05
"""Seconds between two looks at the record."""

runs = App(
    name="runs",
    help="Show what agents have run, and stop what is running.",
    usage="Usage: qk-mcp runs [OPTIONS] [COMMAND RUN]",
    group_parameters=Group("Options"),
    help_epilogue=examples("qk-mcp runs --failed --since 2h", "qk-mcp runs show r4f", "qk-mcp runs stop r4f"),
)


@runs.default
def list_runs(
    *,
    project: Annotated[str | None, Parameter(metavar="NAME")] = None,
    failed: Annotated[bool, Parameter(negative="")] = False,
    since: Annotated[str | None, Parameter(metavar="AGE")] = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    follow: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Show what agents have run, and stop what is running.

    Runs are recorded for seven days: those that are under way come first, then the newest.

    Parameters
    ----------
    project
        Only runs of this project.
    failed
        Only runs that failed, timed out or were lost.
    since
        Only runs that began in this time or still run: 90s, 30m, 2h, 3d.
    as_json
        Print only JSON; with --follow, an object per line.
    follow
        Print each run again when it begins or ends, until Ctrl+C.
    """
    age = None if since is None else parse_age("--since", since)

    def is_wanted(record: "RunRecord") -> bool:
        return (
            (project is None or is_of_project(record, project))
            and (not failed or has_failed(record))
            and (age is None or begins_since(record, age))
        )

    from qk_mcp.cli.runs.table import print_changes, print_table, table_order

    if follow:
        print_changes(is_wanted, as_json=as_json)
    records = table_order(filter(is_wanted, recorded_runs()))
    if as_json:
        print(json.dumps([asdict(record) for record in records], indent=2))
    elif records:
        shown = records if since is not None or not sys.stdout.isatty() else records[:_ON_SCREEN]
        print_table(shown)
        if len(shown) < len(records):
            note(f"{len(records) - len(shown)} older runs: --since 7d shows all")
    else:
        note("no agent has run a task" if age is None and not failed and project is None else "no run matches")


@runs.command(
    usage="Usage: qk-mcp runs show [OPTIONS] RUN",
    help_epilogue=examples("qk-mcp runs show r4f", "qk-mcp runs show r4f --follow"),
)
def show(
    run: Annotated[str, Parameter(name="RUN")],
    /,
    *,
    follow: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Print the complete output of a run: its stdout to stdout, its stderr to stderr.

    Parameters
    ----------
    run
        The id of the run, or its beginning.
    follow
        Print what a running task writes until it ends.
    """
    from qk_mcp.cli.runs.output import print_output

    record = find_run(recorded_runs(), run)
    if record.there:
        return run_there(record, ["show", *(["--follow"] if follow else [])])
    print_output(record, follow=follow)
    return 0


@runs.command(
    usage="Usage: qk-mcp runs stop RUN",
    help_epilogue=examples("qk-mcp runs stop r4f"),
)
def stop(run: Annotated[str, Parameter(name="RUN")], /) -> int:
    """Stop a running task of any server; its agent learns that a person stopped it.

    Parameters
    ----------
    run
        The id of the run, or its beginning.
    """
    from qk_mcp.cli.runs.table import summarize_run

    record = find_run(recorded_runs(), run)
    if record.state != "running":
        raise RunNotStopped(record.run, f"It is not running: {summarize_run(record)}.")
    if record.supervisor is None and record.root.startswith("/"):
        raise RunNotStopped(record.run, "Its task has not begun.", "try again in a moment")
    if record.supervisor is None:
        return run_there(record, ["stop"])
    try:
        signalled = record.supervisor.send_signal(signal.SIGUSR2)
    except PermissionError:
        raise RunNotStopped(record.run, "It belongs to another user.") from None
    limit = _STOP_LIMIT if signalled else _GONE_LIMIT
    deadline = time.monotonic() + limit
    while (record := find_run(recorded_runs(), record.run)).state == "running":
        if time.monotonic() > deadline:
            raise RunNotStopped(
                record.run, f"It has no end after {limit:g} s.", f"stop its server: kill {record.server.pid}"
            )
        time.sleep(_PAUSE)
    note(f"{record.run}: {summarize_run(record)}")
    return 0
