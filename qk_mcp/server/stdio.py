"""Runs the server on standard input and output: descriptors, signals, and an end that always comes.

The process may end at any moment, by `os._exit` or by SIGKILL: the supervisor
of each guest notices and ends its tree.
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

from qk_mcp.host.launch import kill_starting_guests
from qk_mcp.projects.registry import HERE, Registry
from qk_mcp.server.stdin import mend_stdin
from qk_mcp.tasks.prefetch import HeadStart, forget_all, forget_old

if TYPE_CHECKING:
    from qk_mcp.server.server import TaskServer

__all__ = ["serve"]

log = logging.getLogger(__name__)

_EARLY = 8
"""How many projects are described before a client asks; one that merely lies here is not run unasked."""
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LAST_CALL = 1.9
"""Seconds after which the process ends, whatever it waits for; clients wait about two."""


def serve(registry: Registry, *, max_output: int, describe_timeout: float, warm: bool) -> NoReturn:
    """Serve MCP on stdin and stdout until the client closes them or a signal comes; leaves the process.

    `max_output` counts characters of each stream in an answer, `describe_timeout`
    seconds; `warm` allows warm guests. What libraries print while they are imported goes to stderr.
    """
    gc.disable()  # a tenth of the start
    for number in _STOPPING:
        signal.signal(number, lambda number, _: _leave(128 + number))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whoever started it may have had signals blocked
    wire = os.dup(1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")  # a library's deprecations say nothing to a user
    environ = dict(os.environ)
    _settle_libraries()
    declared = [project for project in registry.projects if project.origin != HERE][:_EARLY]
    early = HeadStart(declared, environ)
    import anyio
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True  # a seventh of the start: most models of the protocol are never used
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
    server = TaskServer(registry, settings, early)
    app = server.app()
    mend_stdin()
    sys.stdout.flush()
    os.dup2(wire, 1)
    os.close(wire)
    gc.freeze()
    gc.enable()

    async def run() -> None:
        _handle_signals(server)
        _watch_for_hangup()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.prepare, declared)
            tasks.start_soon(anyio.to_thread.run_sync, forget_old)
            await app.run_async(transport="stdio", show_banner=False)
            tasks.cancel_scope.cancel()

    try:
        anyio.run(run)
    except* BrokenPipeError:
        _leave(0)  # the client is gone
    except* Exception:
        log.exception("the server failed; this is a defect of qk-mcp")
        _leave(1)
    _leave(0)


def _settle_libraries() -> None:
    """Have FastMCP take no settings but ours: neither from a project's .env, nor from variables meant for others."""
    for name in [name for name in os.environ if name.upper().startswith("FASTMCP_")]:
        del os.environ[name]
    os.environ["FASTMCP_ENV_FILE"] = os.devnull
    os.environ["FASTMCP_LOG_ENABLED"] = "false"
    from platformdirs import user_data_dir

    try:
        user_data_dir()
    except RuntimeError:  # there is no home, for which FastMCP asks as it is imported; it keeps nothing there
        os.environ["XDG_DATA_HOME"] = os.devnull


def _handle_signals(server: "TaskServer") -> None:
    """End by the first signal with every tree stopped, by a second one at once."""
    loop = asyncio.get_running_loop()
    stopping: set[asyncio.Task[None]] = set()

    async def stop(code: int) -> None:
        await server.stop()
        _leave(code)

    def on_signal(number: int) -> None:
        code = 128 + number
        if stopping:
            _leave(code)
        _leave_in(_LAST_CALL, code)
        stopping.add(loop.create_task(stop(code)))

    for number in _STOPPING:
        loop.add_signal_handler(number, on_signal, int(number))


def _watch_for_hangup() -> None:
    """See that the process ends when the client is gone, even while it waits for that client to read."""
    stdin = os.dup(0)

    def watch() -> None:
        poll = select.poll()
        poll.register(stdin, getattr(select, "POLLRDHUP", 0))  # a whole hang-up is always told, half of one on Linux
        poll.poll()
        _leave_in(_LAST_CALL, 0)

    threading.Thread(target=watch, daemon=True).start()


def _leave_in(seconds: float, code: int) -> None:
    def leave() -> None:
        time.sleep(seconds)
        _leave(code)

    threading.Thread(target=leave, daemon=True).start()


def _leave(code: int) -> NoReturn:
    """End without waiting for the thread that reads stdin, nor for half a second of tidying up."""
    forget_all()
    kill_starting_guests()
    os._exit(code)
