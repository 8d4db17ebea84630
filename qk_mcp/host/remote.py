"""The servers of remote projects: starts them over there, keeps them, and is their MCP client.

A server carries one run that waits for its answer at a time, so that its log messages belong to that run. When this
process ends, each server over there meets the end of its stdin and ends every run.
"""

import asyncio
import json
import logging
import shlex
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

import anyio

from qk_mcp import __version__
from qk_mcp.errors import QkMcpError, RemoteFailed, RemoteRefused
from qk_mcp.projects.project import Project
from qk_mcp.projects.remote import Remote

if TYPE_CHECKING:
    from fastmcp.client import Client
    from fastmcp.client.client import CallToolResult
    from fastmcp.client.logging import LogMessage
    from fastmcp.client.transports import StdioTransport

__all__ = ["HAND_OVER", "PARSERS", "RemoteServers"]

log = logging.getLogger(__name__)

HAND_OVER = "qk-mcp/hand-over"
"""The key of a call's `_meta` with the seconds after which a server over there answers it although the run goes on."""
PARSERS = "qk-mcp/parsers"
"""The key of a call of `list_tasks` that asks for what the tools of single tasks need, too."""

_CONNECT = 25.0
"""Seconds in which a server over there must answer; ssh itself gives up connecting after 10."""
_ALIVE = 10.0
"""Seconds in which a server that has done nothing for a while must answer a ping."""
_LISTING = 60.0
"""Seconds in which it must describe its project."""
_LATE = 20.0
"""Seconds that an answer may come after the timeout of its run."""
_CLOSING = 3.0
_FLUSH = 1.0
"""Seconds after an answer in which the log messages before it must be passed on."""
_IDLE = 2
"""Servers of a project that stay while they have nothing to do."""
_SHOWN = 2_000
"""Bytes of the end of a server's stderr in an error."""


type LogReceiver = Callable[[str, str], Awaitable[None]]
"""Receives the level and the text of a log message."""
type ProgressReceiver = Callable[[float, str], Awaitable[None]]
"""Receives seconds and a message."""


@dataclass(slots=True)
class _Connection:
    """A server over there, and our client of it."""

    project: Project
    errors: IO[str]
    client: "Client[StdioTransport]" = field(init=False)
    logged: "asyncio.Queue[tuple[str, str]]" = field(default_factory=asyncio.Queue)
    """The level and the text of log messages that have not been passed on."""
    runs: set[str] = field(default_factory=set)
    """Background runs of this server."""

    async def receive_log(self, message: "LogMessage") -> None:
        """Keep a log message for the call in progress: handlers run at the same time, and order counts."""
        self.logged.put_nowait((message.level, message.data if isinstance(message.data, str) else str(message.data)))

    @asynccontextmanager
    async def passing_on(self, receive: LogReceiver) -> AsyncIterator[None]:
        """Pass log messages on in their order; at the end of the block, those that have arrived as well."""

        async def pass_on() -> None:
            while True:
                await receive(*await self.logged.get())
                self.logged.task_done()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pass_on)
            yield
            with anyio.move_on_after(_FLUSH):
                await self.logged.join()
            tasks.cancel_scope.cancel()

    def stderr(self) -> str:
        """Return the end of what the command and the server over there wrote to stderr."""
        self.errors.seek(max(0, self.errors.seek(0, 2) - _SHOWN))
        return self.errors.read().strip()


