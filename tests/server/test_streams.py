"""The client's descriptors: non-blocking ones, and silence after the end of stdin."""

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import LEGACY
from tests.support.environment import QK_MCP, scrubbed
from tests.support.processes import until

SOURCE = """
    import time
    from pathlib import Path
    from quickie import task

    @task
    def large():
        print("x" * 25_000)

    @task
    def slow():
        Path("begun").touch()
        print("so far", flush=True)
        time.sleep(600)
"""

_HELLO = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}


@contextmanager
def _started(home: Path, root: Path, stdin: Any, stdout: Any) -> Iterator[subprocess.Popen[bytes]]:
    home.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [*QK_MCP, "serve", "--project", f"demo:{root}"],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=scrubbed(home),
        cwd=home,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _request(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def _call(number: int, task: str) -> bytes:
    return _request(number, "tools/call", {"name": "run_task", "arguments": {"task_name": task}})


def _answer(stream: Any, number: int) -> dict[str, Any]:
    for line in stream:
        frame: dict[str, Any] = json.loads(line)
        if frame.get("id") == number:
            return frame
    raise AssertionError(f"no answer to {number}")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_non_blocking_descriptors_are_served(tmp_path: Path, project: Callable[..., Path], kind: str) -> None:
    root = project(SOURCE)
    if kind == "pipe":
        their_stdin, to_server = os.pipe()
        from_server, their_stdout = os.pipe()
    else:
        ours, theirs = socket.socketpair()
        their_stdin = their_stdout = theirs.detach()
        to_server = from_server = ours.detach()
    for descriptor in {their_stdin, their_stdout}:
        os.set_blocking(descriptor, False)
    with _started(tmp_path / "home", root, their_stdin, their_stdout):
        for descriptor in {their_stdin, their_stdout}:
            os.close(descriptor)
        with open(from_server, "rb", closefd=kind == "pipe") as answers, open(to_server, "wb", buffering=0) as requests:
            requests.write(_request(1, "initialize", _HELLO))
            assert "result" in _answer(answers, 1)
            requests.writelines(_call(number, "large") for number in range(2, 12))
            sizes = [len(_answer(answers, 2)["result"]["structuredContent"]["stdout"])]
            assert sizes == [25_001]
            requests.write(_request(99, "ping", {}))
            assert _answer(answers, 99)["result"] == {}


@pytest.mark.long
def test_nothing_is_written_after_the_end_of_stdin(tmp_path: Path, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    with _started(tmp_path / "home", root, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(_request(1, "initialize", _HELLO) + _call(2, "slow"))
        process.stdin.flush()
        _answer(process.stdout, 1)
        until(lambda: (root / "begun").exists(), 60, "the task to begin")
        for line in process.stdout:
            if b"so far" in line:
                break
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(60) == 0
