"""Tasks as tools of their own: clients grant permission for a tool, never for an argument of `run_task`.

A tool calls `run_task`, so that its answer and its rules are the same. The list of tools follows the projects' files:
they are compared every few seconds, but only while there are such tools.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp_types import ToolAnnotations

from qk_mcp.errors import InvalidInput, QkMcpError
from qk_mcp.projects.project import Project
from qk_mcp.projects.rules import decide, matches_exactly
from qk_mcp.projects.served import ServedProjects
from qk_mcp.server import schemas
from qk_mcp.server.answers import Answer, AnsweringTool
from qk_mcp.server.argument_vector import argument_vector
from qk_mcp.server.list_changed import ToolListChanges
from qk_mcp.server.task_parameters import EXTRA, Parameter, input_schema, task_parameters
from qk_mcp.server.tool_names import tool_names
from qk_mcp.tasks.cache import CatalogCache
from qk_mcp.tasks.catalog import Task
from qk_mcp.text import one_line, printable, shorten

__all__ = ["TaskTools"]

log = logging.getLogger(__name__)

_MOST = 40
"""Tools for tasks: each costs the model its description in every request."""
_PATIENCE = 5.0
"""Seconds that the list of tools waits for descriptions; clients give a server ten seconds or more to start."""
_INTERVAL = 2.0
"""Seconds between two looks at the files of the projects."""
_HELP = 1_000
"""Characters of a task's help in the description of its tool."""
_RESERVED = ("list_tasks", "run_task", "get_run", "stop_run")
_OWN = {
    "stdin": "Text for its standard input.",
    "timeout": "Seconds after which it is stopped.",
    "background": "true: answer within a second with a `run_id` for get_run and stop_run; the task goes on.",
}
"""The parameters of `run_task` that each tool has as well, described in fewer words."""


@dataclass(frozen=True, slots=True)
class _TaskTool:
    """A task that is a tool, as the last listing describes it."""

    name: str
    project: Project
    task: Task
    read_only: bool
    parameters: tuple[Parameter, ...]
    extra: bool


