"""The MCP server: its tools, on FastMCP."""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.server.context import _MCP_LEVEL_SEVERITY, _get_client_log_level
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool, ToolResult
from mcp_types import LoggingLevel, ToolAnnotations

from qk_mcp import __version__
from qk_mcp.errors import InvalidInput, ProjectNeeded, QkMcpError, RunLost, RunStopped, RunTimedOut
from qk_mcp.host.stop import GRACE
from qk_mcp.host.warm_pool import WarmPool
from qk_mcp.interpreters.plan import resolve
from qk_mcp.projects.project import Project
from qk_mcp.projects.registry import Registry
from qk_mcp.runs.progress import send_live_output
from qk_mcp.runs.record import Recorder, RunRecord, RunState, new_run_id
from qk_mcp.runs.run import Request, Run
from qk_mcp.runs.streams import Stream
from qk_mcp.server import schemas
from qk_mcp.server.answers import tool_answer, tool_error
from qk_mcp.server.arguments import check_names, parse_detail, parse_seconds, parse_text, parse_words
from qk_mcp.server.client_log import ClientLog
from qk_mcp.server.listings import Listings
from qk_mcp.server.task_runner import TaskRunner
from qk_mcp.tasks.cache import CatalogCache
from qk_mcp.tasks.prefetch import Prefetch
from qk_mcp.text import encodable, one_line

__all__ = ["Settings", "TaskServer"]

log = logging.getLogger(__name__)

_LOGGED = 100
"""Characters of a task's or a client's name in the log and the record."""

_UNUSED = (
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "completion/complete",
)
"""Requests that FastMCP answers although this server has no prompts and no resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of `serve`, and its environment."""

    environ: Mapping[str, str]
    outputs: Path
    """The directory for complete outputs."""
    max_output: int
    """Bytes of JSON in an answer."""
    describe_timeout: float
    """Seconds that describing a project may take."""
    warm_guests: int
    """Warm guests at most."""


