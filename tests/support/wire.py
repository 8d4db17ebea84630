"""A server process and its pipes: JSON-RPC lines in both directions."""

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.answers import Message
from tests.support.schema import Frame, SchemaFault, parse_frame

__all__ = ["PATIENCE", "Wire"]

PATIENCE = 60.0
"""Seconds to wait for a message: a bound against hanging, not a measure of speed."""


class Wire:
    """A server process and the client's ends of its pipes.

    A thread reads, so that the time of a message is that of its arrival. The first fault on the wire fails the next
    wait.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | str,
        environ: Mapping[str, str],
        errors: Path,
        start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
        **popen: Any,
    ) -> None:
        """Start `command` by calling `start`; its standard error goes to the file `errors`; `popen` goes to `start`."""
        self.errors = errors
        with errors.open("ab") as stderr:
            self.began = time.monotonic()
            options: dict[str, Any] = {"stderr": stderr, "start_new_session": True} | popen
            self.process = start(
                command, cwd=cwd, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
            )
        assert self.process.stdin
        os.set_blocking(self.process.stdin.fileno(), False)
        self.messages: list[Message] = []
        self.fault = ""
        self._news = threading.Condition()
        self._writing = threading.Lock()
        self._reading = threading.Event()
        self._reading.set()
        self._nudged, self._nudge = os.pipe()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self.process.pid

    def state(self) -> str:
        """Return "running" or how the server ended."""
        code = self.process.poll()
        return "running" if code is None else f"ended with {code}"

    def stderr(self) -> str:
        """Return what the server wrote to its standard error."""
        return self.errors.read_text(errors="replace")

    # Receiving

    def received(self, message: Message) -> None:
        """Handle a message in the reader's thread, under the lock of `until`; raise SchemaFault to refuse it."""

    def until(self, ask: Callable[[], Any], within: float = PATIENCE, what: str = "") -> None:
        """Wait until `ask()` is true, asking again with each message; fail on a fault or after `within` seconds."""
        deadline = time.monotonic() + within
        with self._news:
            while not ask() and not self.fault and self._reader.is_alive() and time.monotonic() < deadline:
                self._news.wait(0.5)
            done = ask()
        assert not self.fault, f"{self.fault}\n{self.stderr()}"
        assert done, f"no {what or 'such message'} within {within} s (server {self.state()})\n{self.stderr()}"

    def pause(self) -> None:
        """Stop reading."""
        self._reading.clear()
        os.write(self._nudge, b"x")

    def resume(self) -> None:
        """Read again."""
        self._reading.set()

    def _read(self) -> None:
        part = bytearray()
        with suppress(OSError, ValueError):
            while chunk := self._chunk():
                head, newline, tail = chunk.rpartition(b"\n")
                if not newline:
                    part += tail
                    continue
                at = time.monotonic()
                for line in bytes(part + head).split(b"\n"):
                    self._take(line, at)
                part = bytearray(tail)
        if part:
            self._blame(f"the last line is not complete: {bytes(part[:300])!r}")
        with self._news:
            self._news.notify_all()

    def _chunk(self) -> bytes:
        """Return the next bytes. Wait in select, which `pause` and `vanish` can interrupt, not in read."""
        assert self.process.stdout
        while self._reading.wait():
            ready, _, _ = select.select([self.process.stdout.fileno(), self._nudged], [], [])
            if self._nudged in ready:
                os.read(self._nudged, 1)
            elif self._reading.is_set():
                break
        return os.read(self.process.stdout.fileno(), 1 << 16)

    def _take(self, line: bytes, at: float) -> None:
        try:
            message = Message(at, parse_frame(line))
            with self._news:
                self.received(message)
                self.messages.append(message)
                self._news.notify_all()
        except SchemaFault as fault:
            self._blame(str(fault))

    def _blame(self, fault: str) -> None:
        with self._news:
            self.fault = self.fault or fault
            self._news.notify_all()

    # Sending

    def send(self, frame: Frame | bytes) -> None:
        """Write one line; fail if the server does not take it in time."""
        line = frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b"\n"
        assert self.process.stdin
        with self._writing:
            while line:
                _, ready, _ = select.select([], [self.process.stdin], [], PATIENCE)
                assert ready, "the server does not read"
                line = line[os.write(self.process.stdin.fileno(), line[: 1 << 16]) :]

    # Closing

    def hang_up(self) -> None:
        """Close the server's stdin, as clients do first when they quit."""
        assert self.process.stdin
        self.process.stdin.close()

    def vanish(self) -> None:
        """Close both pipes, as happens when a client is killed."""
        self.pause()
        self.hang_up()
        assert self.process.stdout
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), self.process.stdout.fileno())  # the number stays taken

    def exit_code(self, within: float = PATIENCE) -> int:
        """Wait for the server to end; return its exit code, or minus the signal."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server does not end\n{self.stderr()}") from None

    def close(self) -> None:
        """Close stdin, kill a server that does not end, and fail after that or any earlier fault."""
        self.resume()
        with suppress(OSError):
            self.hang_up()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self._blame("the server did not end when its stdin was closed")
        self.release()
        assert not self.fault, f"{self.fault}\n{self.stderr()}"

    def release(self) -> None:
        """Close the pipes of a server that has ended; a second call does nothing."""
        assert self.process.stdin
        assert self.process.stdout
        if self.process.stdout.closed:
            return
        self._reader.join(10)
        with suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()
        os.close(self._nudge)
        os.close(self._nudged)
