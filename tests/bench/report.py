"""The rows as a table for people, and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.machine import Machine
from tests.bench.rows import Goal, Row

__all__ = ["as_json", "show"]

_WIDTH = 118
"""Columns of the table without a terminal."""


def show(rows: Sequence[Row], before: Machine, after: Machine, rounds: int) -> None:
    """Print the table to stdout."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", overflow="fold")
    for heading in ("ours", "other"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for heading in ("ratio", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("met", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    console.print(f"qk-mcp and others: medians of {rounds} rounds, in turn", style="bold")
    console.print(before.describe())
    console.print(f"load {_load(before)} before, {_load(after)} after\n")
    console.print(table)
    for row in rows:
        if row.note:
            console.print(f"\n{row.key}: {row.note}", style="dim")
        if row.wrong:
            console.print(f"\nwrong: {row.key}: {row.wrong}", style="red", markup=False)


def as_json(rows: Sequence[Row], before: Machine, after: Machine, rounds: int) -> dict[str, Any]:
    """Return a JSON object with every figure."""
    return {
        "machine": before.as_json(),
        "load_after": after.load,
        "rounds": rounds,
        "rows": [
            {
                "key": row.key,
                "label": row.label,
                "unit": row.unit,
                "ours": row.figure,
                "against": row.against or None,
                "theirs": row.other,
                "ratio": row.ratio,
                "goal": None if row.goal is None else {"kind": row.goal.kind, "bound": row.goal.bound},
                "met": row.met,
                "note": row.note or None,
                "wrong": row.wrong or None,
                "figures": {"ours": list(row.ours), "theirs": list(row.theirs)},
            }
            for row in rows
        ],
    }


def _cells(row: Row) -> list[str | Text]:
    if row.wrong:
        return [Text(row.label), "", "", "", "", "", Text("wrong", "bold red")]
    met = {None: Text(""), True: Text("yes", "green"), False: Text("no", "yellow")}[row.met]
    return [
        Text(row.label),
        _quantity(row.figure, row.unit),
        _quantity(row.other, row.unit),
        Text(row.against, "dim"),
        _compared(row),
        _bound(row.goal, row.unit),
        met,
    ]


def _compared(row: Row) -> str:
    if row.figure is None or row.other is None or row.ratio is None:
        return ""
    if row.goal is not None and row.goal.kind == "more":
        return _quantity(row.figure - row.other, row.unit, sign="+")
    return f"{row.ratio:.3f}"


def _bound(goal: Goal | None, unit: str) -> str:
    if goal is None:
        return ""
    if goal.kind == "times":
        return f"≤ {goal.bound:.3g}"
    return f"≤ {_quantity(goal.bound, unit, sign='+' if goal.kind == 'more' else '-')}"


def _quantity(value: float | None, unit: str, sign: str = "-") -> str:
    """Format with about three digits, bytes with all; `sign` is that of a format specification (`+` always)."""
    if value is None:
        return ""
    if unit == "s" and abs(value) < 1:
        value, unit = value * 1000, "ms"
    digits = 0 if abs(value) >= 100 or unit == "B" else 1 if abs(value) >= 10 else 2
    return f"{value:{sign},.{digits}f} {unit}"


def _load(machine: Machine) -> str:
    return " ".join(f"{load:.1f}" for load in machine.load)
