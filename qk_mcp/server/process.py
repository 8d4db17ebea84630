"""The process of a server: its start, the signals that end it, and its exit.

The process may exit at any moment, by `os._exit` or SIGKILL: the supervisor of each guest notices and kills its
process tree.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from qk_mcp import __version__
from qk_mcp.guest.cgroup import remove_empty_cgroups
from qk_mcp.host.launch import kill_starting_guests
from qk_mcp.host.reaper import reap_orphans
from qk_mcp.projects.project import Project
from qk_mcp.projects.registry import HERE
from qk_mcp.projects.served import ServedProjects
from qk_mcp.tasks.prefetch import Prefetch
from qk_mcp.tasks.report import remove_all_reports, remove_stale_reports

if TYPE_CHECKING:
    from qk_mcp.server.server import TaskServer

__all__ = [
    "LAST_CALL",
    "ServeOptions",
    "at_exit",
    "begin_process",
    "build_server",
    "exit_in",
    "exit_process",
    "run_server",
]

log = logging.getLogger(__name__)

_PREFETCHED = 8
"""Projects described before a client asks. The code of one found in the current directory does not run unasked."""
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAST_CALL = 1.9
"""Seconds after which the process exits in any case; clients wait about two."""
_last_calls: list[tuple[int, str]] = []
"""The exit code and the reason of the exit to come."""
_clean_ups: list[Callable[[], None]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What `serve` was asked for, whatever the transport."""

    max_output: int
    """Bytes of JSON in an answer."""
    describe_timeout: float
    """Seconds that describing a project may take."""
    warm: bool
    """Whether an interpreter waits for the next run."""
    tools: Sequence[str] = ()
    """Globs of the tasks of every project that are tools of their own."""
    background: bool = True
    """Whether runs may outlive their calls."""
    hand_over: float | None = None
    """Seconds after which a call is handed over, infinity for never; None: it depends on the client."""
    principal: Callable[[], str] = str
    """Returns who makes the current call; see `Settings`."""


def begin_process(served: ServedProjects) -> None:
    """Log the start, and make the process end by signals whatever its parent ignored or blocked."""
    version = ".".join(map(str, sys.version_info[:3]))
    log.info("start version=%s python=%s executable=%s", __version__, version, sys.executable)
    for project in served.projects:
        log.info("project name=%s path=%s origin=%s", project.alias, project.path, project.origin)
    gc.disable()  # saves a tenth of the start
    for number in _STOPPING:
        signal.signal(number, lambda number, _: exit_process(128 + number, signal.Signals(number).name))
    signal.signal(signal.SIGALRM, lambda *_: exit_process(*_last_calls[0]))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if the client ignores it, the exit codes of children are lost
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the client may have blocked signals


def build_server(served: ServedProjects, options: ServeOptions) -> "TaskServer":
    """Return the server. The descriptions of its projects begin before the slow imports."""
    warnings.simplefilter("ignore")  # users cannot act on a library's deprecations
    environ = dict(os.environ)
    _isolate_libraries()
    prefetch = Prefetch(_prefetched(served), environ)
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True  # saves a seventh: most models are never used
    from qk_mcp.host.warm_pool import POOL_SIZE
    from qk_mcp.runs.output_files import outputs_directory
    from qk_mcp.server.server import TaskServer
    from qk_mcp.server.settings import Settings

    settings = Settings(
        environ=environ,
        outputs=outputs_directory(),
        max_output=options.max_output,
        describe_timeout=options.describe_timeout,
        warm_guests=POOL_SIZE if options.warm else 0,
        tools=options.tools,
        background=options.background,
        hand_over=options.hand_over,
        principal=options.principal,
    )
    return TaskServer(served, settings, prefetch)


def run_server(
    server: "TaskServer", served: ServedProjects, converse: Callable[[], Awaitable[None]], reason: str
) -> NoReturn:
    """Run `converse`, which talks to clients, until it returns or a signal arrives; then exit the process."""
    import anyio

    from qk_mcp.host.threads import call_in_thread

    gc.freeze()
    gc.enable()

    async def run() -> None:
        _handle_signals(server)
        reap_orphans()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.prepare, _prefetched(served))
            tasks.start_soon(server.watch)
            for clean_up in (remove_stale_reports, remove_empty_cgroups):
                tasks.start_soon(call_in_thread, clean_up)
            tasks.start_soon(server.keep_pruning)
            await converse()
            await server.stop()
            tasks.cancel_scope.cancel()

    try:
        anyio.run(run)
    except* BrokenPipeError:
        exit_process(0, "the client closed stdout")
    except* Exception:
        log.exception("the server failed; this is a defect of qk-mcp")
        exit_process(1, "a defect")
    exit_process(0, reason)


def _prefetched(served: ServedProjects) -> list[Project]:
    return [project for project in served.projects if project.origin != HERE and project.remote is None][:_PREFETCHED]


def _isolate_libraries() -> None:
    """Keep FastMCP from reading settings: a project's .env and FASTMCP variables are meant for others."""
    for name in [name for name in os.environ if name.upper().startswith("FASTMCP_")]:
        del os.environ[name]
    os.environ["FASTMCP_ENV_FILE"] = os.devnull
    os.environ["FASTMCP_LOG_ENABLED"] = "false"
    from platformdirs import user_data_dir

    try:
        user_data_dir()
    except RuntimeError:  # no home directory; FastMCP asks for one when imported and keeps nothing there
        os.environ["XDG_DATA_HOME"] = os.devnull


def _handle_signals(server: "TaskServer") -> None:
    """Stop every process tree and exit on the first signal; exit at once on the second."""
    loop = asyncio.get_running_loop()
    stopping: set[asyncio.Task[None]] = set()

    async def stop(code: int, reason: str) -> None:
        await server.stop()
        exit_process(code, reason)

    def on_signal(number: int) -> None:
        code, reason = 128 + number, signal.Signals(number).name
        if stopping:
            exit_process(code, f"a second {reason}")
        exit_in(LAST_CALL, code, reason)
        stopping.add(loop.create_task(stop(code, reason)))

    for number in _STOPPING:
        loop.add_signal_handler(number, on_signal, int(number))


def exit_in(seconds: float, code: int, reason: str) -> None:
    """Exit after `seconds`, whatever the event loop does. The first call counts.

    The system's timer needs no thread, which could not start when a task has used up the processes of the user.
    """
    if not _last_calls:
        _last_calls.append((code, reason))
        signal.setitimer(signal.ITIMER_REAL, seconds)


def at_exit(clean_up: Callable[[], None]) -> None:
    """Call `clean_up` when the process exits, unless it is killed."""
    _clean_ups.append(clean_up)


def exit_process(code: int, reason: str) -> NoReturn:
    """Exit without waiting for the thread that reads stdin or for half a second of interpreter shutdown."""
    log.info("end exit=%d reason=%s", code, reason)
    remove_all_reports()
    kill_starting_guests()
    for clean_up in _clean_ups:
        clean_up()
    os._exit(code)
