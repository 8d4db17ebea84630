"""Clients that people use, as they are published: the TypeScript SDK's, and the MCP Inspector's command line."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import node
from tests.support.environment import QK_MCP, scrubbed
from tests.support.processes import gone, read_pid

SOURCE = """
    import os, sys, time
    from pathlib import Path
    from quickie import Arg, task

    @task(args=[Arg("--name", default="world")])
    def hello(name="world"):
        print("hello", name)
        print("greeted", file=sys.stderr)

    @task
    def slow():
        for number in range(8):
            print("step", number)
            time.sleep(0.5)

    @task(args=[Arg("name")])
    def hang(name):
        Path(f"{name}.pid").write_text(f"{os.getpid()}\\n")
        print("hanging")
        time.sleep(600)
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A clean environment in which the same Node is found, and what a network behind a proxy needs."""
    found = shutil.which("node") or ""
    environ = scrubbed(tmp_path / "home")
    return environ | {"PATH": os.pathsep.join([str(Path(found).parent), environ["PATH"]])}


@pytest.mark.long
def test_the_typescript_client_lists_runs_streams_times_out_and_cancels(
    project: Callable[..., Path], environ: dict[str, str], pytestconfig: pytest.Config
) -> None:
    sdk = node.installed(pytestconfig.cache.mkdir("node"), "sdk", {"@modelcontextprotocol/sdk": "^1.20"})
    root = project(SOURCE)
    script = Path(node.__file__).with_name("talk.mjs")
    command = ["node", str(script), str(root), *QK_MCP, "serve", "--project", f"demo:{root}"]
    result = subprocess.run(command, cwd=sdk, env=environ, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    seen: dict[str, Any] = json.loads(result.stdout)

    assert seen["errors"] == []
    assert seen["server"]["name"] == "qk-mcp"
    assert seen["tools"] == ["get_run", "list_tasks", "run_task", "stop_run"]
    assert [task["name"] for task in seen["listing"]["result"][0]["tasks"]] == ["hang", "hello", "slow"]
    assert seen["run"] == {"exit_code": 0, "stdout": "hello you\n", "stderr": "greeted\n"}
    assert sorted(seen["hello"]) == [["info", "hello you"], ["warning", "greeted"]]

    assert seen["slow"]["exit_code"] == 0
    assert seen["slowLogs"] >= 4, "lines arrive one by one, not at the end"
    assert len(seen["progress"]) >= 2
    messages = [report["message"] for report in seen["progress"]]
    assert all(message.startswith(("step ", "no output yet")) for message in messages), "the latter if it starts slowly"

    assert seen["timedOut"]["isError"]
    assert "hanging" in seen["timedOut"]["content"][0]["text"]
    assert "-32001" in seen["impatient"]
    assert "changed my mind" in seen["aborted"]
    assert (seen["started"]["state"], seen["started"]["exit_code"]) == ("running", None)
    assert seen["awaited"]["stdout"] == "hanging\n"
    assert (seen["stopped"]["state"], seen["stopped"]["exit_code"]) == ("stopped", None)
    assert seen["listed"]["runs"][0]["run_id"] == seen["started"]["run_id"]
    assert seen["after"]["exit_code"] == 0
    gone(*(read_pid(root / f"{name}.pid") for name in ("first", "second", "third", "fourth")))


@pytest.mark.long
def test_the_typescript_client_follows_the_tools_of_single_tasks(
    project: Callable[..., Path], environ: dict[str, str], pytestconfig: pytest.Config
) -> None:
    sdk = node.installed(pytestconfig.cache.mkdir("node"), "sdk", {"@modelcontextprotocol/sdk": "^1.20"})
    root = project(SOURCE)
    file = root / "_qk" / "__init__.py"
    changed = file.read_text() + "\n@task\ndef new(): pass\n"
    script = Path(node.__file__).with_name("follow.mjs")
    call = [str(file), changed, "hello", json.dumps({"name": "-x"})]
    server = [*QK_MCP, "serve", "--project", f"demo:{root}", "--tool", "hello", "--tool", "n*"]
    command = ["node", str(script), *call, *server]
    result = subprocess.run(command, cwd=sdk, env=environ, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    seen: dict[str, Any] = json.loads(result.stdout)
    assert seen["promised"] is True
    ours = ["get_run", "list_tasks", "run_task", "stop_run"]
    assert seen["before"] == sorted([*ours, "hello"])
    assert seen["answer"] == {"exit_code": 0, "stdout": "hello -x\n", "stderr": "greeted\n"}
    assert seen["after"] == sorted([*ours, "hello", "new"])


@pytest.fixture
def inspector(
    project: Callable[..., Path], environ: dict[str, str], pytestconfig: pytest.Config
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the Inspector's command line on a server of ours. It needs a newer Node, which the package `node` brings."""
    packages = {"@modelcontextprotocol/inspector": "^2.12", "node": "^22.19"}
    programs = node.installed(pytestconfig.cache.mkdir("node"), "inspector", packages) / "node_modules" / ".bin"
    newer = subprocess.run([programs / "node", "--version"], capture_output=True, text=True)
    if not newer.stdout.startswith("v22."):
        pytest.skip(f"the package `node` holds no Node for this machine: {newer.stderr[-200:]}")
    root = project(SOURCE)

    def inspect(*options: str) -> subprocess.CompletedProcess[str]:
        server = [*QK_MCP, "serve", "--project", f"demo:{root}"]
        command = [str(programs / "mcp-inspector"), "--cli", "--connect-timeout", "60000", *options, "--", *server]
        path = {"PATH": os.pathsep.join([str(programs), environ["PATH"]])}
        return subprocess.run(command, env=environ | path, cwd=root, capture_output=True, text=True, timeout=120)

    return inspect


@pytest.mark.long
def test_the_inspector_finds_no_fault_in_the_tools(inspector: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    result = inspector("--method", "tools/list", "--strict")
    assert (result.returncode, result.stderr) == (0, "")
    assert {tool["name"] for tool in json.loads(result.stdout)["tools"]} == {
        "list_tasks",
        "run_task",
        "get_run",
        "stop_run",
    }


@pytest.mark.long
def test_the_inspector_lists_and_runs(inspector: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    listed = inspector("--method", "tools/call", "--tool-name", "list_tasks")
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["structuredContent"]["result"][0]["project"] == "demo"
    ran = inspector(
        "--method", "tools/call", "--tool-name", "run_task",
        "--tool-arg", "task_name=hello", '--tool-arg', 'args=["--name", "you"]',
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["structuredContent"]["stdout"] == "hello you\n"