class TaskTools(Provider):
    """The tools for single tasks of one server. Belongs to one event loop."""

    def __init__(
        self,
        served: ServedProjects,
        catalogs: CatalogCache,
        changes: ToolListChanges,
        globs: Sequence[str],
        *,
        run_task: Answer,
        run_input: Mapping[str, Any],
        tracked: Callable[[Answer], Answer],
    ) -> None:
        """Serve the tasks that a project's rules name in `tools`, and those of every project that match `globs`.

        `run_task` answers the tool of that name, `run_input` is the schema of its input; `tracked` makes an answer one
        that the end of the server stops.
        """
        super().__init__()
        self._served = served
        self._catalogs = catalogs
        self._globs = tuple(globs)
        self._run_task = run_task
        self._common = {
            name: schema | {"description": _OWN[name]}
            for name, schema in run_input["properties"].items()
            if name in _OWN
        }
        self._tracked = tracked
        self._changes = changes
        self._tools: dict[str, _TaskTool] = {}
        self._left_out: list[str] = []
        self._listed = False
        self._describing: dict[str, asyncio.Task[None]] = {}
        self._announcing: set[asyncio.Task[None]] = set()
        self._wanted = asyncio.Event()
        catalogs.on_description(self._update_soon)
        served.on_change(self._follow_config)

    @property
    def possible(self) -> bool:
        """Whether tasks are tools, or may become such by a change of the config."""
        return not self._served.fixed or bool(self._candidates())

    @property
    def note(self) -> str:
        """What was left out because there are too many; else empty."""
        if not self._left_out:
            return ""
        names = shorten(", ".join(self._left_out), 300)
        return f"at most {_MOST} tasks are tools of their own; only run_task runs {names}"

    async def watch(self) -> None:
        """Describe a project again when its files change, for as long as tasks of it are tools."""
        while True:
            if candidates := self._candidates():
                if self._listed:
                    for project in candidates:
                        await self._describe(project)
                await anyio.sleep(_INTERVAL)
            else:
                self._wanted.clear()
                await self._wanted.wait()

    async def _list_tools(self) -> Sequence[Tool]:
        await self._describe_all()
        self._listed = True
        return [self._definition(tool) for tool in self._tools.values()]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:  # noqa: ARG002
        if name not in self._tools and name not in _RESERVED:
            await self._describe_all()
        tool = self._tools.get(name)
        return None if tool is None else self._definition(tool)

    # Which tasks are tools

    def _candidates(self) -> list[Project]:
        """Return the projects that may have tools."""
        return [project for project in self._served.projects if self._globs_of(project)]

    def _globs_of(self, project: Project) -> tuple[str, ...]:
        return (*project.rules.tools, *self._globs)

    async def _describe_all(self) -> None:
        """Describe the projects that may have tools and have changed; after a while go on in the background."""
        waiting = [self._describe(project) for project in self._candidates()]
        with anyio.move_on_after(_PATIENCE):
            await asyncio.gather(*waiting)
        self._update()

    async def _describe(self, project: Project) -> None:
        """Describe a project unless its description is current; a failure is logged, and its tools stay."""
        task = self._describing.get(project.alias)
        if task is None:
            task = self._describing[project.alias] = asyncio.create_task(self._described(project))
            task.add_done_callback(lambda _: self._describing.pop(project.alias))
        await asyncio.shield(task)

    async def _described(self, project: Project) -> None:
        try:
            if await self._catalogs.changed(project):
                await self._catalogs.get(project)
        except QkMcpError as failure:
            log.debug("no tools of project=%s: %s", project.alias, failure.what)

    def _follow_config(self) -> None:
        self._wanted.set()
        self._update_soon()

    def _update_soon(self) -> None:
        """Announce the tools if they differ from those that a client has listed."""
        if self._update() and self._listed:
            log.info("the tools of single tasks have changed: count=%d", len(self._tools))
            task = asyncio.get_running_loop().create_task(self._changes.announce())
            self._announcing.add(task)
            task.add_done_callback(self._announcing.discard)

    def _update(self) -> bool:
        """Return whether the tools have changed."""
        chosen = list(self._chosen())
        # What a person grants must not get another name when a project is added to the config.
        with_alias = not self._served.fixed or len(self._served.projects) > 1
        names = tool_names([(project.alias, task.name) for project, task in chosen], _RESERVED, with_alias=with_alias)
        tools = {}
        for name, (project, task) in zip(names[:_MOST], chosen, strict=False):
            read_only = matches_exactly(project.rules.read_only, (task.name, *task.aliases))
            tools[name] = _TaskTool(name, project, task, read_only, *task_parameters(task, _OWN))
        left_out = [f"{project.alias} {task.name}" for project, task in chosen[_MOST:]]
        if left_out and left_out != self._left_out:
            log.warning("at most %d tasks are tools of their own; left out: %s", _MOST, ", ".join(left_out))
        changed = tools != self._tools
        self._tools, self._left_out = tools, left_out
        return changed

    def _chosen(self) -> Iterator[tuple[Project, Task]]:
        """Yield the tasks that are tools, in the order of the projects and their globs."""
        for project in self._candidates():
            catalog = self._catalogs.last(project)
            left = [] if catalog is None else list(catalog.tasks)
            for glob in self._globs_of(project):
                for task in left.copy():
                    names = (task.name, *task.aliases)
                    if matches_exactly([glob], names):
                        left.remove(task)
                        if decide(project.rules, names).decision != "refuse":
                            yield project, task

    # One tool

    def _definition(self, tool: _TaskTool) -> Tool:
        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            return await self._run(tool, arguments)

        return AnsweringTool(
            name=tool.name,
            title=f"{tool.task.name} ({tool.project.alias})",
            description=_description(tool),
            parameters=input_schema(tool.parameters, tool.extra, self._common),
            output_schema=schemas.RUN_OUTPUT,
            annotations=ToolAnnotations(
                read_only_hint=tool.read_only,
                destructive_hint=not tool.read_only,
                idempotent_hint=tool.read_only,
                open_world_hint=True,
            ),
            meta=schemas.META,
            answer=self._tracked(answer),
        )

    async def _run(self, tool: _TaskTool, arguments: Mapping[str, Any]) -> ToolResult:
        with anyio.move_on_after(_PATIENCE):  # the parser may have changed since the tools were listed
            await self._describe(tool.project)
        tool = self._tools.get(tool.name, tool)
        known = [*(parameter.name for parameter in tool.parameters), *self._common, *([EXTRA] if tool.extra else [])]
        for name, value in arguments.items():
            if name not in known and value not in (None, "", [], {}):
                raise InvalidInput(name, f"there is no such parameter; there are {', '.join(known)}")
        call = {name: arguments[name] for name in self._common if name in arguments}
        words = argument_vector(tool.parameters, tool.task.syntax, arguments)
        return await self._run_task({"task_name": tool.task.name, "project": tool.project.alias, "args": words} | call)


def _description(tool: _TaskTool) -> str:
    task, alias = one_line(tool.task.name, 100), one_line(tool.project.alias)
    help_ = printable(tool.task.help, _HELP).strip() or tool.task.short_help
    parts = (
        f"Run the task {task!r} of the project {alias!r}, as run_task does.",
        help_,
        "A non-zero exit code is a normal result.",
    )
    return "\n".join(filter(None, parts))
