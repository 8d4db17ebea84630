"""Runs the server on standard input and output: descriptors, signals, and the exit.

The process may exit at any moment, by `os._exit` or SIGKILL: the supervisor of each guest notices and kills its
process tree.
"""

import asyncio
import gc
import logging
import os
import select
import signal
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, NoReturn

from qk_mcp import __version__
from qk_mcp.host.launch import kill_starting_guests
from qk_mcp.projects.registry import HERE, Registry
from qk_mcp.server.streams import open_client_streams
from qk_mcp.tasks.prefetch import Prefetch
from qk_mcp.tasks.report import remove_all_reports, remove_stale_reports

if TYPE_CHECKING:
    from qk_mcp.server.server import TaskServer

__all__ = ["serve_stdio"]

log = logging.getLogger(__name__)

_PREFETCHED = 8
"""Projects described before a client asks. The code of one found in the current directory does not run unasked."""
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LAST_CALL = 1.9
"""Seconds after which the process exits in any case; clients wait about two."""


def serve_stdio(registry: Registry, *, max_output: int, describe_timeout: float, warm: bool) -> NoReturn:
    """Serve MCP on stdin and stdout until the client closes them or a signal arrives, then exit the process.

    `max_output` counts bytes of JSON in an answer, `describe_timeout` seconds; `warm` allows warm
    guests. What libraries print while they are imported goes to stderr.
    """
    version = ".".join(map(str, sys.version_info[:3]))
    log.info("start version=%s python=%s executable=%s", __version__, version, sys.executable)
    for project in registry.projects:
        log.info("project name=%s path=%s origin=%s", project.alias, project.path, project.origin)
    gc.disable()  # saves a tenth of the start
    for number in _STOPPING:
        signal.signal(number, lambda number, _: _exit(128 + number, signal.Signals(number).name))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if the client ignores it, the exit codes of children are lost
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the client may have blocked signals
    from_client, to_client = _take_standard_streams()
    warnings.simplefilter("ignore")  # users cannot act on a library's deprecations
    environ = dict(os.environ)
    _isolate_libraries()
    declared = [project for project in registry.projects if project.origin != HERE][:_PREFETCHED]
    prefetch = Prefetch(declared, environ)
    import anyio
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True  # saves a seventh: most models are never used
    from qk_mcp.host.warm_pool import POOL_SIZE
    from qk_mcp.runs.output_files import outputs_directory
    from qk_mcp.server.server import Settings, TaskServer

    settings = Settings(
        environ=environ,
        outputs=outputs_directory(),
        max_output=max_output,
        describe_timeout=describe_timeout,
        warm_guests=POOL_SIZE if warm else 0,
    )
    server = TaskServer(registry, settings, prefetch)
    app = server.app()
    sys.stdout.flush()
    open_client_streams(from_client, to_client)
    gc.freeze()
    gc.enable()

    async def run() -> None:
        _handle_signals(server)
        _watch_for_hangup(from_client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.prepare, declared)
            tasks.start_soon(anyio.to_thread.run_sync, remove_stale_reports)
            await app.run_async(transport="stdio", show_banner=False)
            tasks.cancel_scope.cancel()

    try:
        anyio.run(run)
    except* BrokenPipeError:
        _exit(0, "the client closed stdout")
    except* Exception:
        log.exception("the server failed; this is a defect of qk-mcp")
        _exit(1, "a defect")
    _exit(0, "the client closed stdin")


def _take_standard_streams() -> tuple[int, int]:
    """Return private descriptors of the client, and make 0 the null device and 1 stderr for everybody else."""
    from_client, to_client = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return from_client, to_client


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
        _exit(code, reason)

    def on_signal(number: int) -> None:
        code, reason = 128 + number, signal.Signals(number).name
        if stopping:
            _exit(code, f"a second {reason}")
        _exit_in(_LAST_CALL, code, reason)
        stopping.add(loop.create_task(stop(code, reason)))

    for number in _STOPPING:
        loop.add_signal_handler(number, on_signal, int(number))


def _watch_for_hangup(from_client: int) -> None:
    """Exit when the client is gone, even while a write waits for it to read."""

    def watch() -> None:
        poll = select.poll()
        poll.register(from_client, getattr(select, "POLLRDHUP", 0))  # a full hang-up is always reported
        poll.poll()
        _exit_in(_LAST_CALL, 0, "the client has gone")

    threading.Thread(target=watch, daemon=True).start()


def _exit_in(seconds: float, code: int, reason: str) -> None:
    def exit_late() -> None:
        time.sleep(seconds)
        _exit(code, reason)

    threading.Thread(target=exit_late, daemon=True).start()


def _exit(code: int, reason: str) -> NoReturn:
    """Exit without waiting for the thread that reads stdin or for half a second of interpreter shutdown."""
    log.info("end exit=%d reason=%s", code, reason)
    remove_all_reports()
    kill_starting_guests()
    os._exit(code)
