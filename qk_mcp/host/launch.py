"""Starts guests, in the project's root and with the project's interpreter and environment."""

import errno
import os
import secrets
import socket
import subprocess
import time
from itertools import chain
from pathlib import Path
from weakref import WeakSet

from qk_mcp.errors import GuestFailed, OutOfProcesses, ServerOutdated
from qk_mcp.host.guest import CHILD_VARIABLES, Guest
from qk_mcp.interpreters.activation import MARK
from qk_mcp.interpreters.plan import Plan

__all__ = ["is_guest", "kill_starting_guests", "start_guest"]

_MAIN = Path(__file__).parents[1] / "guest" / "__main__.py"

_SHELL_STATE = ("OLDPWD", "_")
"""Variables that a shell keeps about itself; they name the server's directories and program."""

_guests: "WeakSet[Guest]" = WeakSet()
"""All guests that this process has started."""


def start_guest(plan: Plan, stdin: int | None = None) -> Guest:
    """Start a guest; raise `GuestFailed`, `OutOfProcesses` or `ServerOutdated` if that is impossible.

    With `stdin`, that descriptor is its standard input, and nothing reads from the guest's stdin pipe.
    """
    if not _MAIN.is_file():
        raise ServerOutdated(str(_MAIN))
    interpreter, alias = plan.interpreter, plan.project.alias
    mark = MARK + secrets.token_hex(8)
    ours, theirs = [], []
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(2):
            our_end, their_end = socket.socketpair()
            our_end.setblocking(False)
            ours.append(our_end)
            theirs.append(their_end)
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
    descriptors = [end.fileno() for end in theirs]
    started = time.time_ns()
    try:
        process = subprocess.Popen(
            [interpreter.python, "-P", _MAIN, *map(str, descriptors), mark],
            stdin=inner[0] if stdin is None else stdin,
            stdout=inner[1],
            stderr=inner[2],
            cwd=plan.location.root,
            env={**_variables(plan), mark: "1"},
            start_new_session=True,
            pass_fds=descriptors,
        )
    except (OSError, ValueError) as error:
        _close(ours)
        for descriptor in outer:
            os.close(descriptor)
        if isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.ENOMEM):
            raise OutOfProcesses(error.strerror or "fork failed", alias) from error
        raise GuestFailed(alias, str(interpreter.python), error) from error
    finally:
        _close(theirs)
        for descriptor in inner:
            os.close(descriptor)
    guest = Guest(process, mark, plan, ours[0], ours[1], outer, inherits_stdin=stdin is not None, started=started)
    _guests.add(guest)
    return guest


def _variables(plan: Plan) -> dict[str, str]:
    """Return the plan's variables with PWD as a shell in the root has it; `make` and scripts rely on it."""
    left_out = {*CHILD_VARIABLES, *_SHELL_STATE} - {name for name in _SHELL_STATE if name in plan.project.env}
    variables = {name: value for name, value in plan.variables.items() if name not in left_out}
    if "PWD" not in plan.project.env:
        variables["PWD"] = str(plan.location.root)
    return variables


def kill_starting_guests() -> None:
    """Kill each interpreter that is still starting: it has no supervisor yet that would notice this process's end."""
    for guest in list(_guests):
        guest.end_start()


def is_guest(pid: int) -> bool:
    """Return whether `pid` is that of a guest of this process, which reaps it itself."""
    return any(guest.process.pid == pid and guest.process.returncode is None for guest in list(_guests))


def _close(sockets: list[socket.socket]) -> None:
    for end in sockets:
        end.close()
