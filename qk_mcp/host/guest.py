"""The server's side of a guest: a process of a project's interpreter that describes or runs its tasks.

A guest has two sockets and three pipes. The control socket carries one request
and the guest's answer to it. On the supervision socket, the guest's supervisor
reports how the task's process ended and what it left running; the protocol is
described in `qk_mcp/guest/supervisor.py`.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from qk_mcp.guest.control import GO
from qk_mcp.guest.supervisor import NO_FORK
from qk_mcp.interpreters.plan import Plan

__all__ = ["CHILD_VARIABLES", "Guest"]

CHILD_VARIABLES = ("PYTHONUNBUFFERED",)
"""Variables that the guest sets after its start, for a task's children only: its own stdout stays line-buffered."""
_EXIT_LIMIT = 5.0
"""Seconds after which a supervisor that does not exit is killed; it needs at most one."""


class Guest:
    """A started guest. Call `listen()` in the event loop that receives its events.

    The events, each of which implies those before it: `settled` (the task has begun or can no longer begin), `ended`
    (the task's process has ended), `alone` (no process of its tree is left), `gone` (the supervisor has exited).
    `exit_code` stays None if the supervisor was killed before it could report it.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        mark: str,
        plan: Plan,
        control: socket.socket,
        supervision: socket.socket,
        pipes: tuple[int, int, int],
        *,
        inherits_stdin: bool,
        started: int,
    ) -> None:
        self.process = process
        self.mark = mark
        self.plan = plan
        self.leader: int | None = None
        self.adopting = False
        self.warm = False
        """Whether it waited in the pool, so that its imports may be out of date."""
        self.stop_asked = False
        """Whether a person wants the task to be stopped."""
        self.on_stop: Callable[[], object] | None = None
        """Called when a person wants that."""
        self.cgroup: str | None = None
        """The directory of the control group that contains the tree, if there is one."""
        self.began = False
        self.settled = asyncio.Event()
        self.exit_code: int | None = None
        self.left: tuple[int, ...] = ()
        self.ended = asyncio.Event()
        self.alone = asyncio.Event()
        self.gone = asyncio.Event()
        self.stdin, self.stdout, self.stderr = pipes
        self.redacted: set[str] = set()
        """The names of the secrets that were replaced in what the run has given away so far."""
        self.inherits_stdin = inherits_stdin
        """Whether it reads a descriptor that it inherited, and not the pipe `stdin`."""
        self._started = started
        self._placed = asyncio.Event()
        self._listed = asyncio.Event()
        self._control = control
        self._supervision = supervision
        self._unread = bytearray()

    @property
    def could_not_fork(self) -> bool:
        """Whether it ended at once, because the limit of processes is reached."""
        return self.leader is None and self.process.returncode == NO_FORK

    def listen(self) -> Self:
        """Receive the supervisor's events in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._supervision, self.receive_events)
        return self

    def ask_now(self, request: Mapping[str, Any]) -> None:
        """Send a request that fits the socket's buffer, before `listen`."""
        try:
            self._control.sendall(self._line(request))
        except (BrokenPipeError, ConnectionResetError):
            return

    async def ask(self, request: Mapping[str, Any]) -> None:
        """Send the one request; `answer` and the events show whether the guest had already ended."""
        await self._placed.wait()
        try:
            await self._loop.sock_sendall(self._control, self._line(request))
        except (BrokenPipeError, ConnectionResetError):
            return

    def _line(self, request: Mapping[str, Any]) -> bytes:
        variables = {name: self.plan.variables[name] for name in CHILD_VARIABLES if name in self.plan.variables}
        return json.dumps({**request, "environ": variables, "started": self._started}).encode() + b"\n"

    async def allow_start(self) -> None:
        """Let the task start after the guest has sent its names."""
        with suppress(BrokenPipeError, ConnectionResetError):  # `answer` and the events show that it has ended
            await self._loop.sock_sendall(self._control, GO)

    async def answer(self) -> dict[str, Any] | None:
        """Wait for the guest's next answer; return None if it closes the socket without one."""
        data = bytearray()
        while not data.endswith(b"\n"):
            try:
                part = await self._loop.sock_recv(self._control, 1 << 16)
            except ConnectionResetError:
                return None
            if not part:
                return None
            data += part
        try:
            answer = json.loads(data)
        except ValueError:
            return None  # the project's module wrote to the descriptor
        if not isinstance(answer, dict):
            return None
        if answer.get("event") == "began":
            self._begin()
        return answer

    async def list_left(self) -> None:
        """Ask the supervisor again what is left, now that the task's process has ended."""
        self._listed.clear()
        self._command(b"l")
        await self._listed.wait()

    def announce_stop(self) -> None:
        """Keep the task from starting, and make the supervisor kill the whole tree if this process ends."""
        with suppress(OSError):  # the guest has closed it
            self._control.shutdown(socket.SHUT_RDWR)
        self._command(b"s")

    def end_tree(self) -> None:
        """Make the supervisor kill the whole tree now; it sets `alone` when that is done."""
        with suppress(OSError):
            self.process.send_signal(signal.SIGCONT)  # a task may have stopped the supervisor
        self._command(b"k")
        self.end_start()

    def end_start(self) -> None:
        """Kill the interpreter if it is still starting, when there is no supervisor yet to obey commands."""
        with suppress(OSError):
            if self._supervision.recv(1, socket.MSG_PEEK):
                return
        if self.leader is None and self.process.poll() is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def share_lock(self, descriptor: int) -> None:
        """Give the supervisor a copy of a lock's descriptor, which it holds until it exits."""
        with suppress(OSError):  # the supervisor was killed; the run is lost
            socket.send_fds(self._supervision, [b"h"], [descriptor])

    def _command(self, command: bytes) -> None:
        try:
            self._supervision.send(command)
        except OSError:
            return  # the supervisor has exited, after its tree

    def close_pipes(self) -> None:
        """Close the pipes of a guest that never got a request."""
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.close(descriptor)

    async def release(self) -> None:
        """Close the sockets and reap the supervisor, which kills the tree unless the task has ended by itself."""
        self._loop.remove_reader(self._supervision)
        self._control.close()
        self._supervision.close()
        waited = 0.0
        while self.process.poll() is None:
            if waited > _EXIT_LIMIT:
                self.process.kill()
            await asyncio.sleep(0.001 if waited < 0.05 else 0.02)
            waited += 0.001 if waited < 0.05 else 0.02
        self.gone.set()

    def receive_events(self) -> None:
        """Receive the events that have arrived. The event loop calls this too."""
        try:
            part = self._supervision.recv(4096)
        except BlockingIOError:
            return
        except ConnectionResetError:
            part = b""
        self._unread += part
        *lines, rest = self._unread.split(b"\n")
        self._unread = bytearray(rest)
        for line in lines:
            word, *values = line.decode().split()
            match word:
                case "child":
                    self.leader, self.adopting = int(values[0]), values[1] == "1"
                case "placed":
                    self.cgroup = " ".join(values) or None
                    self._placed.set()
                case "began":
                    self._begin()
                case "exit":
                    self.exit_code = int(values[0])
                    self._end()
                case "left":
                    self.left = tuple(int(value) for value in values)
                    self._listed.set()
                case "stop":
                    self.stop_asked = True
                    if self.on_stop is not None:
                        self.on_stop()
                case "alone":
                    self.left = ()
                    self.alone.set()
        if not part:
            self._loop.remove_reader(self._supervision)
            self._end()
            for event in (self.alone, self.gone, self._listed):
                event.set()

    def _begin(self) -> None:
        self.began = True
        self.settled.set()

    def _end(self) -> None:
        for event in (self.ended, self.settled, self._placed):
            event.set()
        with suppress(OSError):  # the guest has closed it
            self._control.shutdown(socket.SHUT_RD)  # a child of the task may keep the other end open
