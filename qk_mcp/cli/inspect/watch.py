"""Shows a view again in the same place when it changes, without flicker, and names what changed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from qk_mcp.cli.inspect.gather import Inspected
from qk_mcp.tasks.catalog import Catalog, Task

__all__ = ["describe_changes", "is_same_view", "show_in_place"]

_LINK_ID = re.compile(r"(?<=\x1b\]8;)id=\d+")
"""rich gives each link a random id."""
_MOST_NAMES = 5


def is_same_view(view: str, other: str) -> bool:
    """Return whether two drawn views look the same."""
    return _LINK_ID.sub("", view) == _LINK_ID.sub("", other)


def show_in_place(console: Console, view: str, *, first: bool) -> None:
    """Write a view over the previous one; a screen that is cleared before each view would flicker."""
    if console.is_terminal and not console.is_dumb_terminal:
        start = "\x1b[2J\x1b[H" if first else "\x1b[H"
        view = start + view.replace("\n", "\x1b[K\n") + "\x1b[J"
    console.file.write(view)
    console.file.flush()


def describe_changes(before: Sequence[Inspected], after: Sequence[Inspected]) -> str:
    """Return what has changed in the projects and their tasks, in one line; empty if nothing but line numbers."""
    previous = {inspected.project.alias: inspected for inspected in before}
    changes: list[str] = []
    for inspected in after:
        alias = inspected.project.alias
        if alias in previous:
            own = _project_changes(previous[alias], inspected)
            changes += [f"{alias}: {change}" if len(after) > 1 else change for change in own]
    return "; ".join(changes)


def _project_changes(before: Inspected, after: Inspected) -> Iterator[str]:
    if before.catalog and after.catalog:
        old, new = _by_name(before.catalog), _by_name(after.catalog)
        groups = {
            "new": [name for name in new if name not in old],
            "gone": [name for name in old if name not in new],
            "changed": [name for name in new if name in old and new[name] != old[name]],
        }
        for label, names in groups.items():
            if names:
                more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
                yield f"{label}: {', '.join(names[:_MOST_NAMES])}{more}"
    elif after.failure and before.catalog:
        yield "no longer loads"
    elif after.failure and str(after.failure) != str(before.failure):
        yield "fails differently"
    elif after.catalog:
        yield "loads again"


def _by_name(catalog: Catalog) -> dict[str, Task]:
    return {task.name: replace(task, location=None) for task in catalog.tasks}
