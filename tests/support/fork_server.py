"""Starts `qk-mcp` by forking a process that has imported it, which saves a second for each server.

The result is a process of its own, with its own environment, directory and streams. Only what an interpreter does
before it runs a program is missing. A test whose environment concerns that (`PYTHONPATH`, the locale), or that starts
the program in a way of its own, gets a new interpreter. So does every test with `TESTS_COLD=1` and under coverage.py,
hence in `.ci/run` on the newest Python.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from tests.support.environment import QK_MCP

__all__ = ["start_program"]

_ROOT = Path(__file__).parents[2]
_COLD = "TESTS_COLD" in os.environ or "COVERAGE_PROCESS_START" in os.environ or not hasattr(socket, "send_fds")
_AT_START = ("PYTHON", "LC_", "LANG", "FASTMCP", "COVERAGE")
"""Beginnings of the variables that are read when an interpreter starts or a library is imported."""
_STREAMS = {"stdin", "stdout", "stderr", "start_new_session"}
_LENGTH = 8


def start_program(
    command: Sequence[str], *, cwd: Path | str, env: Mapping[str, str], **options: Any
) -> subprocess.Popen[bytes]:
    """Start `command` like Popen, from the fork server if it is `qk-mcp` in an ordinary environment."""
    ordinary = {name: value for name, value in env.items() if not name.startswith(_AT_START)}
    special = [name for name in env.keys() - ordinary.keys() if env[name] != os.environ.get(name)]
    forks = [*command[: len(QK_MCP)]] == QK_MCP and options.keys() <= _STREAMS and os.path.isdir(cwd)
    start = _Forked if forks and not special and not _COLD else subprocess.Popen
    return start([*command], cwd=cwd, env=dict(env), **options)


class _Forked(subprocess.Popen[bytes]):
    """A process that the fork server starts instead of this one. Its exit status comes through a pipe.

    It replaces the steps of CPython's Popen that fork and that ask for the exit status.
    """

    _status: int

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        _, _, _, _, cwd, env, _, _, _, *pipes, _, _, _, _, _, new_session, _ = rest
        self._status, report = os.pipe()
        request = {"args": args[len(QK_MCP) :], "cwd": str(cwd), "env": env, "new_session": new_session}
        stdin, _, _, stdout, _, stderr = pipes
        streams = [own if given < 0 else given for own, given in enumerate((stdin, stdout, stderr))]
        _fork_server().ask(request, [*streams, report])
        os.close(report)
        self.pid = int(_line(self._status))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = int(_line(self._status))
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        lock: threading.Lock = self._waitpid_lock  # type: ignore[attr-defined]
        if self.returncode is None and lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                lock.release()
        return self.returncode


class _ForkServer:
    """The client's end of the fork server, which ends when this process does."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        environ = {**os.environ, "FASTMCP_ENV_FILE": os.devnull, "FASTMCP_LOG_ENABLED": "false"}
        null = subprocess.DEVNULL
        command = [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())]
        self.process = subprocess.Popen(
            command, cwd=_ROOT, env=environ, stdin=null, stdout=null, stderr=null, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        assert self._control.recv(1) == b"!", f"the fork server does not start; try {' '.join(command[:3])} 0"

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Send a request with the standard streams of the new process, and the pipe for its id and exit status."""
        data = json.dumps(request).encode()
        socket.send_fds(self._control, [f"{len(data):{_LENGTH}}".encode()], descriptors)
        self._control.sendall(data)


@cache
def _fork_server() -> _ForkServer:
    return _ForkServer()


def _line(descriptor: int) -> str:
    text = b""
    while not text.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        text += byte
    return text.decode() or "-1"


# The other end


def _serve(control: socket.socket) -> NoReturn:
    import gc

    _import_program()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.sendall(b"!")
    while True:
        head, descriptors, _, _ = socket.recv_fds(control, _LENGTH, 4)
        if not head:
            sys.exit()
        length, data = int(head), b""
        while len(data) < length:
            data += control.recv(length - len(data))
        if os.fork() == 0:
            control.close()
            _keep(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _import_program() -> None:
    from importlib import import_module
    from pkgutil import walk_packages

    from pydantic import BaseModel

    import qk_mcp

    BaseModel.model_config["defer_build"] = True  # as the server does
    import_module("anyio._backends._asyncio")
    for module in walk_packages(qk_mcp.__path__, "qk_mcp."):
        if not module.name.startswith("qk_mcp.guest"):
            import_module(module.name)


def _keep(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Fork the program, and report its process id, then its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        _run(request, descriptors)
    *streams, report = descriptors
    for descriptor in streams:
        os.close(descriptor)
    os.write(report, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # nobody waits for the program
        os.write(report, f"{status}\n".encode())
    os._exit(0)


def _run(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    if request["new_session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors) + 100)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    import qk_mcp.__main__

    sys.argv[:] = [qk_mcp.__main__.__file__, *request["args"]]
    sys.path[0] = request["cwd"]  # as `python -m` does
    qk_mcp.__main__.main()
    raise AssertionError("main exits")


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
