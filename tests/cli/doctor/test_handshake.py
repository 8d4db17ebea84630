"""The conversation of doctor with a server: a bad one is reported in bounded time, and is ended."""

import os
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qk_mcp.cli.doctor.handshake import shake_hands
from qk_mcp.errors import ServerFailed
from tests.support.processes import gone

_SERVER = """
import json, os, signal, sys, time

open({pid!r}, "w").write(str(os.getpid()))

def answer(result):
    request = json.loads(sys.stdin.readline())
    if "id" not in request:
        request = json.loads(sys.stdin.readline())
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], **result}}), flush=True)

hello = {{"result": {{"serverInfo": {{"name": "mine", "version": "1"}}}}}}
tools = {{"result": {{"tools": [{{"name": "list_tasks"}}]}}}}
listing = {{"result": {{"structuredContent": {{"result": [{{"tasks": []}}]}}}}}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Callable[[str], list[str]]:
    """Write a server that does what a test needs."""

    def make(body: str) -> list[str]:
        script = tmp_path / "server.py"
        script.write_text(_SERVER.format(pid=str(tmp_path / "pid")) + textwrap.dedent(body))
        return [sys.executable, "-B", str(script)]

    return make


def test_a_server_that_answers(server: Callable[[str], list[str]]) -> None:
    body = """
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
        answer(hello); answer(tools); answer(listing)
        sys.stdin.read()
    """
    found = shake_hands(server(body), 5)
    assert found.tools == ("list_tasks",)
    assert found.entries == ({"tasks": []},)
    assert (found.hello.name, found.hello.version) == ("mine", "1")
    assert 0 < found.hello.seconds < 10
    assert found.end < 2


@pytest.mark.parametrize(
    ("body", "fault", "why"),
    [
        ("sys.exit('no such module')", "it ended before initialize was answered", "no such module"),
        ("print('hello'); answer(hello)", "it wrote something other than a message to stdout", "hello"),
        ("print([1]); answer(hello)", "it wrote something other than a message to stdout", "[1]"),
        ('answer({"error": {"code": 1, "message": "not now"}})', "it refused initialize", "not now"),
        ("answer(hello); answer(hello)", "its answer lacks 'tools'", ""),
        ("answer(hello); answer(tools); time.sleep(60)", "tools/call was not answered within 0.5 s", ""),
        (
            'answer(hello); answer(tools); answer({"result": {"isError": True, "content": [{"text": "broken"}]}})',
            "list_tasks failed",
            "broken",
        ),
    ],
)
def test_a_server_that_does_not(server: Callable[[str], list[str]], body: str, fault: str, why: str) -> None:
    with pytest.raises(ServerFailed) as caught:
        shake_hands(server(body), 0.5)
    assert caught.value.fault == fault
    assert why in caught.value.why


def test_a_server_that_will_not_end_is_killed(server: Callable[[str], list[str]], tmp_path: Path) -> None:
    body = """
        import subprocess
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(sys.argv[1], "w").write(str(subprocess.Popen(["sleep", "300"]).pid))
        answer(hello); answer(tools); answer(listing)
        while True:
            time.sleep(1)
    """
    began = time.monotonic()
    assert shake_hands([*server(body), str(tmp_path / "child")], 5).end > 2
    assert time.monotonic() - began < 15
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    gone(int((tmp_path / "child").read_text()))


def test_a_command_that_does_not_exist() -> None:
    with pytest.raises(ServerFailed) as caught:
        shake_hands(["/nowhere/python"], 1)
    assert caught.value.fault == "it could not be started: No such file or directory"
