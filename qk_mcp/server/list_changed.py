"""Tells clients that the list of tools has changed, in both eras of the protocol.

Until MCP 2025-11-25 the notification goes to each session. Since 2026-07-28 there are no sessions: a client asks for
notifications by `subscriptions/listen`, and the answer to that request carries them.
"""

from collections import deque
from typing import Any

import anyio
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import SubscriptionsListenRequestParams

__all__ = ["ToolListChanges"]

_PATIENCE = 5.0
"""Seconds for a client that does not read."""
_SESSIONS = 100
"""Sessions that are told, the newest: one over HTTP that has ended cannot be told apart."""


class ToolListChanges(Middleware):
    """Announces changes of one server's list of tools."""

    def __init__(self) -> None:
        self._sessions: deque[Any] = deque(maxlen=_SESSIONS)
        self._bus = InMemorySubscriptionBus()

    def install(self, app: FastMCP[None], *, announced: bool) -> None:
        """Make `app` advertise what it does: announce changes, or say that there are none."""
        server = app._mcp_server
        server.notification_options.tools_changed = announced
        if announced:
            app.add_middleware(self)
            server.add_request_handler(
                "subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(self._bus)
            )

    async def on_initialize(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Remember the session that begins."""
        answer = await call_next(context)
        if context.fastmcp_context is not None:
            self._sessions.append(context.fastmcp_context.session)
        return answer

    async def announce(self) -> None:
        """Tell each client that listens. One that has gone does not keep the others from it."""
        for session in list(self._sessions):
            try:
                with anyio.move_on_after(_PATIENCE):
                    await session.send_tool_list_changed()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._sessions.remove(session)
        await self._bus.publish(ToolsListChanged())
