"""The table of runs: running ones first, then the newest. One line for each run."""

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import NoReturn

from rich.text import Text

from qk_mcp.cli.runs.select import recorded_runs
from qk_mcp.cli.ui.tables import GAP, Sheet, widest
from qk_mcp.runs.record import RunRecord, RunState
from qk_mcp.text import one_line

__all__ = ["print_changes", "print_table", "summarize_run", "table_order"]

_COLUMNS = ("RUN", "WHEN", "CLIENT", "PROJECT", "RESULT", "TIME", "TASK")
"""The headings. The last column gets the rest of the width."""
_RECENT = 10
"""Runs that `print_changes` shows first."""
_PAUSE = 0.25
"""Seconds between two looks at the record."""

_WIDEST_NAME = 24
"""Characters of a client's or project's name."""
_COLOURS = {"running": "cyan", "ok": "green", "stopped": "yellow", "cancelled": "yellow"}
"""Colours of results; all others are failures."""


def table_order(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the runs that are under way, then the others; the newest first."""
    return sorted(records, key=lambda record: (record.state != "running", -record.time))


def print_table(records: Sequence[RunRecord]) -> None:
    """Print runs: with headings and relative times on a terminal, otherwise with dates."""
    sheet = Sheet()
    terminal = sheet.console.is_terminal
    rows = [_row(record, relative=terminal) for record in records]
    if terminal:
        rows.insert(0, [Text(name, "dim") for name in _COLUMNS])
    widths = _widths(rows)
    for row in rows:
        _print_row(sheet, row, widths)


def print_changes(is_wanted: Callable[[RunRecord], bool], *, as_json: bool) -> NoReturn:
    """Print the recent runs and those under way, and then each run when it begins or ends, until a signal."""
    sheet = Sheet()
    records = [record for record in recorded_runs() if is_wanted(record)]
    widths = _widths([_row(record, relative=False) for record in records] or [[Text()] * len(_COLUMNS)])
    recent = sorted(records, key=lambda record: record.state == "running")[-_RECENT:]
    shown: dict[str, RunState] = {record.run: record.state for record in records if record not in recent}
    while True:
        for record in records:
            if shown.get(record.run) != record.state:
                shown[record.run] = record.state
                if as_json:
                    print(json.dumps(asdict(record)))
                else:
                    row = _row(record, relative=False)
                    widths = [max(pair) for pair in zip(widths, _widths([row]), strict=True)]
                    _print_row(sheet, row, widths)
        sys.stdout.flush()
        time.sleep(_PAUSE)
        records = [record for record in recorded_runs() if is_wanted(record)]


def _row(record: RunRecord, *, relative: bool) -> list[Text]:
    """Return the cells of a run. `relative` shows when it began as seen from now."""
    result = _result(record)
    seconds = time.time() - record.time if record.seconds is None else record.seconds
    words = [record.task] if record.args is None else [record.task, *record.args]
    return [
        Text(one_line(record.run), "bold"),
        Text(_age(time.time() - record.time, record.time) if relative else _date(record.time)),
        Text(one_line(record.client, _WIDEST_NAME)),
        Text(one_line(record.project, _WIDEST_NAME)),
        Text(result, _COLOURS.get(result, "red")),
        Text("" if record.state == "lost" else _duration(seconds)),
        Text(shlex.join(map(one_line, words)) + (" …" if record.args is None else "")),
    ]


def _widths(rows: Sequence[Sequence[Text]]) -> list[int]:
    """Return the width of each column but the last."""
    return [widest(column) for column in list(zip(*rows, strict=True))[:-1]]


def _print_row(sheet: Sheet, row: Sequence[Text], widths: Sequence[int]) -> None:
    """Print one run on one line, cut to the width of a terminal."""
    line = Text()
    *columns, last = row
    for cell, width in zip(columns, widths, strict=True):
        line.append_text(cell).append(" " * (width - cell.cell_len + GAP))
    line.append_text(last)
    if sheet.width:
        line.truncate(sheet.width, overflow="ellipsis")
    sheet.line(line)


def _result(record: RunRecord) -> str:
    """Return how a run ended, in one or two words."""
    if record.state != "ended":
        return record.state.replace("_", " ")
    if record.exit_code is None:
        return "did not begin"
    if record.exit_code < 0:
        return f"signal {-record.exit_code}"
    return f"exit {record.exit_code}" if record.exit_code else "ok"


def summarize_run(record: RunRecord) -> str:
    """Return one line about a run: its task, how it ended, and why if it did not begin."""
    result = _result(record)
    if record.state == "running":
        result += f" for {_duration(time.time() - record.time)}"
    elif record.seconds is not None:
        result += f" after {_duration(record.seconds)}"
    return f"{record.task} of {record.project}: {result}" + (f" ({record.error})" if record.error else "")


def _duration(seconds: float) -> str:
    """Return a length of time in at most two units."""
    if seconds < 10:
        return f"{max(0.0, seconds):.2f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _age(seconds: float, began: float) -> str:
    if seconds < 60:
        return f"{max(0, int(seconds))} s ago"
    if seconds < 3600:
        return f"{int(seconds // 60)} min ago"
    if seconds < 24 * 3600:
        return f"{int(seconds // 3600)} h ago"
    return time.strftime("%a %H:%M", time.localtime(began))


def _date(began: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began))
