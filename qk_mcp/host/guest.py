"""Starts guests: processes of a project's own interpreter that describe or run its tasks.

A guest comes with two sockets and three pipes. `control` carries one request
and what the guest says of it; over `supervision` the guest's supervisor tells
how the task's process ended and what it left (see `qk_mcp/guest/__main__.py`).
"""

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

from qk_mcp.errors import GuestFailed
from qk_mcp.interpreters.activation import MARK, environment
from qk_mcp.interpreters.search import Interpreter, find
from qk_mcp.projects.project import Location, Project, locate

__all__ = ["Guest", "Plan", "end_starts", "launch", "plan", "start"]

_MAIN = Path(__file__).parents[1] / "guest" / "__main__.py"
_LATE = ("PYTHONUNBUFFERED",)
"""Variables for a task's children that must not change the guest's own Python: its stdout stays buffered by line."""
_WHOLE = 5.0
"""Seconds that the end of a supervisor may take before it is killed; it needs one at most."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a guest of a project is started with; guests of equal plans cannot be told apart."""

    project: Project
    location: Location
    interpreter: Interpreter
    variables: Mapping[str, str]
    root: tuple[int, int]
    """Device and inode of the root, which may be replaced by another directory."""


class Guest:
    """A started guest; an event loop hears of it once `listen` was called there.

    `settled` is set once its task has begun or cannot begin any more, `ended` once
    the task's process has ended, `alone` once nothing of its tree is left, `gone`
    once the supervisor has ended; the later ones imply the earlier. `exit_code` is
    None when nobody saw the end.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        mark: str,
        plan: Plan,
        control: socket.socket,
        supervision: socket.socket,
        pipes: tuple[int, int, int],
    ) -> None:
        self.process = process
        self.mark = mark
        self.plan = plan
        self.leader: int | None = None
        self.adopting = False
        self.warm = False
        """Whether it has waited, so that it must see whether what it has imported is still the same."""
        self.began = False
        self.settled = asyncio.Event()
        self.exit_code: int | None = None
        self.left: tuple[int, ...] = ()
        self.ended = asyncio.Event()
        self.alone = asyncio.Event()
        self.gone = asyncio.Event()
        self.stdin, self.stdout, self.stderr = pipes
        self._control = control
        self._supervision = supervision
        self._said = bytearray()

    def listen(self) -> Self:
        """Belong to the running event loop from now on."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._supervision, self._hear)
        return self

    def ask_now(self, request: Mapping[str, Any]) -> None:
        """Send a request that is far smaller than a socket's buffer, before `listen`."""
        try:
            self._control.sendall(self._line(request))
        except (BrokenPipeError, ConnectionResetError):
            return

    async def ask(self, request: Mapping[str, Any]) -> None:
        """Send the one request; a guest that is gone already does not mind."""
        try:
            await self._loop.sock_sendall(self._control, self._line(request))
        except (BrokenPipeError, ConnectionResetError):
            return

    def _line(self, request: Mapping[str, Any]) -> bytes:
        late = {name: self.plan.variables[name] for name in _LATE if name in self.plan.variables}
        return json.dumps({**request, "environ": late}).encode() + b"\n"

    async def answer(self) -> dict[str, Any] | None:
        """Wait for the line that answers the request; None when the guest ended without a sensible one."""
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
            said = json.loads(data)
        except ValueError:
            return None  # written by the project's module, which may write to any descriptor
        return said if isinstance(said, dict) else None

    def announce_stop(self) -> None:
        """Have no task begin from now on, and the supervisor end the whole tree should this process die."""
        with suppress(OSError):  # it was closed by the guest
            self._control.shutdown(socket.SHUT_RDWR)
        self._tell_supervisor(b"s")

    def end_tree(self) -> None:
        """Have the supervisor kill the whole tree at once; `alone` tells when that is done."""
        with suppress(OSError):
            self.process.send_signal(signal.SIGCONT)  # a task may have stopped it
        self._tell_supervisor(b"k")
        self.end_start()

    def end_start(self) -> None:
        """Kill Python if it is still starting, so that there is no supervisor yet to hear anything."""
        with suppress(OSError):
            said = self._supervision.recv(1, socket.MSG_PEEK)
            if said:
                return
        if self.leader is None and self.process.poll() is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def _tell_supervisor(self, word: bytes) -> None:
        try:
            self._supervision.send(word)
        except OSError:
            return  # it is gone: so is the tree

    def close_pipes(self) -> None:
        """Close the pipes of a guest that was never asked for anything."""
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.close(descriptor)

    async def release(self) -> None:
        """Reap the supervisor. What an ended task left behind lives on; a tree whose task has not ended ends."""
        self._loop.remove_reader(self._supervision)
        self._control.close()
        self._supervision.close()
        waited = 0.0
        while self.process.poll() is None:
            if waited > _WHOLE:
                self.process.kill()
            await asyncio.sleep(0.001 if waited < 0.05 else 0.02)
            waited += 0.001 if waited < 0.05 else 0.02
        self.gone.set()

    def _hear(self) -> None:
        try:
            part = self._supervision.recv(4096)
        except ConnectionResetError:
            part = b""
        self._said += part
        *lines, rest = self._said.split(b"\n")
        self._said = bytearray(rest)
        for line in lines:
            word, *values = line.decode().split()
            match word:
                case "child":
                    self.leader, self.adopting = int(values[0]), values[1] == "1"
                case "began":
                    self.began = True
                    self.settled.set()
                case "exit":
                    self.exit_code = int(values[0])
                    self._end()
                case "left":
                    self.left = tuple(int(value) for value in values)
                case "alone":
                    self.left = ()
                    self.alone.set()
        if not part:
            self._loop.remove_reader(self._supervision)
            self._end()
            self.alone.set()
            self.gone.set()

    def _end(self) -> None:
        self.ended.set()
        self.settled.set()
        with suppress(OSError):  # it was closed by the guest
            self._control.shutdown(socket.SHUT_RD)  # what the task forked may hold the other end open


