"""A first conversation with a server of our own, over stdio, as a client would have it."""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any

from qk_mcp.errors import ServerFailed

__all__ = ["END_LIMIT", "START_LIMIT", "Handshake", "shake_hands"]

START_LIMIT = 30.0
"""Seconds until `initialize` must be answered: what the most patient clients allow."""

_REVISION = "2025-11-25"
END_LIMIT = 2.0
"""Seconds that a server has to end once its stdin is closed; clients wait as long before they kill it."""
_TOLD = 2_000
"""Characters of the server's standard error that a failure tells."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """What the server answered."""

    seconds: float
    """From its start until `initialize` was answered."""
    tools: tuple[str, ...]
    entries: tuple[Mapping[str, Any], ...]
    """What `list_tasks` returned: an entry a project."""
    end: float
    """Seconds that it took to end."""


def shake_hands(command: Sequence[str], patience: float) -> Handshake:
    """Start a server, ask it for its tools and its projects' tasks, end it.

    `patience` is how many seconds the listing may take. Raises ServerFailed.
    """
    with TemporaryFile() as errors:
        began = time.monotonic()
        try:
            server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        except OSError as error:
            raise ServerFailed(f"it could not be started: {error.strerror}", "") from None
        assert server.stdin
        assert server.stdout
        wire = _Wire(server.stdin, server.stdout)
        try:
            wire.ask("initialize", START_LIMIT, **_HELLO)
            started = time.monotonic() - began
            wire.say({"method": "notifications/initialized"})
            tools = wire.ask("tools/list", START_LIMIT)["tools"]
            listing = wire.ask("tools/call", patience, name="list_tasks", arguments={})
            if listing.get("isError"):
                raise ServerFailed("list_tasks failed", str(listing["content"][0]["text"]))
            names, entries = tuple(tool["name"] for tool in tools), tuple(listing["structuredContent"]["result"])
            return Handshake(started, names, entries, _end(server))
        except (KeyError, IndexError, TypeError) as error:
            raise ServerFailed(f"its answer lacks {error}", "") from None
        except ServerFailed as failure:
            _end(server)
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()[-_TOLD:]
            raise ServerFailed(failure.fault, failure.why or said) from None
        finally:
            _end(server)


_HELLO = {
    "protocolVersion": _REVISION,
    "capabilities": {},
    "clientInfo": {"name": "qk-mcp doctor", "version": "1"},
}


class _Wire:
    """The client's ends of a server's pipes."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._stdin = stdin
        self._stdout = stdout.fileno()
        self._received = bytearray()
        self._asked = 0

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message; small enough for the pipe to take it at once."""
        with suppress(BrokenPipeError):  # what is then missing is an answer
            self._stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._stdin.flush()

    def ask(self, method: str, seconds: float, **params: Any) -> Any:
        """Send a request and return its result. Raises ServerFailed."""
        self._asked += 1
        self.say({"id": self._asked, "method": method, "params": params})
        deadline = time.monotonic() + seconds
        while True:
            line = self._line(method, deadline, seconds)
            try:
                message = json.loads(line)
                answers = message.get("id") == self._asked and "method" not in message
            except (ValueError, AttributeError):
                told = line[:200].decode(errors="replace")
                raise ServerFailed("it wrote to stdout what is no message", told) from None
            if answers and "error" in message:
                raise ServerFailed(f"it refused {method}", str(message["error"].get("message")))
            if answers:
                return message["result"]

    def _line(self, method: str, deadline: float, seconds: float) -> bytes:
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._stdout], [], [], left)[0]:
                raise ServerFailed(f"{method} was not answered within {seconds:g} s", "")
            data = os.read(self._stdout, 1 << 16)
            if not data:
                raise ServerFailed(f"it ended before {method} was answered", "")
            self._received += data
        line, _, rest = self._received.partition(b"\n")
        self._received = rest
        return bytes(line)


def _end(server: subprocess.Popen[bytes]) -> float:
    """End the server as a client does: close its stdin, wait, terminate, wait, kill."""
    began = time.monotonic()
    assert server.stdin
    with suppress(OSError):
        server.stdin.close()
    for insist in (server.terminate, server.kill):
        try:
            server.wait(END_LIMIT)
            break
        except subprocess.TimeoutExpired:
            insist()
    server.wait()
    if server.stdout:
        server.stdout.close()
    return time.monotonic() - began
