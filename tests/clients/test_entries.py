"""The entry that each client gets for a server, and reading it back."""

import json
import tomllib
from typing import Any

import pytest

from qk_mcp.clients.entries import fill_command, launch_of, snippet, starts_qk_mcp
from qk_mcp.clients.known import CLIENTS, Client, find_client

_LAUNCH = ["/opt/my python/bin/python", "-E", "-P", "-m", "qk_mcp", "serve", "--project", 'a:/x "y" ü/#z']

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


def _parsed(client: Client) -> Any:
    text = snippet(client, "tasks", ["python", "-m", "qk_mcp"])
    return tomllib.loads(text) if client.format == "toml" else json.loads(text)


def test_each_client_has_its_own_form() -> None:
    plain = {"command": "python", "args": ["-m", "qk_mcp"]}
    assert _parsed(find_client("cursor")) == {"mcpServers": {"tasks": plain}}
    assert _parsed(find_client("claude-desktop")) == {"mcpServers": {"tasks": plain}}
    assert _parsed(find_client("windsurf")) == {"mcpServers": {"tasks": plain}}
    assert _parsed(find_client("gemini")) == {"mcpServers": {"tasks": plain}}
    assert _parsed(find_client("claude-code")) == {"mcpServers": {"tasks": {"type": "stdio", **plain}}}
    assert _parsed(find_client("vscode")) == {"servers": {"tasks": {"type": "stdio", **plain}}}
    assert _parsed(find_client("zed")) == {"context_servers": {"tasks": {"source": "custom", **plain}}}
    assert _parsed(find_client("codex")) == {
        "mcp_servers": {"tasks": {**plain, "startup_timeout_sec": 30, "tool_timeout_sec": 3600}}
    }
    assert _parsed(find_client("opencode")) == {
        "mcp": {"tasks": {"type": "local", "command": ["python", "-m", "qk_mcp"], "enabled": True}}
    }


def test_the_snippet_for_goose_is_yaml() -> None:
    assert snippet(find_client("goose"), "tasks", ["python", "-m", "qk_mcp"]) == (
        "extensions:\n"
        "  tasks:\n"
        '    type: "stdio"\n'
        '    name: "tasks"\n'
        "    enabled: true\n"
        '    cmd: "python"\n'
        '    args: ["-m", "qk_mcp"]\n'
        "    envs: {}\n"
        "    timeout: 300"
    )


@every_client
def test_no_placeholder_is_left_in_a_command(client: Client) -> None:
    if client.own:
        for template in (client.own.add, client.own.remove):
            words = fill_command(client, template, "tasks", _LAUNCH)
            assert not any(word.startswith("{") and word.endswith("}") for word in words if '"' not in word)


@every_client
def test_a_remote_server_starts_no_command(client: Client) -> None:
    entries: list[Any] = [{"url": "https://example.com/mcp"}, None, [], {"command": 3, "args": {"a": 1}}]
    for entry in entries:
        assert launch_of(client, entry) == []


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("/opt/python -E -P -m qk_mcp serve --project a:/x", True),
        ("/opt/python3.13 -P -m qk_mcp serve", True),
        ("python -m qk_mcp", True),
        ("python -m qk_mcp --project a:/x", True),
        ("qk-mcp", True),
        ("/home/me/bin/qk-mcp serve", True),
        ("uvx qk-mcp serve", True),
        ("uvx --from qk-mcp qk-mcp serve", True),
        ("/home/me/bin/uvx --python >=3.12 --from qk-mcp[quickie]==1.2 python -E -P -m qk_mcp serve", True),
        ("npx files /home/me/qk-mcp", False),
        ("/usr/bin/cat qk_mcp", False),
        ("python -m other qk_mcp", False),
        ("python script.py -m qk_mcp serve", False),
        ("python -c code -m qk_mcp", False),
        ("python -m qk_mcp projects list", False),
        ("/home/me/qk-mcp/server.py", False),
        ("uvx --from evil qk-mcp serve", False),
        ("uvx --from qk-mcp-evil qk-mcp serve", False),
        ("uvx --from evil python -m qk_mcp serve", False),
        ("uvx other qk-mcp serve", False),
        ("uvx", False),
        ("python -m", False),
        ("", False),
    ],
)
def test_only_the_forms_that_install_writes_are_ours(command: str, ours: bool) -> None:
    assert starts_qk_mcp(command.split()) is ours
