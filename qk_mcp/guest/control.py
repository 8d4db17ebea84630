"""The socket on which a guest is asked for something, and may say what is in the way.

The project's module may close any descriptor, and open something else in its
place: what is no longer our socket is left alone.
"""

import json
import os
from select import POLLHUP, poll  # by name: libraries put others in their places
from typing import Any

__all__ = ["Control"]


class Control:
    """The guest's end of the socket."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = _identity(descriptor)

    def request(self) -> "dict[str, Any] | None":
        """Wait for the request, one line; None when nobody asks any more."""
        data = bytearray()
        while not data.endswith(b"\n"):
            part = os.read(self._descriptor, 1 << 16)
            if not part:
                return None
            data += part
        request: dict[str, Any] = json.loads(data)
        return None if self.hung_up() else request

    def hung_up(self) -> bool:
        """Say whether the server is gone, or has given the request up."""
        if not self._is_ours():
            return False
        looking = poll()
        looking.register(self._descriptor, 0)  # a hang-up is always told
        return any(events & POLLHUP for _, events in looking.poll(0))

    def tell(self, event: "dict[str, Any]") -> None:
        """Say what is in the way."""
        data = json.dumps(event).encode() + b"\n"
        try:
            while data and self._is_ours():
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            pass  # the server is gone

    def close(self) -> None:
        """Close the socket, so that the task holds nothing of ours."""
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
