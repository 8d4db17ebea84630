"""The MCP server: two tools over stdio, on FastMCP."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool, ToolResult
from mcp_types import TextContent, ToolAnnotations

from qk_mcp import __version__
from qk_mcp.errors import GuestFailed, InvalidInput, QkMcpError, RunLost, RunTimedOut
from qk_mcp.host import guest as launcher
from qk_mcp.host.guest import Guest, Plan
from qk_mcp.host.warm_pool import WarmPool
from qk_mcp.projects.project import Project
from qk_mcp.projects.registry import Registry
from qk_mcp.runs import progress as live
from qk_mcp.runs import run as execution
from qk_mcp.runs.run import Observer, Request, Run, Stream
from qk_mcp.server import arguments as inputs
from qk_mcp.server import schemas
from qk_mcp.tasks import listing
from qk_mcp.tasks.cache import Catalogs
from qk_mcp.tasks.catalog import Catalog
from qk_mcp.tasks.prefetch import HeadStart

__all__ = ["Settings", "TaskServer"]

log = logging.getLogger(__name__)

_AFTER_ANSWER = 0.02
"""Seconds after which a warm guest is started: not while the answer is on its way."""
_STARTS = 2 * max(2, os.cpu_count() or 1)
"""How many runs may start at the same time."""
_START = 1.0
"""Seconds after which a run that starts lets the next one start, too."""
_LISTINGS = 32
"""How many answers of list_tasks are kept ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user may set for a server."""

    environ: Mapping[str, str]
    outputs: Path
    """The directory for complete outputs."""
    max_output: int
    """Characters of each stream in an answer."""
    describe_timeout: float
    """Seconds that describing a project may take."""
    warm_guests: int
    """Warm guests at most."""


class TaskServer:
    """Answers the two tools for the projects of a registry."""

    def __init__(self, registry: Registry, settings: Settings, early: HeadStart) -> None:
        self._registry = registry
        self._settings = settings
        self._catalogs = Catalogs(settings.environ, timeout=settings.describe_timeout, early=early)
        self._pool = WarmPool(size=settings.warm_guests)
        self._listings: dict[tuple[str | None, ...], tuple[list[Catalog | QkMcpError], ToolResult]] = {}
        self._starting = anyio.Semaphore(_STARTS)
        self._starts: set[asyncio.Task[None]] = set()
        self._calls: dict[anyio.CancelScope, anyio.Event] = {}

    def app(self) -> FastMCP[None]:
        """Build the FastMCP server."""
        app: FastMCP[None] = FastMCP(
            "qk-mcp", instructions=schemas.instructions(self._registry), version=__version__, tasks=False
        )
        app.add_tool(
            _Tool(
                name="list_tasks",
                title="List tasks",
                description=schemas.LIST_DESCRIPTION,
                parameters=schemas.LIST_INPUT,
                output_schema=schemas.LIST_OUTPUT,
                annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
                answer=self._tracked(self.list_tasks),
            )
        )
        app.add_tool(
            _Tool(
                name="run_task",
                title="Run a task",
                description=schemas.RUN_DESCRIPTION,
                parameters=schemas.RUN_INPUT,
                output_schema=schemas.RUN_OUTPUT,
                annotations=ToolAnnotations(
                    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
                ),
                answer=self._tracked(self.run_task),
            )
        )
        return app

    async def list_tasks(self, given: Mapping[str, Any]) -> ToolResult:
        """List the tasks of one project, or of all."""
        inputs.check_names(given, schemas.LIST_INPUT["properties"])
        name, pattern = inputs.text(given, "project"), inputs.text(given, "filter")
        projects = self._registry.projects if name is None else (self._registry.find(name),)
        outcomes = await self._describe(projects)
        if name is not None and isinstance(outcomes[0], QkMcpError):
            raise outcomes[0]
        return self._listing(projects, pattern, outcomes)

    async def _describe(self, projects: Sequence[Project]) -> list[Catalog | QkMcpError]:
        """The catalogues of projects, all at the same time; a failure is one of the outcomes."""
        outcomes: dict[str, Catalog | QkMcpError] = {}

        async def describe(project: Project) -> None:
            outcomes[project.alias] = await _outcome(self._catalogs.get(project))

        async with anyio.create_task_group() as tasks:
            for project in projects:
                tasks.start_soon(describe, project)
        return [outcomes[project.alias] for project in projects]

    def _listing(
        self, projects: Sequence[Project], pattern: str | None, outcomes: list[Catalog | QkMcpError]
    ) -> ToolResult:
        """The answer that lists `outcomes`, made anew only when one of them is new."""
        key = (pattern, *(project.alias for project in projects))
        known = self._listings.pop(key, None)
        if known is None or not all(map(_same, known[0], outcomes)):
            entries = [
                listing.broken_entry(project, outcome)
                if isinstance(outcome, QkMcpError)
                else listing.entry(project.alias, outcome, pattern)
                for project, outcome in zip(projects, outcomes, strict=True)
            ]
            listed = listing.shrink(entries)
            known = outcomes, _result({"result": listed}, text=json.dumps(listed, ensure_ascii=False))
        if len(self._listings) >= _LISTINGS:
            del self._listings[next(iter(self._listings))]
        self._listings[key] = known
        return known[1]

    async def run_task(self, given: Mapping[str, Any]) -> ToolResult:
        """Run one task."""
        inputs.check_names(given, schemas.RUN_INPUT["properties"])
        task = inputs.text(given, "task_name")
        if task is None:
            raise InvalidInput("task_name", "it is needed; list_tasks shows the names")
        request = Request(
            task=task,
            args=inputs.words(given, "args"),
            stdin=inputs.text(given, "stdin"),
            timeout=inputs.seconds(given, "timeout", schemas.DEFAULT_TIMEOUT),
            max_output=self._settings.max_output,
            outputs=self._settings.outputs,
        )
        project = self._registry.find(inputs.text(given, "project"))
        plan = launcher.plan(project, self._settings.environ)
        async with live.live(_Notifier(task)) as observe:
            outcome = await _outcome(self._run(plan, request, observe))
            if isinstance(outcome, RunLost) and not outcome.began:
                # A warm guest may have been killed while it waited: no task has run, so another guest may try.
                outcome = await _outcome(self._run(plan, request, observe))
        asyncio.get_running_loop().call_later(_AFTER_ANSWER, self._pool.prepare, plan)
        if isinstance(outcome, QkMcpError):
            log.warning("run project=%s task=%s: %s", project.alias, task, outcome.what)
            raise outcome
        log.info("run project=%s task=%s exit=%d seconds=%.3f", project.alias, task, outcome.exit_code, outcome.seconds)
        return _result(outcome.answer())

    async def _run(self, plan: Plan, request: Request, observe: Observer) -> Run:
        """Run a task; of a hundred at once, only a few start at the same time, or this process would get no turn."""
        arrived = time.monotonic()
        with anyio.move_on_after(request.timeout) as limit:
            await self._starting.acquire()
        if limit.cancelled_caught and request.timeout is not None:
            raise RunTimedOut(request.task, request.timeout, "It had not begun.", began=False)
        try:
            guest = self._pool.take(plan)
        except GuestFailed:
            self._starting.release()
            raise
        start = asyncio.create_task(self._let_start(guest))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)
        return await execution.run(guest, request, observe, waited=time.monotonic() - arrived)

    async def _let_start(self, guest: Guest) -> None:
        """Give the turn to the next once `guest` runs its task, or its project takes long to load."""
        with anyio.move_on_after(_START):
            await guest.settled.wait()
        self._starting.release()

    async def prepare(self, projects: Sequence[Project]) -> None:
        """Have the catalogues of projects ready before a client asks; whoever asks is told what fails."""
        for project in projects:
            outcome = await _outcome(self._catalogs.get(project))
            if isinstance(outcome, QkMcpError):
                log.debug("project=%s: %s", project.alias, outcome.what)

    async def stop(self) -> None:
        """Cancel every call under way, and wait until its processes have ended."""
        calls = list(self._calls.items())
        for scope, _ in calls:
            scope.cancel()
        for _, ended in calls:
            await ended.wait()
        await self._catalogs.close()

    def _tracked(self, answer: "_Answer") -> "_Answer":
        async def tracked(given: Mapping[str, Any]) -> ToolResult:
            with anyio.CancelScope() as scope:
                ended = self._calls[scope] = anyio.Event()
                try:
                    return await answer(given)
                except QkMcpError as failure:
                    return _failed(str(failure))
                finally:
                    del self._calls[scope]
                    ended.set()
            return _failed("the server is being stopped")

        return tracked


type _Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


class _Tool(Tool):
    """A tool with hand-written schemas that gets its arguments as the client sent them."""

    answer: Any

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        result: ToolResult = await self.answer(arguments)
        return result


class _Notifier:
    """Sends a task's output to the client of the present call."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._context = get_context()

    async def log(self, stream: Stream, text: str) -> None:
        await self._context.log(text, level="info" if stream == "stdout" else "warning", logger_name=self._task)

    async def progress(self, seconds: float, message: str) -> None:
        await self._context.report_progress(seconds, message=message)


async def _outcome[T](running: Awaitable[T]) -> T | QkMcpError:
    try:
        return await running
    except QkMcpError as failure:
        return failure


def _same(one: Catalog | QkMcpError, other: Catalog | QkMcpError) -> bool:
    return one is other or (isinstance(one, QkMcpError) and isinstance(other, QkMcpError) and str(one) == str(other))


def _result(structured: dict[str, Any], text: str | None = None) -> ToolResult:
    """The same JSON as text and as structured content (MCP 2025-11-25, structured content)."""
    text = json.dumps(structured, ensure_ascii=False) if text is None else text
    return ToolResult([TextContent(type="text", text=text)], structured)


def _failed(message: str) -> ToolResult:
    return ToolResult([TextContent(type="text", text=message)], is_error=True)
