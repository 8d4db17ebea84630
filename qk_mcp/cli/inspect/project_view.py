"""Shows a project and its tasks."""

import os
import socket
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from rich.text import Text

from qk_mcp.cli.inspect.gather import Inspected
from qk_mcp.cli.ui.tables import GAP, Sheet, widest
from qk_mcp.projects.rules import Rules
from qk_mcp.tasks.catalog import Catalog, Task
from qk_mcp.tasks.rule_effects import HIDDEN, rule_effects
from qk_mcp.tasks.usage import usage_line

__all__ = ["linked", "show_project"]

_LARGE = 20
"""Number of tasks from which they are grouped by namespace."""
_INDENT = 2
_LONGEST_NAME = 40
"""Characters of a task's name in one line; longer names are wrapped."""
_LEAST_HELP = 10


def show_project(sheet: Sheet, inspected: Inspected, *, default: bool, pattern: str | None) -> None:
    """Show a project and its tasks; `pattern` is the filter that was applied to them."""
    sheet.line((inspected.project.alias, "bold"), ("  the default project" if default else "", "dim"))
    facts = [[Text(f"{label:<7}", style), Text(text)] for label, text, style in _facts(inspected, pattern)]
    sheet.table(facts, _INDENT, [7])
    if inspected.catalog is not None and inspected.catalog.tasks:
        sheet.line()
        _tasks(sheet, inspected.catalog, inspected.project.rules)


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
    if inspected.secrets:
        yield "hidden", ", ".join(inspected.secrets), "dim"
    if catalog is None:
        yield "error", str(inspected.failure), "bold red"
        return
    count = f"{len(catalog.tasks) or 'none'}{f' matching {pattern!r}' if pattern else ''}"
    if catalog.uncacheable:
        caching = f"described again for each listing, because loading them uses {catalog.uncacheable}"
    else:
        caching = "cached until a file changes"
    rules = inspected.project.rules
    hidden = sum(rule_effects(rules, task) == HIDDEN for task in catalog.tasks)
    yield "tasks", f"{count}{f', {hidden} of them not for agents' if hidden else ''}; {caching}", "dim"
    for problem in catalog.problems:
        yield "missing", problem, "yellow"


def _tasks(sheet: Sheet, catalog: Catalog, rules: Rules) -> None:
    """Show each task in one line: if it does not fit, without its place, then with shortened arguments and help."""
    rows = [
        [_name(row, depth, catalog.root), *([Text()] * 3 if isinstance(row, str) else _about(row, catalog.root, rules))]
        for depth, row in _by_namespace(catalog.tasks)
    ]
    if sheet.width is None:
        sheet.table(rows, _INDENT, [0] * 3)
        return
    names, arguments, about, places = (widest(column) for column in zip(*rows, strict=True))
    names = min(names, _LONGEST_NAME)
    room = sheet.width - _INDENT - names - GAP
    if arguments + about + places + 2 * GAP <= room:
        sheet.table(rows, _INDENT, [names, arguments, about])
        return
    arguments = min(arguments, max(room - about - GAP, room // 3))
    about = max(room - arguments - GAP, _LEAST_HELP)
    for row in rows:
        row[1].truncate(arguments, overflow="ellipsis")
        row[2].truncate(about, overflow="ellipsis")
    sheet.table([row[:3] for row in rows], _INDENT, [names, arguments])


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


def _about(task: Task, root: Path, rules: Rules) -> tuple[Text, Text, Text]:
    first_line = next((line.strip() for line in task.help.splitlines() if line.strip()), task.short_help)
    about = Text(first_line)  # not `short_help`, which quickie cuts at 50 characters
    if effects := rule_effects(rules, task):
        about = Text(" ").join(filter(None, (Text(f"({', '.join(effects)})", "yellow"), about)))
    if task.error:
        about = Text(" ").join(filter(None, (about, Text(task.error, "red"))))
    return Text(usage_line(task), "dim"), about, linked(task.location or "", task.location, root, "dim")
