"""Shows a project and its tasks."""

import os
import socket
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from rich.text import Text

from qk_mcp.cli.inspect.gather import Inspected
from qk_mcp.cli.ui.tables import Sheet
from qk_mcp.tasks.catalog import Catalog, Task
from qk_mcp.tasks.usage import usage_line

__all__ = ["linked", "show_project"]

_LARGE = 20
"""Number of tasks from which they are grouped by namespace."""
_INDENT = 2
_WIDEST = (30, 44)
"""Greatest widths of the columns for names and arguments; longer texts are wrapped."""
_ENOUGH = 60
"""The same of a description, and of a place; half of that will do for a description where there is no more room."""


def show_project(sheet: Sheet, inspected: Inspected, *, default: bool, pattern: str | None) -> None:
    """Show a project and its tasks; `pattern` is the filter that was applied to them."""
    sheet.line((inspected.project.alias, "bold"), ("  the default project" if default else "", "dim"))
    facts = [[Text(f"{label:<7}", style), Text(text)] for label, text, style in _facts(inspected, pattern)]
    sheet.table(facts, _INDENT, [7])
    if inspected.catalog is not None and inspected.catalog.tasks:
        sheet.line()
        _tasks(sheet, inspected.catalog)


def linked(text: str, location: str | None, root: Path, style: str = "") -> Text:
    """Return a text that a terminal links to `location`, a `file:line`."""
    if location is None:
        return Text(text, style)
    file, _, line = location.rpartition(":")
    if not line.isdecimal():
        file, line = location, ""
    # kitty and some others jump to the line; the rest ignore the fragment.
    url = f"file://{socket.gethostname()}{quote(os.fsencode(root / file))}" + (f"#{line}" if line else "")
    return Text(text, f"{style} link {url}".strip())


def _facts(inspected: Inspected, pattern: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield the facts about a project that precede its tasks: label, text, and style of the label."""
    found, catalog, root = inspected.interpreter, inspected.catalog, inspected.root
    yield ("root", str(root), "dim") if root else ("path", str(inspected.project.path), "dim")
    if found is not None:
        version = catalog.python if catalog else found.version
        yield "python", f"{found.python} ({f'{version}, ' if version else ''}{found.reason})", "dim"
        for each in found.passed:
            yield "not", each, "yellow"
        yield "quickie", catalog.quickie if catalog else found.quickie, "dim"
    if catalog is None:
        yield "error", str(inspected.failure), "bold red"
        return
    count = f"{len(catalog.tasks) or 'none'}{f' matching {pattern!r}' if pattern else ''}"
    if catalog.uncacheable:
        caching = f"described again for each listing, because loading them uses {catalog.uncacheable}"
    else:
        caching = "cached until a file changes"
    yield "tasks", f"{count}; {caching}", "dim"
    for problem in catalog.problems:
        yield "missing", problem, "yellow"


def _tasks(sheet: Sheet, catalog: Catalog) -> None:
    """Show tasks in one line each where there is room, else with the arguments below the description."""
    rows = [
        [_name(row, depth, catalog.root), *([Text()] * 3 if isinstance(row, str) else _about(row, catalog.root))]
        for depth, row in _by_namespace(catalog.tasks)
    ]
    if sheet.fits(rows, _INDENT, [*_WIDEST, _ENOUGH, _ENOUGH]):
        sheet.table(rows, _INDENT, [*_WIDEST, _ENOUGH])
        return
    without_place = [row[:3] for row in rows]
    if sheet.fits(without_place, _INDENT, [*_WIDEST, _ENOUGH // 2]):
        sheet.table(without_place, _INDENT, _WIDEST)
        return
    below = [[name, Text("\n").join(filter(None, (about, arguments)))] for name, arguments, about, _ in rows]
    sheet.table(below, _INDENT, _WIDEST[:1])


def _by_namespace(tasks: Sequence[Task]) -> Iterator[tuple[int, str | Task]]:
    """Yield the tasks with their depth; if there are many, below the names of their namespaces."""
    if len(tasks) < _LARGE:
        yield from ((0, task) for task in tasks)
        return
    shown: list[str] = []
    for path, members in groupby(sorted(tasks, key=lambda task: _namespace(task)), key=_namespace):
        for depth in range(len(path)):
            if path[: depth + 1] != shown[: depth + 1]:
                yield depth, path[depth]
        shown = path
        yield from ((len(path), task) for task in members)


def _namespace(task: Task) -> list[str]:
    return task.name.split(":")[:-1]


def _name(row: str | Task, depth: int, root: Path) -> Text:
    indent = Text("  " * depth)
    if isinstance(row, str):
        return indent.append(row, "bold")
    namespace, colon, own = row.name.rpartition(":")
    name = indent.append(namespace + colon, "dim").append_text(linked(own, row.location, root, "cyan"))
    return name.append("".join(f", {alias}" for alias in row.aliases if alias), "dim")


def _about(task: Task, root: Path) -> tuple[Text, Text, Text]:
    about = Text(task.short_help)
    if task.error:
        about = Text(" ").join(filter(None, (about, Text(task.error, "red"))))
    return Text(usage_line(task), "dim"), about, linked(task.location or "", task.location, root, "dim")
