"""`qk-mcp inspect`: shows people what an agent sees."""

import json
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import Parameter

from qk_mcp.cli.options import (
    ConfigOption,
    DescribeTimeoutOption,
    ProjectOption,
    check_seconds,
    registry_of,
)
from qk_mcp.cli.project_or_task import project_and_words
from qk_mcp.errors import QkMcpError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qk_mcp.cli.inspect.gather import Inspected
    from qk_mcp.cli.ui.tables import Sheet
    from qk_mcp.projects.project import Project
    from qk_mcp.projects.registry import Registry
    from qk_mcp.tasks.cache import CatalogCache

__all__ = ["inspect_command"]

_PAUSE = 0.5
"""Seconds between two checks of the files."""
_IDLE_SHARE = 10
"""Where each check describes a project again: the pause as a multiple of the time that the last one took."""
_LONGEST_PAUSE = 5.0
"""Seconds of such a pause at most."""


def inspect_command(
    name: Annotated[str | None, Parameter(name="PROJECT")] = None,
    task: Annotated[str | None, Parameter(name="TASK")] = None,
    /,
    *,
    filter: Annotated[str | None, Parameter(metavar="TEXT")] = None,  # noqa: A002  # the option's name
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    watch: Annotated[bool, Parameter(negative="")] = False,
    project: ProjectOption = None,
    config: ConfigOption = None,
    describe_timeout: DescribeTimeoutOption = 15.0,
) -> int:
    """Show projects and tasks as agents see them, and what your rules mean for them.

    Parameters
    ----------
    name
        The name of a project, or a path in one; all projects if left out.
    task
        A task to show in full. A task of the default project needs no PROJECT.
    filter
        Only tasks with this text in a name or alias, in any case; with *, ? or [ it is a glob.
    as_json
        Print only JSON: the answer of list_tasks, with interpreters and rules.
    watch
        Update the view when a file changes, until Ctrl+C.
    """
    check_seconds("--describe-timeout", describe_timeout)
    if watch and as_json:
        raise UsageError("--watch and --json exclude each other", hint="run qk-mcp inspect --json when you need it")
    registry = registry_of(project, config)
    options = [word for text in project or () for word in ("--project", text)]
    options += ["--config", str(config)] if config else []
    view = replace(_view(registry, name, task, filter), options=options)
    from qk_mcp.cli.signals import run_until_signal

    return run_until_signal(
        _watch(view, describe_timeout) if watch else _print(view, describe_timeout, as_json=as_json)
    )


@dataclass(frozen=True, slots=True)
class _View:
    """What to show: projects, or one task of one project; `others` are aliases that the task's name may mean."""

    projects: "Sequence[Project]"
    default: "Project | None"
    task: str | None
    pattern: str | None
    others: "Sequence[str] | None"
    options: "Sequence[str]" = ()
    """The options of the command line that declare projects."""


def _view(registry: "Registry", name: str | None, task: str | None, pattern: str | None) -> _View:
    projects, others = registry.served(), None
    if name is not None and task is not None:
        projects = (registry.find(name),)
    elif name is not None:
        chosen, rest = project_and_words(registry, [name])
        projects = (chosen,)
        if rest:
            task, others = name, [each.alias for each in registry.projects]
    if task is not None and pattern:
        raise UsageError("a task and --filter exclude each other", hint="leave out one of them")
    default = registry.default if len(registry.projects) > 1 else None
    return _View(projects, default, task, pattern, others)


async def _look(view: _View, catalogs: "CatalogCache", *, quiet: bool = False) -> "list[Inspected]":
    from qk_mcp.cli.inspect.gather import gather, with_filter, with_task

    inspections = await gather(view.projects, catalogs, quiet=quiet)
    if view.task is not None:
        return [with_task(each, view.task, view.others) for each in inspections]
    return [with_filter(each, view.pattern) for each in inspections] if view.pattern else inspections


async def _print(view: _View, seconds: float, *, as_json: bool) -> int:
    from qk_mcp.tasks.cache import CatalogCache

    inspections = await _look(view, CatalogCache(os.environ, timeout=seconds))
    if as_json:
        from qk_mcp.cli.inspect.gather import written

        print(json.dumps(written(inspections), indent=2))
    else:
        from qk_mcp.cli.ui.tables import Sheet

        _draw(Sheet(), view, inspections)
    return int(any(each.failure for each in inspections))


async def _watch(view: _View, seconds: float) -> NoReturn:
    """Show the view, and again whenever it changes; only a signal ends that."""
    import anyio

    from qk_mcp.cli.inspect.watch import describe_changes, is_same_view, show_in_place
    from qk_mcp.cli.ui.tables import Sheet
    from qk_mcp.tasks.cache import CatalogCache

    catalogs, shown, status = CatalogCache(os.environ, timeout=seconds), "", "watching for changes"
    previous: Sequence[Inspected] = ()
    try:
        while True:
            began, pause = time.monotonic(), _PAUSE
            sheet = Sheet()
            described = False
            with sheet.console.capture() as drawn:
                try:
                    inspections = await _look(view, catalogs, quiet=bool(shown))
                    described = any(each.catalog is None or each.catalog.uncacheable for each in inspections)
                    _draw(sheet, view, inspections)
                    if changes := describe_changes(previous, inspections):
                        status = f"{time.strftime('%H:%M:%S')}  {changes}"
                    previous = inspections
                except QkMcpError as failure:  # the task is missing; it may come back
                    sheet.line(str(failure))
            if not is_same_view(drawn.get(), shown):
                with sheet.console.capture() as footer:
                    sheet.line()
                    sheet.line((f"{status}; press Ctrl+C to exit", "dim"))
                show_in_place(sheet.console, drawn.get() + footer.get(), first=not shown)
                shown = drawn.get()
            elif described:
                pause = max(_PAUSE, min(_LONGEST_PAUSE, _IDLE_SHARE * (time.monotonic() - began)))
            await anyio.sleep(pause)
    finally:
        with anyio.CancelScope(shield=True):
            await catalogs.close()


def _draw(sheet: "Sheet", view: _View, inspections: "Sequence[Inspected]") -> None:
    from qk_mcp.cli.inspect.project_view import show_project
    from qk_mcp.cli.inspect.task_view import show_task

    for position, inspected in enumerate(inspections):
        if position:
            sheet.line()
        default = view.default is not None and inspected.project.alias == view.default.alias
        if view.task is not None and inspected.catalog is not None:
            show_task(sheet, inspected, view.options)
        else:
            show_project(sheet, inspected, default=default, pattern=view.pattern)