class RemoteServers:
    """The servers over there of one process. Belongs to one event loop; call `close` at the end."""

    def __init__(self, environ: Mapping[str, str], options: Sequence[str] = ()) -> None:
        """`options` are those of `serve` that the servers over there get, too."""
        self._environ = environ
        self._options = options
        self._idle: list[_Connection] = []
        self._all: dict[int, _Connection] = {}

    async def list_tasks(self, project: Project) -> Mapping[str, Any]:
        """Return the project's entry in the full form. Raises RemoteFailed, and RemoteRefused with its message."""
        arguments = {"project": project.alias, "detail": "full"}
        async with self._connected(project) as connection:
            answer = await self._ask(connection, "list_tasks", arguments, _LISTING, None, {PARSERS: True})
        entries = (answer.structured_content or {}).get("result")
        return entries[0] if entries else {}

    async def run_task(
        self,
        project: Project,
        arguments: Mapping[str, Any],
        within: float,
        receive_log: LogReceiver,
        receive_progress: ProgressReceiver,
        hand_over: float | None = None,
    ) -> Mapping[str, Any]:
        """Run a task over there, and return the answer of `run_task`, at the latest a while after `within` seconds.

        After `hand_over` seconds, the call is answered although the run goes on. Raises as `list_tasks` does. A
        cancelled call stops the run.
        """
        meta = {HAND_OVER: hand_over} if hand_over is not None else None
        failure: QkMcpError | None = None
        content: Mapping[str, Any] = {}
        async with self._connected(project) as connection:
            try:
                async with connection.passing_on(receive_log):
                    try:
                        answer = await self._ask(
                            connection, "run_task", arguments, within + _LATE, receive_progress, meta
                        )
                        content = answer.structured_content or {}
                    except QkMcpError as error:  # a task group would wrap it
                        failure = error
            except asyncio.CancelledError:
                if not connection.runs:  # what its run still prints must not be taken for the next run's
                    await self._close(connection)
                raise
            if run_id := content.get("run_id"):
                connection.runs.add(str(run_id))
        if failure is not None:
            raise failure
        return content

    async def ask_about(self, run_id: str, tool: str, arguments: Mapping[str, Any], within: float) -> Mapping[str, Any]:
        """Return the answer of `get_run` or `stop_run` of the server that has the run. Raises as `list_tasks`."""
        connection = next(each for each in self._all.values() if run_id in each.runs)
        answer = await self._ask(connection, tool, arguments, within + _LATE, None)
        return answer.structured_content or {}

    def has_run(self, run_id: str) -> bool:
        """Return whether a server over there has the background run."""
        return any(run_id in each.runs for each in self._all.values())

    async def close(self) -> None:
        """End every server over there."""
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*(self._close(each) for each in list(self._all.values())))

    @asynccontextmanager
    async def _connected(self, project: Project) -> AsyncIterator[_Connection]:
        """Lend a server that does nothing else: one that waits, or a new one."""
        connection = await self._take_idle(project) or await self._connect(project)
        try:
            yield connection
        finally:
            if connection.client.is_connected() and id(connection) in self._all:
                self._idle.append(connection)
                waiting = [each for each in self._idle if each.project.alias == project.alias and not each.runs]
                for each in waiting[:-_IDLE]:
                    self._idle.remove(each)
                    await self._close(each)
            else:
                await self._close(connection)

    async def _take_idle(self, project: Project) -> _Connection | None:
        """Return a server of the project that does nothing and still answers; the others are closed."""
        while connection := next((each for each in self._idle if each.project == project), None):
            self._idle.remove(connection)
            try:
                with anyio.fail_after(_ALIVE):
                    await connection.client.ping()
            except Exception as error:
                log.debug("the server of %s is gone: %s", project.alias, error)
                await self._close(connection)
            else:
                return connection
        return None

    async def _connect(self, project: Project) -> _Connection:
        assert project.remote is not None
        from fastmcp.client import Client
        from fastmcp.client.transports import StdioTransport
        from mcp_types import Implementation

        logging.getLogger("mcp.client.stdio").disabled = True  # it prints a traceback for what our error explains
        words = ["serve", "--project", f"{project.alias}:{project.path}", *_settings(project), *self._options]
        command, *args = project.remote.argv(words)
        errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  # it lives as long as the server
        transport = StdioTransport(command, args, env=dict(self._environ), keep_alive=False, log_file=errors)
        connection = _Connection(project, errors)
        connection.client = Client(
            transport,
            log_handler=connection.receive_log,
            mode="legacy",
            init_timeout=_CONNECT,
            client_info=Implementation(name="qk-mcp", version=__version__),
        )
        self._all[id(connection)] = connection
        try:
            with anyio.fail_after(_CONNECT):
                await connection.client.__aenter__()  # type: ignore[no-untyped-call]
        except BaseException as error:
            text = connection.stderr()
            await self._close(connection)
            if isinstance(error, Exception):
                raise _failure(project, _reason(error), text) from None
            raise
        try:
            _check_version(connection)
        except RemoteFailed:
            await self._close(connection)
            raise
        log.info("remote project=%s place=%s", project.alias, project.remote.place)
        return connection

    async def _ask(
        self,
        connection: _Connection,
        tool: str,
        arguments: Mapping[str, Any],
        within: float,
        receive_progress: ProgressReceiver | None,
        meta: dict[str, Any] | None = None,
    ) -> "CallToolResult":
        async def progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            if receive_progress is not None:
                await receive_progress(progress, message or "")

        try:
            with anyio.fail_after(within):
                answer = await connection.client.call_tool(
                    tool, dict(arguments), raise_on_error=False, progress_handler=progress, meta=meta
                )
        except Exception as error:
            text = connection.stderr()
            await self._close(connection)
            raise _failure(connection.project, _reason(error), text, ended=tool == "run_task") from None
        if answer.is_error:
            raise RemoteRefused("\n".join(getattr(block, "text", "") for block in answer.content))
        return answer

    async def _close(self, connection: _Connection) -> None:
        """End the server over there: its stdin ends, and after a while so does the command that leads to it."""
        if self._all.pop(id(connection), None) is None:
            return
        if connection in self._idle:
            self._idle.remove(connection)
        with anyio.move_on_after(_CLOSING, shield=True):
            try:
                await connection.client.close()  # type: ignore[no-untyped-call]
            except Exception as error:
                log.debug("closing the server of %s: %s", connection.project.alias, error)
        connection.errors.close()


