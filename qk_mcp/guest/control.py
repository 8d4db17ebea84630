"""The socket on which a guest receives its request and reports its start or its failure.

If the project has rules, the server allows the start only after the guest has sent the names of the task.

The project's module may close any descriptor, and the number may then belong to
another file. Each method first checks that the descriptor is still our socket.
"""

import json
import os
from select import POLLHUP, POLLIN, poll  # bound here, because libraries such as gevent replace them
from typing import Any

__all__ = ["GO", "Control"]

GO = b"go\n"
"""The server's word that a task may start. `qk_mcp.host.guest` sends it."""


class Control:
    """The guest's end of the socket."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = _identity(descriptor)

    def request(self) -> "dict[str, Any] | None":
        """Wait for the request, one line of JSON; return None if the server closes the socket or gives up."""
        data = bytearray()
        while not data.endswith(b"\n"):
            part = os.read(self._descriptor, 1 << 16)
            if not part:
                return None
            data += part
        request: dict[str, Any] = json.loads(data)
        return None if self.hung_up() else request

    def has_request(self) -> bool:
        """Return whether a request has arrived, so that `request` does not wait."""
        poller = poll()
        poller.register(self._descriptor, POLLIN)
        return bool(poller.poll(0))

    def hung_up(self) -> bool:
        """Return whether the server has ended or given up the request."""
        if not self._is_ours():
            return False
        poller = poll()
        poller.register(self._descriptor, 0)  # POLLHUP is always reported
        return any(events & POLLHUP for _, events in poller.poll(0))

    def send(self, event: "dict[str, Any]") -> None:
        """Send an event: that the task begins, or why it cannot."""
        data = json.dumps(event).encode() + b"\n"
        try:
            while data and self._is_ours():
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            pass  # the server has ended

    def is_allowed(self) -> bool:
        """Wait for the server's `go`; return False if the server closes the socket instead, or if it is lost."""
        try:
            return self._is_ours() and os.read(self._descriptor, 16) == GO
        except OSError:
            return False  # the module has changed the descriptor

    def close(self) -> None:
        """Close the socket, so that the task does not inherit it."""
        if self._is_ours():
            os.close(self._descriptor)

    def _is_ours(self) -> bool:
        return _identity(self._descriptor) == self._identity


def _identity(descriptor: int) -> "tuple[int, int] | None":
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
