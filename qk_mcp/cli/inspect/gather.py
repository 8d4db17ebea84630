"""Gathers what `inspect` shows: each project's interpreter and catalogue, or why there is none."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from qk_mcp.errors import NoSuchTask, QkMcpError
from qk_mcp.interpreters.plan import resolve
from qk_mcp.interpreters.search import Interpreter
from qk_mcp.projects.project import Project, locate
from qk_mcp.tasks import listing
from qk_mcp.tasks.cache import CatalogCache
from qk_mcp.tasks.catalog import Catalog
from qk_mcp.tasks.rule_effects import rule_effects
from qk_mcp.text import composed, nearest

__all__ = ["Inspected", "gather", "with_filter", "with_task", "written"]

_MOMENT = 0.4
"""Seconds after which a terminal shows what it waits for."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """The state of a project: either `catalog` or `failure` is set, and `failure` explains a missing `interpreter`."""

    project: Project
    root: Path | None = None
    interpreter: Interpreter | None = None
    secrets: Sequence[str] = ()
    """The variables whose values agents do not see."""
    catalog: Catalog | None = None
    failure: QkMcpError | None = None


async def gather(projects: Sequence[Project], catalogs: CatalogCache, *, quiet: bool = False) -> list[Inspected]:
    """Inspect the projects, a few at a time; unless `quiet`, a terminal on stderr shows which are missing."""
    inspections: dict[str, Inspected] = {}
    free = anyio.CapacityLimiter(max(2, os.cpu_count() or 1))

    async def inspect(project: Project) -> None:
        async with free:
            inspections[project.alias] = await _inspect(project, catalogs)

    async def show_progress() -> None:
        await anyio.sleep(_MOMENT)
        from rich.console import Console
        from rich.text import Text

        with Console(stderr=True).status("") as status:
            while True:
                names = ", ".join(each.alias for each in projects if each.alias not in inspections)
                status.update(Text(f"describing {names}", overflow="ellipsis", no_wrap=True))
                await anyio.sleep(0.1)

    async with anyio.create_task_group() as display:
        if not quiet and sys.stderr.isatty():
            display.start_soon(show_progress)
        async with anyio.create_task_group() as group:
            for project in projects:
                group.start_soon(inspect, project)
        display.cancel_scope.cancel()
    return [inspections[project.alias] for project in projects]


async def _inspect(project: Project, catalogs: CatalogCache) -> Inspected:
    inspected = Inspected(project)
    try:
        if project.remote is not None:
            catalog = await catalogs.get(project)
            return replace(inspected, root=catalog.root, catalog=catalog)
        inspected = replace(inspected, root=locate(project).root)
        plan = resolve(project, os.environ)
        inspected = replace(inspected, interpreter=plan.interpreter, secrets=plan.secrets.names)
        return replace(inspected, catalog=await catalogs.get(project))
    except QkMcpError as failure:
        return replace(inspected, failure=failure)


def with_filter(inspected: Inspected, pattern: str) -> Inspected:
    """Return `inspected` with only the tasks that `list_tasks` returns for this filter."""
    catalog = inspected.catalog
    if catalog is None:
        return inspected
    kept = tuple(task for task in catalog.tasks if listing.matches(task, pattern))
    return replace(inspected, catalog=replace(catalog, tasks=kept))


def with_task(inspected: Inspected, name: str, projects: Sequence[str] | None) -> Inspected:
    """Return `inspected` with one task. Raises NoSuchTask; `projects` are aliases that the name may mean instead."""
    catalog = inspected.catalog
    if catalog is None:
        return inspected
    found = [task for task in catalog.tasks if composed(name) in map(composed, (task.name, *task.aliases))]
    if not found:
        near = nearest(name, (each for task in catalog.tasks for each in (task.name, *task.aliases)))
        others = None if projects is None else nearest(name, projects)
        raise NoSuchTask(inspected.project.alias, name, near, others)
    return replace(inspected, catalog=replace(catalog, tasks=(found[0],)))


def written(inspections: Iterable[Inspected]) -> list[dict[str, Any]]:
    """Return the entries of `list_tasks` in full, with the tasks that agents do not see and more keys for people.

    These are `interpreter`, null if none was found; `uncacheable`: what the project uses that files do not show, so
    that each listing describes it again, null if nothing; `redacted`: the variables whose values agents do not see;
    and `rules`: by the name of a task, what the user's rules mean for it (`not for agents`, `asks a person`, …).
    """
    inspected = list(inspections)
    entries = listing.make_entries([(each.project, _outcome(each)) for each in inspected], limit=sys.maxsize)
    return [entry | _for_people(each) for entry, each in zip(entries, inspected, strict=True)]


def _outcome(inspected: Inspected) -> Catalog | QkMcpError:
    outcome = inspected.catalog or inspected.failure
    assert outcome is not None
    return outcome


def _for_people(inspected: Inspected) -> dict[str, Any]:
    found, catalog, rules = inspected.interpreter, inspected.catalog, inspected.project.rules
    interpreter = found and {
        "python": str(found.python),
        "version": catalog.python if catalog else found.version,
        "quickie": catalog.quickie if catalog else found.quickie,
        "reason": found.reason,
        "passed_over": list(found.passed),
    }
    return {
        "interpreter": interpreter,
        "uncacheable": (catalog.uncacheable or None) if catalog else None,
        "redacted": [*inspected.secrets],
        "rules": {task.name: [*effects] for task in catalog.tasks if (effects := rule_effects(rules, task))}
        if catalog
        else {},
    }
