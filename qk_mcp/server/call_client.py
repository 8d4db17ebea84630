"""The client of the current call: its name, and the messages that it gets while a task runs."""

from typing import Any

from fastmcp.server.context import _MCP_LEVEL_SEVERITY, _get_client_log_level
from fastmcp.server.dependencies import get_context
from mcp_types import LoggingLevel

from qk_mcp.host.remote import HAND_OVER, PARSERS
from qk_mcp.runs.streams import Stream
from qk_mcp.text import encodable, one_line

__all__ = ["CallClient", "asked_hand_over", "asks_for_parsers", "client_name"]

_LENGTH = 100
"""Characters of a client's name."""


class CallClient:
    """Sends a task's output to the client of the current call."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._context = get_context()

    async def log(self, stream: Stream, text: str) -> None:
        """Send lines as a log message."""
        # Not Context.log, which wraps the text in an object that clients print as it is.
        level: LoggingLevel = "info" if stream == "stdout" else "warning"
        session = self._context.session
        lowest = _get_client_log_level(session)
        if lowest is None or _MCP_LEVEL_SEVERITY[level] >= _MCP_LEVEL_SEVERITY[lowest]:
            await session.send_log_message(level, encodable(text), self._task, self._context.origin_request_id)

    async def progress(self, seconds: float, message: str) -> None:
        """Report the time and the last line as progress."""
        await self._context.report_progress(seconds, message=encodable(message))


def client_name() -> str:
    """Return the name that the client gives in the protocol; empty if it gives none."""
    params = get_context().session.client_params
    return one_line(params.client_info.name, _LENGTH) if params else ""


def asked_hand_over() -> float | None:
    """Return the seconds after which the current call is to be answered in any case, if a server of ours asks so."""
    seconds = _meta(HAND_OVER)
    return float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None


def asks_for_parsers() -> bool:
    """Return whether a server of ours asks for what the tools of single tasks need."""
    return _meta(PARSERS) is True


def _meta(key: str) -> Any:
    request = get_context().request_context
    return (request.meta or {}).get(key) if request else None
