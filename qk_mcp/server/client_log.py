"""Logs which client speaks: once per connection before MCP 2026-07-28, once per client since (it has no sessions)."""

import logging
from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from qk_mcp.text import one_line

__all__ = ["ClientLog"]

log = logging.getLogger(__name__)

_LENGTH = 100
"""Characters of a client's name or version."""


class ClientLog(Middleware):
    """Writes a line for each client that it has not seen."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Answer the request, then log the client: `initialize` makes it known."""
        answer = await call_next(context)
        session = context.fastmcp_context and context.fastmcp_context.session
        params = session and session.client_params
        if session and params:
            name, version = (one_line(text, _LENGTH) for text in (params.client_info.name, params.client_info.version))
            line = f"client name={name!r} version={version!r} protocol={session.protocol_version}"
            if line not in self._seen:
                self._seen.add(line)
                log.info(line)
        return answer
