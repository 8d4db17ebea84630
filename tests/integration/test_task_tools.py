"""Tasks as tools of their own: listed, called, bounded, and followed when the project's files change."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp_types import ToolListChangedNotification

from tests.conftest import Serve
from tests.support.client import LEGACY, MODERN, Client
from tests.support.environment import QK_MCP, scrubbed
from tests.support.http import HttpServer, serving_http
from tests.support.person import YES, Asking
from tests.support.projects import make_project

SOURCE = """
    import sys
    from quickie import Arg, task

    @task(aliases=["check"], args=[
        Arg("paths", nargs="*", help="What to test"),
        Arg("--fast", action="store_true"),
        Arg("--jobs", type=int, default=2, help="How many at once"),
        Arg("--mode", choices=["unit", "all"], required=True),
    ])
    def test(**values):
        "Run the tests."
        print(values, sys.stdin.read())

    @task
    def lint():
        raise SystemExit(3)

    @task
    def deploy():
        print("deployed")
"""

OURS = {"list_tasks", "run_task", "get_run", "stop_run"}

MORE = (
    SOURCE
    + """
    @task
    def types():
        print("typed")
"""
)


def tools_of(client: Client) -> dict[str, Any]:
    """Return the tools for tasks, by name."""
    tools = client.request("tools/list").wait().result["tools"]
    return {tool["name"]: tool for tool in tools if tool["name"] not in OURS}


def configured(project: Callable[..., Path], tmp_path: Path, table: str, source: str = SOURCE) -> str:
    """Write a project and a config for it, and return the config's path."""
    config = tmp_path / "config.toml"
    config.write_text(f'[projects.demo]\npath = "{project(source)}"\n{table}\n')
    return str(config)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_task_is_a_tool_that_answers_as_run_task(
    serve: Serve, project: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    config = configured(project, tmp_path, 'tools = ["check", "lint"]\nread_only = ["lint"]')
    client = serve(None, "--config", config, version=version)
    tools = tools_of(client)
    assert set(tools) == {"test", "lint"}
    test, lint = tools["test"], tools["lint"]
    assert (test["annotations"]["readOnlyHint"], lint["annotations"]["readOnlyHint"]) == (False, True)
    assert "Run the tests." in test["description"]
    schema = test["inputSchema"]
    Draft202012Validator.check_schema(schema)
    assert schema["required"] == ["mode"]
    assert schema["properties"]["jobs"]["default"] == 2
    assert schema["properties"]["mode"]["enum"] == ["unit", "all"]
    assert set(schema["properties"]) >= {"paths", "fast", "jobs", "mode", "stdin", "timeout"}

    answer = client.call("test", paths=["-x", "a b"], fast=True, mode="all", jobs=None, stdin="text").data
    assert answer["stdout"] == "{'paths': ['-x', 'a b'], 'fast': True, 'jobs': 2, 'mode': 'all'} text\n"
    assert client.call("lint").data["exit_code"] == 3
    assert client.call("lint").data == client.run("lint").data
    assert "mode" in client.call("test").refusal
    assert "no such parameter" in client.call("lint", project="other").refusal
    assert client.call("test", mode="none").data["exit_code"] == 2


def test_a_tool_runs_in_the_background_if_the_server_does(serve: Serve, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    client = serve(root, "--tool", "deploy")
    started = client.call("deploy", background=True).data
    assert client.call("get_run", run_id=started["run_id"], wait=30).data["stdout"] == "deployed\n"
    without = serve(root, "--tool", "deploy", "--no-background")
    assert "background" not in tools_of(without)["deploy"]["inputSchema"]["properties"]
    assert "no such parameter" in without.call("deploy", background=True).refusal


def test_without_globs_there_are_no_task_tools_and_no_promise_of_changes(serve: Serve) -> None:
    client = serve(SOURCE, version="")
    assert not client.open(LEGACY)["capabilities"]["tools"].get("listChanged")
    assert tools_of(client) == {}


def test_several_projects_put_their_alias_in_front(serve: Serve, project: Callable[..., Path]) -> None:
    projects = {"one": project(SOURCE, "one"), "two": project(SOURCE, "two"), "bad": project("import nothing", "bad")}
    client = serve(projects, "--tool", "lint", "--tool", "dep*")
    assert set(tools_of(client)) == {"one-lint", "one-deploy", "two-lint", "two-deploy"}
    assert client.call("two-deploy").data["stdout"] == "deployed\n"


def test_at_most_forty_tasks_are_tools(serve: Serve) -> None:
    tasks = "".join(f"\n\n    @task\n    def task{number}(): pass" for number in range(45))
    client = serve(f"    from quickie import task{tasks}", "--tool", "*")
    assert len(tools_of(client)) == 40
    (entry,) = client.call("list_tasks").data
    assert len(entry["tasks"]) == 45
    assert "at most 40" in entry["note"]
    assert "left out" in client.stderr()


def test_an_early_call_needs_no_listing(serve: Serve) -> None:
    client = serve(SOURCE, "--tool", "lint", version="")
    client.initialize(LEGACY)
    assert client.call("lint").data["exit_code"] == 3


# Rules


def own_config(home: Path, text: str) -> None:
    """Write the user's own config."""
    file = home / ".config" / "qk-mcp" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_person_is_asked_about_a_tool_as_about_run_task(
    serve: Serve, project: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    config = configured(project, tmp_path, 'tools = ["*"]\nconfirm = ["deploy"]')
    client: Any = serve(None, "--config", config, kind=Asking, version=version)
    client.replies = [YES]
    answer = client.call("deploy")
    if version == MODERN:
        [(name, request)] = answer.result["inputRequests"].items()
        client.questions.append(request["params"])
        more = {"requestState": answer.result["requestState"], "inputResponses": {name: YES}}
        answer = client.request("tools/call", {"name": "deploy", "arguments": {}, **more}).wait()
    assert answer.data["stdout"] == "deployed\n"
    assert "deploy" in client.questions[0]["message"]


def test_tools_follow_the_users_config(serve: Serve, project: Callable[..., Path], tmp_path: Path) -> None:
    table = f'[projects.demo]\npath = "{project(SOURCE)}"\n'
    own_config(tmp_path / "home", table)
    client = serve(None, version="")
    assert client.open(LEGACY)["capabilities"]["tools"]["listChanged"] is True
    assert tools_of(client) == {}
    own_config(tmp_path / "home", table + 'tools = ["*"]\ndeny = ["check"]\n')
    assert client.call("list_tasks").data[0]["tasks"]
    client.until(lambda: changes(client), what="tools/list_changed")
    assert set(tools_of(client)) == {"demo-deploy", "demo-lint"}, "a denied task is no tool"
    own_config(tmp_path / "home", table + 'tools = ["*"]\nallow = ["lint"]\n')
    client.until(lambda: changes(client) == 2, what="another change, without a call")
    assert set(tools_of(client)) == {"demo-lint"}
    assert client.call("demo-lint").data["exit_code"] == 3
    assert "demo-deploy" in client.call("demo-deploy").refusal


# Changes


def changes(client: Client) -> int:
    """Return how often the client was notified that its list of tools has changed."""
    return len(client.notifications("notifications/tools/list_changed"))


@pytest.mark.long
@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_changed_file_changes_the_tools(serve: Serve, project: Callable[..., Path], version: str) -> None:
    root = project(SOURCE)
    client = serve(root, "--tool", "*", "-v", version=version)
    if version == MODERN:
        client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        client.until(lambda: client.notifications("notifications/subscriptions/acknowledged"))
    assert set(tools_of(client)) == {"deploy", "lint", "test"}
    make_project(root, MORE)
    client.until(lambda: changes(client), what="tools/list_changed")
    assert "have changed: count=4" in client.stderr()
    assert set(tools_of(client)) == {"deploy", "lint", "test", "types"}
    assert client.call("types").data["stdout"] == "typed\n"

    make_project(root, "import nothing")
    assert "nothing" in client.run("lint").refusal
    assert set(tools_of(client)) == {"deploy", "lint", "test", "types"}, "the tools stay while the project is broken"
    make_project(root, SOURCE)
    client.until(lambda: changes(client) == 2, what="a second tools/list_changed")
    assert set(tools_of(client)) == {"deploy", "lint", "test"}


@pytest.mark.long
def test_a_slow_project_does_not_hold_up_the_list(serve: Serve, project: Callable[..., Path]) -> None:
    """The description goes on in the background; its tools are announced."""
    slow = "    import pathlib, time\n    while not pathlib.Path('go').exists(): time.sleep(0.05)\n" + SOURCE
    roots = {"quick": project(SOURCE, "quick"), "slow": project(slow, "slow")}
    client = serve(roots, "--tool", "lint", "--describe-timeout", "60")
    assert set(tools_of(client)) == {"quick-lint"}
    (roots["slow"] / "go").touch()
    client.until(lambda: changes(client), what="tools/list_changed")
    assert set(tools_of(client)) == {"quick-lint", "slow-lint"}


# The SDK's client


async def follow(transport: Any, root: Path, mode: Any) -> None:
    """List the tools, call one, change the project, wait for the news, and list the tools again."""
    from mcp.client.client import Client as SdkClient

    told, ready = asyncio.Event(), asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async def listen(client: SdkClient) -> None:
        async with client.listen(tools_list_changed=True) as events:
            ready.set()
            async for _ in events:
                told.set()
                return

    async def names(client: SdkClient) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools} - OURS

    async with SdkClient(transport, mode=mode, message_handler=hear) as client:
        listening = asyncio.create_task(listen(client)) if mode == "auto" else None
        if listening:
            await ready.wait()
        assert await names(client) == {"deploy", "lint", "test"}
        answer = await client.call_tool("test", {"mode": "unit", "paths": ["a"]})
        assert answer.structured_content is not None
        assert "['a']" in answer.structured_content["stdout"]
        make_project(root, MORE)
        await told.wait()
        assert await names(client) == {"deploy", "lint", "test", "types"}
        if listening:
            await listening


@pytest.mark.long
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_python_client_follows_the_tools(project: Callable[..., Path], tmp_path: Path, mode: str) -> None:
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    root = project(SOURCE)
    args = [*QK_MCP[1:], "serve", "--project", f"demo:{root}", "--tool", "*"]
    server = StdioServerParameters(command=QK_MCP[0], args=args, env=scrubbed(tmp_path / "home"), cwd=tmp_path)
    asyncio.run(asyncio.wait_for(follow(stdio_client(server, errlog=sys.stderr), root, mode), 60))


@pytest.mark.long
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_python_client_follows_the_tools_over_http(project: Callable[..., Path], tmp_path: Path, mode: str) -> None:
    from mcp.client.streamable_http import streamable_http_client

    root = project(SOURCE)

    async def talk(server: HttpServer) -> None:
        async with httpx2.AsyncClient(headers=server.credentials, timeout=60) as web:
            await follow(streamable_http_client(server.url, http_client=web), root, mode)

    with serving_http(tmp_path, root, "--show-token", "--tool", "*") as server:
        asyncio.run(asyncio.wait_for(talk(server), 60))
