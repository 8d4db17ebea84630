"""Starts servers that listen to HTTP, and speaks to them in raw HTTP."""

import http.client
import json
import os
import signal
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.environment import MARK, QK_MCP, scrubbed
from tests.support.processes import end, marked, until

__all__ = ["HttpServer", "serving_http"]

_ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server process and where it listens."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    errors: Path
    mark: str

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def credentials(self) -> dict[str, str]:
        """The header that lets a client in."""
        return {"Authorization": f"Bearer {self.token}"}

    def status_of(self, headers: Mapping[str, str], body: Any = _PING, method: str = "POST") -> int:
        """Send one request and return the status of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, "/mcp", json.dumps(body), _ACCEPT | dict(headers))
            return connection.getresponse().status
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def serving_http(home: Path, root: Path, *options: str, address: str = "0", **environ: str) -> Iterator[HttpServer]:
    """Serve the project in `root` (called `demo`) at a free port; at the end no process may be left."""
    mark = uuid.uuid4().hex
    errors = home / f"stderr-{mark}"
    command = [*QK_MCP, "serve", "--http", address, "--project", f"demo:{root}", *options]
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=home,
            env=scrubbed(home, **{MARK: mark} | environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )

    def told() -> str:
        assert process.poll() is None, errors.read_text()
        return next((line for line in errors.read_text().splitlines() if line.startswith("qk-mcp serves MCP")), "")

    try:
        line = until(told, what="the server's address")
        port = int(line.split("/mcp")[0].rpartition(":")[2]) if "http://127.0.0.1" in line else 0
        token_file = home / ".local" / "state" / "qk-mcp" / "token"
        token = token_file.read_text().strip() if token_file.exists() else ""
        yield HttpServer(process, port, token, errors, mark)
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        until(lambda: not marked(mark), 30, f"{marked(mark)} to end, which the server left")
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        end(marked(mark))