def _settings(project: Project) -> list[str]:
    """Return the option that gives the server over there the settings of the project; rules are decided here."""
    rules = project.rules
    settings = {
        "python": project.python,
        "env": {name: False if value is None else value for name, value in project.env.items()},
        "grace": project.grace,
        "reports": [*project.reports],
        "exclusive": [*rules.exclusive],
        "redact": [*rules.redact] if rules.redact is not None else False,
        "log_args": None if rules.log_args else False,
    }
    given = {key: value for key, value in settings.items() if value not in (None, [], {})}
    return ["--settings", json.dumps(given)] if given else []


def _check_version(connection: _Connection) -> None:
    """Raise RemoteFailed unless the server is ours, of the same series as this one."""
    result = connection.client.initialize_result
    info = result.server_info if result else None
    if info is None or info.name != "qk-mcp":
        raise _failure(connection.project, "another program answers there", "")
    if info.version.split(".")[:2] != __version__.split(".")[:2]:
        why = f"qk-mcp {info.version} is there, and {__version__} is here"
        raise _failure(connection.project, why, "", hint="install the same version in both places")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"the connection broke: {error}" if str(error) else "the connection broke"


def _failure(project: Project, why: str, stderr: str, *, ended: bool = False, hint: str = "") -> RemoteFailed:
    """Return the failure of a connection, with the remedy for what ssh or the command wrote to stderr."""
    assert project.remote is not None
    if ended:
        why += "; the run has ended with its server"
    return RemoteFailed(project.alias, project.remote.place, why, hint or _remedy(project.remote, stderr), stderr)


def _remedy(remote: Remote, stderr: str) -> str:
    test = shlex.join(remote.argv(["--version"]))
    if "Host key verification failed" in stderr:
        return f"connect once by hand to check and accept the key: ssh {remote.host}"
    if "Permission denied (" in stderr:
        return f"let ssh log in without a question, for example with ssh-copy-id {remote.host}"
    if any(sign in stderr for sign in ("command not found", "not found", "No such file", "No module named")):
        install = shlex.join(replace(remote, command=("pipx",)).argv(["install", "qk-mcp[quickie]"]))
        return f"install it there: {install}; or name it with `command` in the project's table"
    return f"see what this prints: {test}"
