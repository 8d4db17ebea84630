"""Serves MCP on standard input and output."""

import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from qk_mcp.projects.served import ServedProjects
from qk_mcp.server.process import LAST_CALL, ServeOptions, begin_process, build_server, exit_in, run_server
from qk_mcp.server.streams import ClientLines, ClientMessages, open_client_streams

if TYPE_CHECKING:
    from fastmcp import FastMCP

__all__ = ["serve_stdio"]


def serve_stdio(served: ServedProjects, options: ServeOptions) -> NoReturn:
    """Serve MCP on stdin and stdout until the client closes them or a signal arrives, then exit the process.

    What libraries print while they are imported goes to stderr.
    """
    begin_process(served)
    from_client, to_client = _take_standard_streams()
    server = build_server(served, options)
    app = server.app()
    sys.stdout.flush()
    lines, messages = open_client_streams(from_client, to_client)

    async def converse() -> None:
        _watch_for_hangup(from_client)
        await _converse(app, lines, messages)

    run_server(server, served, converse, "the client closed stdin")


async def _converse(app: "FastMCP[None]", lines: ClientLines, messages: ClientMessages) -> None:
    """Do what `FastMCP.run_stdio_async` does (4.2.3), but with our own streams."""
    from fastmcp.server.context import set_transport
    from mcp.server.stdio import stdio_server

    set_transport("stdio")
    streams: Any = (lines, messages)  # they have the methods of the files that are expected
    async with app._lifespan_manager(), stdio_server(*streams) as (incoming, outgoing):
        await app._mcp_server.run(incoming, outgoing, app._mcp_server.create_initialization_options())


def _take_standard_streams() -> tuple[int, int]:
    """Return private descriptors of the client, and make 0 the null device and 1 stderr for everybody else."""
    from_client, to_client = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return from_client, to_client


def _watch_for_hangup(from_client: int) -> None:
    """Exit when the client is gone, even while a write waits for it to read."""

    def watch() -> None:
        poll = select.poll()
        poll.register(from_client, getattr(select, "POLLRDHUP", 0))  # a full hang-up is always reported
        poll.poll()
        exit_in(LAST_CALL, 0, "the client has gone")

    threading.Thread(target=watch, daemon=True).start()
