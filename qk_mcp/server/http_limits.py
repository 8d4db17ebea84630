"""Bounds what a connection may cost: how many there are, and how long a request may take to arrive.

uvicorn ends an idle connection between two requests, and the MCP SDK refuses a body over 4 MiB. A connection that never
completes its request is bounded here.
"""

import asyncio
import resource
from typing import TYPE_CHECKING

import anyio
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BodyDeadline", "bounded_protocol"]

_HEAD_TIME = 15.0
"""Seconds in which the head of a request must arrive."""
_BODY_TIME = 30.0
"""Seconds in which the rest of it must."""
_MOST_CONNECTIONS = 384


def bounded_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with a bound on connections and on the time of a request's head.

    A third of the descriptors that this process may open goes to connections: runs need the others.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, max(16, soft // 3))

    class BoundedProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._set_deadline(None)

        def _watch(self) -> None:
            """Close the connection if no complete head arrives in time."""
            served = self.cycle is not None and not self.cycle.response_complete
            if served:
                self._set_deadline(None)
            elif self._deadline is None:
                self._set_deadline(self.loop.call_later(_HEAD_TIME, self.transport.abort))

        def _set_deadline(self, deadline: asyncio.TimerHandle | None) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = deadline

    return BoundedProtocol


class BodyDeadline:
    """Answers 408 if the body of a request does not arrive in time."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass the request on, with a deadline for its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline = anyio.current_time() + _BODY_TIME
        arrived = late = False

        async def receive_in_time() -> "Message":
            nonlocal arrived, late
            if arrived:
                return await receive()
            with anyio.move_on_after(max(0.0, deadline - anyio.current_time())):
                message = await receive()
                arrived = not message.get("more_body", False)
                return message
            late = True
            headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 408, "headers": headers})
            await send({"type": "http.response.body", "body": b"The body of the request did not arrive in time"})
            return {"type": "http.disconnect"}

        async def send_unless_late(message: "Message") -> None:
            if not late:
                await send(message)

        await self._app(scope, receive_in_time, send_unless_late)