_guests: "WeakSet[Guest]" = WeakSet()
"""All that were started."""


def plan(project: Project, environ: Mapping[str, str]) -> Plan:
    """Find where the project's tasks lie, its interpreter, and the environment of its tasks.

    Looks at files only. Raises `QkMcpError` when there are no tasks, or no usable interpreter.
    """
    location = locate(project)
    interpreter = find(project, location, environ)
    status = location.root.stat()
    return Plan(
        project, location, interpreter, environment(interpreter, project, environ), (status.st_dev, status.st_ino)
    )


def launch(plan: Plan, stdin: int | None = None) -> Guest:
    """Start a guest that the running event loop hears of; otherwise as `start`."""
    return start(plan, stdin).listen()


def start(plan: Plan, stdin: int | None = None) -> Guest:
    """Start a guest in the project's root; raise `GuestFailed` when that cannot be done.

    With `stdin`, that descriptor is its standard input, and nobody reads from the guest's own pipe.
    """
    interpreter, alias = plan.interpreter, plan.project.alias
    mark = MARK + secrets.token_hex(8)
    variables = {name: value for name, value in plan.variables.items() if name not in _LATE}
    ours, theirs = [], []
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(2):
            here, there = socket.socketpair()
            here.setblocking(False)
            ours.append(here)
            theirs.append(there)
        for _ in range(3):
            pipes.append(os.pipe())
    except OSError as error:
        _close(ours + theirs)
        for descriptor in chain(*pipes):
            os.close(descriptor)
        raise GuestFailed(alias, str(interpreter.python), error) from error
    reads, writes = [pair[0] for pair in pipes], [pair[1] for pair in pipes]
    outer = (writes[0], reads[1], reads[2])
    inner = (reads[0], writes[1], writes[2])
    for descriptor in outer:
        os.set_blocking(descriptor, False)
    handed = [there.fileno() for there in theirs]
    try:
        process = subprocess.Popen(
            [interpreter.python, "-P", _MAIN, *map(str, handed)],
            stdin=inner[0] if stdin is None else stdin,
            stdout=inner[1],
            stderr=inner[2],
            cwd=plan.location.root,
            env={**variables, mark: "1"},
            start_new_session=True,
            pass_fds=handed,
        )
    except (OSError, ValueError) as error:
        _close(ours)
        for descriptor in outer:
            os.close(descriptor)
        raise GuestFailed(alias, str(interpreter.python), error) from error
    finally:
        _close(theirs)
        for descriptor in inner:
            os.close(descriptor)
    guest = Guest(process, mark, plan, ours[0], ours[1], outer)
    _guests.add(guest)
    return guest


def end_starts() -> None:
    """Kill every Python that is still starting: once this process has ended, nobody would."""
    for guest in list(_guests):
        guest.end_start()


def _close(sockets: list[socket.socket]) -> None:
    for end in sockets:
        end.close()
