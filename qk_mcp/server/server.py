"""The MCP server: its tools, on FastMCP."""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.tools import ToolResult
from mcp_types import ToolAnnotations

from qk_mcp import __version__
from qk_mcp.errors import ProjectNeeded, QkMcpError
from qk_mcp.host.remote import RemoteServers
from qk_mcp.projects.project import Project
from qk_mcp.projects.served import ServedProjects
from qk_mcp.runs.durations import Durations
from qk_mcp.runs.record import record_beside
from qk_mcp.server import schemas
from qk_mcp.server.answers import Answer, AnsweringTool, tool_error
from qk_mcp.server.arguments import check_names, parse_detail, parse_text
from qk_mcp.server.call_client import asks_for_parsers
from qk_mcp.server.client_log import ClientLog
from qk_mcp.server.instructions import server_instructions
from qk_mcp.server.list_changed import ToolListChanges
from qk_mcp.server.listings import Listings
from qk_mcp.server.run_tools import RunTools
from qk_mcp.server.settings import Settings
from qk_mcp.server.stateless import StatelessFastMCP
from qk_mcp.server.task_tools import TaskTools
from qk_mcp.tasks.cache import CatalogCache
from qk_mcp.tasks.prefetch import Prefetch

__all__ = ["TaskServer"]

log = logging.getLogger(__name__)

_UNUSED = (
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "completion/complete",
)
"""Requests that FastMCP answers although this server has no prompts and no resources."""


class TaskServer:
    """Answers the tools for served projects."""

    def __init__(self, served: ServedProjects, settings: Settings, prefetch: Prefetch) -> None:
        self._served = served
        self._settings = settings
        remote_servers = RemoteServers(settings.environ, ["--max-output", str(settings.max_output)])
        self._catalogs = CatalogCache(
            settings.environ, timeout=settings.describe_timeout, prefetch=prefetch, remote_servers=remote_servers
        )
        self._listings = Listings(self._catalogs, Durations(record_beside(settings.outputs)), settings.max_output)
        self._run_tools = RunTools(served, settings, remote_servers, self._catalogs)
        self._calls: dict[anyio.CancelScope, anyio.Event] = {}
        self._tool_changes = ToolListChanges()
        self._task_tools = TaskTools(
            served,
            self._catalogs,
            self._tool_changes,
            settings.tools,
            run_task=self._run_tools.run_task,
            run_input=schemas.run_input(background=settings.background),
            tracked=self._tracked,
        )

    def app(self) -> FastMCP[None]:
        """Build the FastMCP server."""
        app = StatelessFastMCP(
            "qk-mcp", instructions=server_instructions(self._served), version=__version__, tasks=False
        )
        app.add_middleware(ClientLog())
        app.add_tool(
            AnsweringTool(
                name="list_tasks",
                title="List tasks",
                description=schemas.LIST_DESCRIPTION,
                parameters=schemas.LIST_INPUT,
                output_schema=schemas.LIST_OUTPUT,
                annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
                meta=schemas.META,
                answer=self._tracked(self.list_tasks),
            )
        )
        app.add_tool(
            AnsweringTool(
                name="run_task",
                title="Run a task",
                description=schemas.RUN_DESCRIPTION,
                parameters=schemas.run_input(background=self._settings.background),
                output_schema=schemas.RUN_OUTPUT,
                annotations=ToolAnnotations(
                    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
                ),
                meta=schemas.META,
                answer=self._tracked(self._run_tools.run_task),
            )
        )
        if self._settings.background:
            self._add_run_queries(app)
        _drop_unused_capabilities(app)
        self._tool_changes.install(app, announced=self._task_tools.possible)
        app.add_provider(self._task_tools)
        return app

    def _add_run_queries(self, app: FastMCP[None]) -> None:
        app.add_tool(
            AnsweringTool(
                name="get_run",
                title="Look at a run",
                description=schemas.GET_RUN_DESCRIPTION,
                parameters=schemas.GET_RUN_INPUT,
                output_schema=schemas.GET_RUN_OUTPUT,
                annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
                meta=schemas.META,
                answer=self._tracked(self._run_tools.queries.get_run),
            )
        )
        app.add_tool(
            AnsweringTool(
                name="stop_run",
                title="Stop a run",
                description=schemas.STOP_RUN_DESCRIPTION,
                parameters=schemas.STOP_RUN_INPUT,
                output_schema=schemas.RUN_OUTPUT,
                annotations=ToolAnnotations(
                    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
                ),
                meta=schemas.META,
                answer=self._tracked(self._run_tools.queries.stop_run),
            )
        )

    async def list_tasks(self, arguments: Mapping[str, Any]) -> ToolResult:
        """List the tasks of one project, or of all."""
        unknown = check_names(arguments, schemas.LIST_INPUT["properties"])
        note = "; ".join(filter(None, (unknown, self._served.note, self._task_tools.note)))
        name, pattern = parse_text(arguments, "project"), parse_text(arguments, "filter")
        detail = "parsers" if asks_for_parsers() else parse_detail(arguments, "detail")
        if name is not None:
            return await self._listings.list_project(self._served.find(name), pattern, detail, note)
        if not self._served.projects:
            raise ProjectNeeded([])
        return await self._listings.list_projects(self._served.projects, pattern, detail, note)

    async def prepare(self, projects: Sequence[Project]) -> None:
        """Describe projects before a client asks; the calls for a project report its failure."""
        for project in projects:
            outcome = await _outcome(self._catalogs.prepare(project))
            if isinstance(outcome, QkMcpError):
                log.debug("project=%s: %s", project.alias, outcome.what)

    async def keep_pruning(self) -> None:
        """Remove old outputs and records while the server runs."""
        await self._run_tools.pruner.keep_pruning()

    async def watch(self) -> None:
        """Follow the files of the projects whose tasks are tools, until cancelled."""
        await self._task_tools.watch()

    async def stop(self) -> None:
        """Stop every run and every call, and wait until their processes have ended."""
        runs = self._run_tools.runs
        runs.stop_all("the server is stopping")
        calls = list(self._calls.items())
        for scope, _ in calls:
            scope.cancel()
        for _, ended in calls:
            await ended.wait()
        await runs.wait_for_all()
        await self._run_tools.remote_runs.close()
        await self._catalogs.close()

    def _tracked(self, answer: Answer) -> Answer:
        async def tracked(arguments: Mapping[str, Any]) -> ToolResult:
            with anyio.CancelScope() as scope:
                ended = self._calls[scope] = anyio.Event()
                try:
                    return await answer(arguments)
                except QkMcpError as failure:
                    return tool_error(str(failure))
                finally:
                    del self._calls[scope]
                    ended.set()
            return tool_error("the server is stopping")

        return tracked


def _drop_unused_capabilities(app: FastMCP[None]) -> None:
    """Remove the handlers for prompts and resources: some clients offer a model tools for each capability."""
    handlers = app._mcp_server._request_handlers
    for method in _UNUSED:
        handlers.pop(method, None)


async def _outcome[T](running: Awaitable[T]) -> T | QkMcpError:
    try:
        return await running
    except QkMcpError as failure:
        return failure
