"""The server through the wire: the handshake, the tools, the projects."""

import asyncio
import json
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

import qk_mcp
from tests.conftest import Demo, Serve
from tests.support.client import LEGACY, MODERN
from tests.support.environment import QK_MCP, scrubbed

SOURCE = """
    import sys
    from quickie import Arg, task

    @task(aliases=["hi"], args=[Arg("--name", default="world", help="Whom to greet")])
    def hello(name="world"):
        "Greet somebody."
        print("hello", name)
        print("greeted", file=sys.stderr)
"""
ERAS = ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN]


# The handshake


@pytest.mark.parametrize(
    "version", [ERAS[0], *(pytest.param(version, marks=pytest.mark.long) for version in ERAS[1:-2]), *ERAS[-2:]]
)
def test_every_revision_of_the_protocol_lists_and_runs(serve: Serve, version: str) -> None:
    client = serve(SOURCE, version=version)
    assert client.version == version
    (entry,) = client.call("list_tasks").data
    assert entry["project"] == "demo"
    assert [task["name"] for task in entry["tasks"]] == ["hello"]
    answer = client.run("hello", "--name", "you").data
    assert answer == {"exit_code": 0, "stdout": "hello you\n", "stderr": "greeted\n"}
    assert client.run("hello", "--nome").data["exit_code"] == 2
    assert "hello" in client.run("hallo").refusal


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_the_server_gives_version_and_instructions(serve: Serve, project: Callable[..., Path], version: str) -> None:
    client = serve({"one": project(SOURCE, "a"), "two": project(SOURCE, "b")}, version="")
    hello = client.open(version)
    info = hello["serverInfo"] if version == LEGACY else hello["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert (info["name"], info["version"]) == ("qk-mcp", qk_mcp.__version__)
    for word in ("list_tasks", "run_task", "'one'", "'two'"):
        assert word in hello["instructions"]
    assert set(hello["capabilities"]) <= {"tools", "logging", "experimental", "extensions"}


def test_the_instructions_are_bounded(serve: Serve, tmp_path: Path) -> None:
    client = serve({f"{'x' * 60}{number}": tmp_path for number in range(100)}, version="")
    instructions = client.open(LEGACY)["instructions"]
    assert len(instructions) <= 1_500
    assert "and 8" in instructions


def test_an_unknown_revision_is_answered_with_a_known_one(serve: Serve) -> None:
    client = serve(SOURCE, version="")
    client.open("2099-01-01")
    assert client.version in ERAS
    assert client.run("hello").data["exit_code"] == 0


def test_malformed_messages_do_not_end_the_session(demo: Demo) -> None:
    client = demo(SOURCE)
    client.send(b"not json\n")
    client.send(b'{"jsonrpc": "2.0", "method": "notifications/unheard-of"}\n')
    client.send(b"\xff\xfe\n")
    client.send(b"\n")
    assert client.request("no/such/method").wait().error["code"] == -32601
    assert client.run("hello").data["exit_code"] == 0


# The tools


@pytest.fixture
def tools(demo: Demo) -> dict[str, Any]:
    """The descriptions of the tools, by name."""
    result = demo(SOURCE).request("tools/list").wait().result
    return {tool["name"]: tool for tool in result["tools"]}


def test_a_lone_surrogate_in_a_request_is_replaced(demo: Demo) -> None:
    """JavaScript clients send one if they cut an emoji in two; the SDK alone would never answer."""
    client = demo("""
        import sys
        from quickie import Arg, task

        @task(args=[Arg("words", nargs="*")])
        def echo(words):
            print(ascii(words), ascii(sys.stdin.read()))
    """)
    sent = ["a\ud83d", "\ude00b", "\ud83d\ud83d\ude00", "whole \U0001f600", "\\ud83d"]
    answer = client.run("echo", *sent, stdin="\ud83d").data
    read = ["a\ufffd", "\ufffdb", "\ufffd\U0001f600", "whole \U0001f600", "\\ud83d"]
    assert answer["stdout"] == f"{read!a} {chr(0xFFFD)!a}\n"
    assert "no task named" in client.run("\udc00").refusal


def test_the_tools_have_the_documented_parameters(tools: dict[str, Any]) -> None:
    assert set(tools) == {"list_tasks", "run_task", "get_run", "stop_run"}
    schema = tools["list_tasks"]["inputSchema"]
    assert set(schema["properties"]) == {"project", "filter", "detail"}
    assert not schema.get("required")
    schema = tools["run_task"]["inputSchema"]
    assert set(schema["properties"]) == {"task_name", "args", "stdin", "timeout", "background", "project"}
    assert schema["required"] == ["task_name"]
    assert schema["properties"]["timeout"]["default"] == 60
    schema = tools["get_run"]["inputSchema"]
    assert set(schema["properties"]) == {"run_id", "wait", "until", "grep", "after", "lines"}
    assert not schema.get("required")
    assert set(tools["stop_run"]["inputSchema"]["properties"]) == {"run_id"}


def test_every_tool_and_parameter_has_a_description(tools: dict[str, Any]) -> None:
    for tool in tools.values():
        assert tool["title"]
        assert len(tool["description"]) > 100
        for parameter in tool["inputSchema"]["properties"].values():
            assert parameter["description"]
        assert tool["_meta"]["anthropic/maxResultSizeChars"] == 200_000
    assert tools["list_tasks"]["annotations"]["readOnlyHint"] is True
    assert tools["get_run"]["annotations"]["readOnlyHint"] is True
    assert tools["get_run"]["annotations"]["idempotentHint"] is True
    assert tools["run_task"]["annotations"]["readOnlyHint"] is False
    assert tools["run_task"]["annotations"]["destructiveHint"] is True


def schemas_below(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from schemas_below(part)
    if isinstance(schema, list):
        for part in schema:
            yield from schemas_below(part)


def test_input_schemas_are_plain_enough_for_strict_clients(tools: dict[str, Any]) -> None:
    for tool in tools.values():
        schema = tool["inputSchema"]
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        for part in schemas_below(schema):
            assert not {"anyOf", "oneOf", "allOf", "not", "$ref", "$defs"} & set(part)
        for parameter in schema["properties"].values():
            assert isinstance(parameter["type"], str), "one type, no list of types"
            assert parameter.get("default", "") is not None


def test_output_schemas_are_objects_and_valid(tools: dict[str, Any]) -> None:
    for tool in tools.values():
        Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["outputSchema"]["type"] == "object"
    assert set(tools["run_task"]["outputSchema"]["required"]) == {"exit_code", "stdout", "stderr"}


def test_a_misspelt_parameter_is_refused_with_the_right_name(demo: Demo) -> None:
    client = demo(SOURCE)
    assert "'task_name'" in client.call("run_task", task="hello", task_name="hello").refusal
    assert "task_name" in client.call("run_task").refusal
    assert "'filter'" in client.call("list_tasks", filtre="x").refusal


def test_parameters_that_clients_add_are_ignored_with_a_note(demo: Demo) -> None:
    client = demo(SOURCE)
    extra = {"toolCallId": "1", "sessionId": "2", "_sessionID": "3", "chatInput": "4"}
    answer = client.call("run_task", task_name="hello", **extra).data
    assert answer["exit_code"] == 0
    assert "'toolCallId', 'sessionId', '_sessionID', 'chatInput'" in answer["note"]
    [entry] = client.call("list_tasks", **extra).data
    assert entry["tasks"]
    assert "'toolCallId'" in entry["note"]
    assert "did you mean 'project'" in client.call("run_task", task_name="hello", cwd="/").refusal


def test_a_filter_without_matches_is_noted(demo: Demo) -> None:
    [entry] = demo(SOURCE).call("list_tasks", filter="hallo").data
    assert entry["tasks"] == []
    assert "its only task has no name" in entry["note"]
    assert "'hello'" in entry["note"]


def test_without_projects_the_answers_say_how_to_add_one(serve: Serve) -> None:
    client = serve(None)
    for answer in (client.call("list_tasks"), client.run("hello")):
        assert "qk-mcp projects add NAME:PATH" in answer.refusal


def test_a_file_url_is_a_path(serve: Serve, project: Callable[..., Path]) -> None:
    client = serve({"one": project(SOURCE, "a b"), "two": project(SOURCE, "c")})
    url = project(SOURCE, "a b").as_uri()
    assert client.call("list_tasks", project=url).data[0]["project"] == "one"


def test_the_clients_project_replaces_the_current_directory(
    serve: Serve, project: Callable[..., Path], tmp_path: Path
) -> None:
    root = project(SOURCE)
    client = serve(None, cwd=tmp_path, environ={"WORKSPACE_FOLDER_PATHS": str(root)})
    assert client.run("hello").data["exit_code"] == 0
    client = serve(None, cwd=tmp_path, environ={"CLAUDE_PROJECT_DIR": str(root)})
    assert client.run("hello").data["exit_code"] == 0
    here = project(SOURCE.replace("hello", "here"), "here")
    client = serve(None, cwd=here, environ={"CLAUDE_PROJECT_DIR": str(root)})
    assert client.run("here").data["exit_code"] == 0


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_unicode_forms_of_a_name_are_one_name(demo: Demo, form: Literal["NFC", "NFD"]) -> None:
    name = unicodedata.normalize(form, "\u00e9tude")
    other = unicodedata.normalize("NFD" if form == "NFC" else "NFC", name)
    client = demo(f"from quickie import task\n@task(name={name!r})\ndef study(): print('played')\n")
    assert client.run(other).data["stdout"] == "played\n"
    assert client.run(name).data["stdout"] == "played\n"
    [entry] = client.call("list_tasks", filter=other.upper()).data
    assert [task["name"] for task in entry["tasks"]] == [name]


def test_an_unknown_tool_is_refused(demo: Demo) -> None:
    answer = demo(SOURCE).call("run_tasks").frame
    assert "error" in answer or answer["result"]["isError"]


# Projects


def test_several_projects_are_kept_apart(serve: Serve, project: Callable[..., Path]) -> None:
    source = "from quickie import task\n@task\ndef who(): print({0!r})\n@task\ndef only_{0}(): ...\n"
    roots = {name: project(source.format(name), name) for name in ("one", "two")}
    client = serve(roots)
    listing = client.call("list_tasks").data
    assert {entry["project"]: entry["project_root"] for entry in listing} == {n: str(r) for n, r in roots.items()}
    for name, root in roots.items():
        (entry,) = client.call("list_tasks", project=name).data
        assert {task["name"] for task in entry["tasks"]} == {"who", f"only-{name}"}
        assert client.run("who", project=name).data["stdout"] == f"{name}\n"
        assert client.run("who", project=str(root / "_qk")).data["stdout"] == f"{name}\n"
    refusal = client.run("who").refusal
    assert "one" in refusal
    assert "two" in refusal
    assert "one" in client.run("who", project="onne").refusal
    assert client.run("only-two", project="one").is_error
    filtered = client.call("list_tasks", filter="ONLY-T").data
    assert [[task["name"] for task in entry["tasks"]] for entry in filtered] == [[], ["only-two"]]


def test_a_broken_project_affects_no_other(serve: Serve, project: Callable[..., Path], tmp_path: Path) -> None:
    roots = {"good": project(SOURCE, "good"), "bad": project("import no_such_module\n", "bad"), "gone": tmp_path / "x"}
    client = serve(roots)
    entries = {entry["project"]: entry for entry in client.call("list_tasks").data}
    assert [task["name"] for task in entries["good"]["tasks"]] == ["hello"]
    assert "error" not in entries["good"]
    assert entries["bad"]["tasks"] == entries["gone"]["tasks"] == []
    assert "no_such_module" in entries["bad"]["error"]
    assert str(tmp_path / "x") in entries["gone"]["error"]
    assert client.call("list_tasks", project="bad").refusal == entries["bad"]["error"]
    assert "no_such_module" in client.run("hello", project="bad").refusal
    assert client.run("hello", project="good").data["exit_code"] == 0


# The wire: nothing that is printed reaches it (every test checks every line)


def test_a_project_that_prints_while_it_is_imported(demo: Demo) -> None:
    client = demo("""
        import os, subprocess, sys, warnings
        from quickie import task

        print("noise")
        print("noise", file=sys.stderr)
        sys.__stdout__.write("noise\\n")
        os.write(1, b"noise\\n")
        subprocess.run(["echo", "noise"])
        warnings.warn("noise")

        @task
        def quiet(): ...
    """)
    (entry,) = client.call("list_tasks").data
    assert [task["name"] for task in entry["tasks"]] == ["quiet"]
    assert client.run("quiet").data["exit_code"] == 0


@pytest.mark.long
@pytest.mark.parametrize("options", [["-vv"], ["-qqq"]], ids=" ".join)
def test_verbose_output_goes_to_stderr_only(serve: Serve, options: list[str]) -> None:
    client = serve(SOURCE, *options, environ={"PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"})
    assert client.run("hello").data["exit_code"] == 0
    if options[0].startswith("-q"):
        assert "INFO" not in client.stderr()
    elif options[0].startswith("-v"):
        assert "hello" in client.stderr()


def test_a_library_that_prints_on_import_breaks_nothing(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("""
import os, sys

class Noisy:
    def find_spec(self, name, path=None, target=None):
        if name in ("mcp", "fastmcp", "pydantic"):
            print("noise of", name, flush=True)
            os.write(1, b"noise\\n")

print("noise that is buffered")
sys.meta_path.insert(0, Noisy())
""")
    client = serve(SOURCE, environ={"PYTHONPATH": str(tmp_path)})
    assert client.run("hello").data["exit_code"] == 0
    assert "noise of mcp" in client.stderr()
    assert "noise that is buffered" in client.stderr()


# Other clients


def test_fastmcps_client_lists_and_runs(project: Callable[..., Path], tmp_path: Path) -> None:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    root = project(SOURCE)
    logged: list[Any] = []

    async def log(message: Any) -> None:
        logged.append((message.level, message.data))

    async def talk() -> None:
        args = [*QK_MCP[1:], "serve", "--project", f"demo:{root}"]
        transport = StdioTransport(
            QK_MCP[0], args, env=scrubbed(tmp_path / "home"), cwd=str(tmp_path), keep_alive=False
        )
        async with Client(transport, log_handler=log) as client:
            assert {tool.name for tool in await client.list_tools()} == {
                "list_tasks",
                "run_task",
                "get_run",
                "stop_run",
            }
            listing = await client.call_tool("list_tasks")
            assert listing.structured_content["result"][0]["tasks"][0]["aliases"] == ["hi"]
            answer = await client.call_tool("run_task", {"task_name": "hi", "args": ["--name", "x"]})
            assert answer.structured_content == {"exit_code": 0, "stdout": "hello x\n", "stderr": "greeted\n"}
            refused = await client.call_tool("run_task", {"task_name": "no"}, raise_on_error=False)
            assert refused.is_error

    asyncio.run(asyncio.wait_for(talk(), 60))
    assert [level for level, _ in logged] == ["info", "warning"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_plain_client_of_the_sdk_lists_and_runs(project: Callable[..., Path], tmp_path: Path, mode: str) -> None:
    from mcp import StdioServerParameters
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    root = project(SOURCE)

    async def talk() -> None:
        args = [*QK_MCP[1:], "serve", "--project", f"demo:{root}"]
        server = StdioServerParameters(command=QK_MCP[0], args=args, env=scrubbed(tmp_path / "home"), cwd=tmp_path)
        async with Client(stdio_client(server, errlog=sys.stderr), mode=mode) as client:
            tools = await client.list_tools()
            assert {tool.name for tool in tools.tools} == {
                "list_tasks",
                "run_task",
                "get_run",
                "stop_run",
            }
            answer = await client.call_tool("run_task", {"task_name": "hello"})
            assert answer.structured_content == {"exit_code": 0, "stdout": "hello world\n", "stderr": "greeted\n"}
            [block] = (await client.call_tool("list_tasks")).content
            assert block.type == "text"
            assert json.loads(block.text)[0]["project"] == "demo"

    asyncio.run(asyncio.wait_for(talk(), 60))