class TaskServer:
    """Answers the tools for the projects of a registry."""

    def __init__(self, registry: Registry, settings: Settings, prefetch: Prefetch) -> None:
        self._registry = registry
        self._settings = settings
        self._catalogs = CatalogCache(settings.environ, timeout=settings.describe_timeout, prefetch=prefetch)
        self._listings = Listings(self._catalogs, settings.max_output)
        self._recorder = Recorder(settings.outputs.with_name("runs.jsonl"))
        self._runner = TaskRunner(WarmPool(size=settings.warm_guests), self._recorder)
        self._calls: dict[anyio.CancelScope, anyio.Event] = {}

    def app(self) -> FastMCP[None]:
        """Build the FastMCP server."""
        app: FastMCP[None] = FastMCP(
            "qk-mcp", instructions=schemas.instructions(self._registry), version=__version__, tasks=False
        )
        app.add_middleware(ClientLog())
        app.add_tool(
            _Tool(
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
            _Tool(
                name="run_task",
                title="Run a task",
                description=schemas.RUN_DESCRIPTION,
                parameters=schemas.RUN_INPUT,
                output_schema=schemas.RUN_OUTPUT,
                annotations=ToolAnnotations(
                    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
                ),
                meta=schemas.META,
                answer=self._tracked(self.run_task),
            )
        )
        _drop_unused_capabilities(app)
        return app

    async def list_tasks(self, arguments: Mapping[str, Any]) -> ToolResult:
        """List the tasks of one project, or of all."""
        note = check_names(arguments, schemas.LIST_INPUT["properties"])
        name, pattern = parse_text(arguments, "project"), parse_text(arguments, "filter")
        detail = parse_detail(arguments, "detail")
        if name is not None:
            return await self._listings.list_project(self._registry.find(name), pattern, detail, note)
        if not self._registry.projects:
            raise ProjectNeeded([])
        return await self._listings.list_projects(self._registry.projects, pattern, detail, note)

    async def run_task(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one task."""
        note = check_names(arguments, schemas.RUN_INPUT["properties"])
        task = parse_text(arguments, "task_name")
        if task is None:
            raise InvalidInput("task_name", "it is required; list_tasks shows the names")
        project = self._registry.find(parse_text(arguments, "project"))
        request = Request(
            task=task,
            args=parse_words(arguments, "args"),
            stdin=parse_text(arguments, "stdin"),
            timeout=parse_seconds(arguments, "timeout", schemas.DEFAULT_TIMEOUT),
            bounds_call=True,
            max_output=self._settings.max_output - len(json.dumps(note)),
            outputs=self._settings.outputs,
            grace=GRACE if project.grace is None else project.grace,
        )
        current = resolve(project, self._settings.environ)
        record = RunRecord(
            run=new_run_id(),
            time=time.time(),
            project=project.alias,
            root=str(current.location.root),
            task=task,
            args=request.args,
            client=_client_name(),
            server=self._recorder.server,
        )
        began, end = time.monotonic(), _End("cancelled")
        try:
            async with send_live_output(_Notifier(task)) as observe:
                outcome = await _outcome(self._runner.run_task(current, request, observe, record))
            end = _ending(outcome)
        finally:
            seconds = time.monotonic() - began
            self._recorder.write(replace(record, seconds=seconds, **asdict(end)))
            line = "run project=%s task=%s state=%s exit=%s seconds=%.3f"
            exit_code = "-" if end.exit_code is None else end.exit_code
            state = "refused" if end.error else end.state
            log.info(line, project.alias, one_line(task, _LOGGED), state, exit_code, seconds)
        self._runner.prepare_next(current)
        if isinstance(outcome, QkMcpError):
            raise outcome
        answer = outcome.answer()
        if note:
            answer["note"] = "\n".join(filter(None, (note, answer.get("note"))))
        return tool_answer(answer)

    async def prepare(self, projects: Sequence[Project]) -> None:
        """Describe projects before a client asks; the calls for a project report its failure."""
        for project in projects:
            outcome = await _outcome(self._catalogs.prepare(project))
            if isinstance(outcome, QkMcpError):
                log.debug("project=%s: %s", project.alias, outcome.what)

    async def stop(self) -> None:
        """Cancel every call in progress, and wait until its processes have ended."""
        calls = list(self._calls.items())
        for scope, _ in calls:
            scope.cancel()
        for _, ended in calls:
            await ended.wait()
        await self._catalogs.close()

    def _tracked(self, answer: "_Answer") -> "_Answer":
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


type _Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


class _Tool(Tool):
    """A tool with hand-written schemas; it receives the arguments as the client sent them."""

    answer: Any

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        result: ToolResult = await self.answer(arguments)
        return result


class _Notifier:
    """Sends a task's output to the client of the current call."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._context = get_context()

    async def log(self, stream: Stream, text: str) -> None:
        # Not Context.log, which wraps the text in an object that clients print as it is.
        level: LoggingLevel = "info" if stream == "stdout" else "warning"
        session = self._context.session
        lowest = _get_client_log_level(session)
        if lowest is None or _MCP_LEVEL_SEVERITY[level] >= _MCP_LEVEL_SEVERITY[lowest]:
            await session.send_log_message(level, encodable(text), self._task, self._context.origin_request_id)

    async def progress(self, seconds: float, message: str) -> None:
        await self._context.report_progress(seconds, message=encodable(message))


def _drop_unused_capabilities(app: FastMCP[None]) -> None:
    """Remove the handlers for prompts and resources: some clients offer a model tools for each capability."""
    handlers = app._mcp_server._request_handlers
    for method in _UNUSED:
        handlers.pop(method, None)


@dataclass(frozen=True, slots=True)
class _End:
    """The fields of a record that the end of a run sets."""

    state: RunState
    exit_code: int | None = None
    error: str = ""
    bytes: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def _ending(outcome: Run | QkMcpError) -> _End:
    match outcome:
        case Run():
            streams = {"stdout": outcome.stdout, "stderr": outcome.stderr}
            sizes = {name: stream.size for name, stream in streams.items()}
            files = {name: str(stream.file) for name, stream in streams.items() if stream.file}
            return _End("ended", outcome.exit_code, bytes=sizes, files=files)
        case RunTimedOut():
            return _End("timed_out")
        case RunStopped():
            return _End("stopped")
        case RunLost():
            return _End("lost")
    return _End("ended", error=outcome.what)


def _client_name() -> str:
    params = get_context().session.client_params
    return one_line(params.client_info.name, _LOGGED) if params else ""


async def _outcome[T](running: Awaitable[T]) -> T | QkMcpError:
    try:
        return await running
    except QkMcpError as failure:
        return failure
