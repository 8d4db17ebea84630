"""A client's first conversation with a server over stdio."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from qk_mcp.errors import ServerFailed

__all__ = ["END_LIMIT", "Handshake", "Hello", "greet", "read_only_tools", "shake_hands"]

_START_LIMIT = 30.0
"""Seconds for the answer to `initialize`: as many as the most patient clients allow."""

_REVISION = "2025-11-25"
END_LIMIT = 2.0
"""Seconds for a server to end after its stdin is closed; clients wait as long before they kill it."""
_MAX_STDERR = 2_000
"""Characters of the server's standard error in a failure."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The answer of a server to `initialize`."""

    name: str
    version: str
    seconds: float
    """From the start of the server to its answer."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """The answers of a server."""

    hello: Hello
    tools: tuple[str, ...]
    entries: tuple[Mapping[str, Any], ...]
    """The answer of `list_tasks`: one entry per project."""
    end: float
    """Seconds that the server took to end."""


def greet(command: Sequence[str], *, cwd: Path, environ: Mapping[str, str]) -> Hello:
    """Start any MCP server, initialize it and end it. Raises ServerFailed."""
    with _conversation(command, cwd, environ) as (wire, _):
        return _initialize(wire)


def shake_hands(command: Sequence[str], patience: float, *, listing: bool = True) -> Handshake:
    """Start a server, ask it for its tools and its projects' tasks, and end it.

    The listing may take `patience` seconds; without `listing` it is not asked for. Raises ServerFailed.
    """
    with _conversation(command) as (wire, server):
        hello = _initialize(wire)
        wire.send({"method": "notifications/initialized"})
        tools = wire.ask("tools/list", _START_LIMIT)["tools"]
        entries = _list_tasks(wire, patience) if listing else ()
        return Handshake(hello, tuple(tool["name"] for tool in tools), entries, _end(server))


def read_only_tools(command: Sequence[str]) -> list[str]:
    """Start a server, and return the names of its tools that change nothing, as it says. Raises ServerFailed."""
    with _conversation(command) as (wire, _):
        _initialize(wire)
        wire.send({"method": "notifications/initialized"})
        tools = wire.ask("tools/list", _START_LIMIT)["tools"]
        return [str(tool["name"]) for tool in tools if tool.get("annotations", {}).get("readOnlyHint") is True]


@contextmanager
def _conversation(
    command: Sequence[str], cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[tuple["_Wire", subprocess.Popen[bytes]]]:
    with TemporaryFile() as errors:
        began = time.monotonic()
        try:
            server = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=cwd,
                env=environ,
                start_new_session=True,  # so that its children can be ended with it
            )
        except OSError as error:
            raise ServerFailed(f"it could not be started: {error.strerror}", "") from None
        assert server.stdin
        assert server.stdout
        try:
            yield _Wire(server.stdin, server.stdout, began), server
        except (KeyError, IndexError, TypeError) as error:
            raise ServerFailed(f"its answer lacks {error}", "") from None
        except ServerFailed as failure:
            _end(server)
            errors.seek(0)
            stderr = errors.read().decode(errors="replace").strip()[-_MAX_STDERR:]
            raise ServerFailed(failure.fault, failure.why or stderr) from None
        finally:
            _end(server)


def _initialize(wire: "_Wire") -> Hello:
    info = wire.ask("initialize", _START_LIMIT, **_HELLO)["serverInfo"]
    return Hello(str(info["name"]), str(info["version"]), time.monotonic() - wire.began)


def _list_tasks(wire: "_Wire", patience: float) -> tuple[Mapping[str, Any], ...]:
    listing = wire.ask("tools/call", patience, name="list_tasks", arguments={})
    if listing.get("isError"):
        raise ServerFailed("list_tasks failed", str(listing["content"][0]["text"]))
    return tuple(listing["structuredContent"]["result"])


_HELLO = {
    "protocolVersion": _REVISION,
    "capabilities": {},
    "clientInfo": {"name": "qk-mcp doctor", "version": "1"},
}


class _Wire:
    """Sends messages to a server and receives its answers."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], began: float) -> None:
        self.began = began
        """When the server was started, in seconds of the monotonic clock."""
        self._stdin = stdin
        self._stdout = stdout.fileno()
        self._received = bytearray()
        self._asked = 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message, which must be smaller than a pipe."""
        with suppress(BrokenPipeError):  # the missing answer is the failure
            self._stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._stdin.flush()

    def ask(self, method: str, seconds: float, **params: Any) -> Any:
        """Send a request and return its result. Raises ServerFailed."""
        self._asked += 1
        self.send({"id": self._asked, "method": method, "params": params})
        deadline = time.monotonic() + seconds
        while True:
            line = self._line(method, deadline, seconds)
            try:
                message = json.loads(line)
                answers = message.get("id") == self._asked and "method" not in message
            except (ValueError, AttributeError):
                text = line[:200].decode(errors="replace")
                raise ServerFailed("it wrote something other than a message to stdout", text) from None
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
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            server.wait(END_LIMIT)
            break
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):  # macOS raises the second for a zombie
                os.killpg(server.pid, number)
    server.wait()
    if server.stdout:
        server.stdout.close()
    return time.monotonic() - began
