"""The table of MCP clients: every client has a file, an entry that can be read back, and a command that fits."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from qk_mcp.clients import entries as client_entries
from qk_mcp.clients import known as clients
from qk_mcp.clients.files import servers
from qk_mcp.clients.known import CLIENTS, Client
from qk_mcp.errors import UnknownClient

_HOME = {"HOME": "/home/ann"}
_LAUNCH = ["/opt/my python/bin/python", "-P", "-m", "qk_mcp", "serve", "--project", 'a:/x "y" ü/#z']

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@pytest.mark.parametrize(
    ("name", "linux", "darwin", "win32"),
    [
        ("claude-code", "~/.claude.json", "~/.claude.json", "~/.claude.json"),
        (
            "claude-desktop",
            "~/.config/Claude/claude_desktop_config.json",
            "~/Library/Application Support/Claude/claude_desktop_config.json",
            "~/AppData/Roaming/Claude/claude_desktop_config.json",
        ),
        ("cursor", "~/.cursor/mcp.json", "~/.cursor/mcp.json", "~/.cursor/mcp.json"),
        (
            "vscode",
            "~/.config/Code/User/mcp.json",
            "~/Library/Application Support/Code/User/mcp.json",
            "~/AppData/Roaming/Code/User/mcp.json",
        ),
        ("windsurf", *["~/.codeium/windsurf/mcp_config.json"] * 3),
        ("zed", "~/.config/zed/settings.json", "~/.config/zed/settings.json", "~/AppData/Roaming/Zed/settings.json"),
        ("codex", *["~/.codex/config.toml"] * 3),
        ("gemini", *["~/.gemini/settings.json"] * 3),
        (
            "goose",
            "~/.config/goose/config.yaml",
            "~/.config/goose/config.yaml",
            "~/AppData/Roaming/Block/goose/config/config.yaml",
        ),
        ("opencode", *["~/.config/opencode/opencode.json"] * 3),
    ],
)
def test_the_file_of_a_client(name: str, linux: str, darwin: str, win32: str) -> None:
    client = clients.find(name)
    found = [str(clients.file(client, _HOME, platform)) for platform in ("linux", "darwin", "win32")]
    assert found == [place.replace("~", "/home/ann") for place in (linux, darwin, win32)]


def test_variables_move_a_file() -> None:
    moved = _HOME | {"XDG_CONFIG_HOME": "/cfg", "CODEX_HOME": "/codex", "CLAUDE_CONFIG_DIR": "/claude", "APPDATA": "/r"}
    assert clients.file(clients.find("zed"), moved, "linux") == Path("/cfg/zed/settings.json")
    assert clients.file(clients.find("zed"), moved, "darwin") == Path("/home/ann/.config/zed/settings.json")
    assert clients.file(clients.find("zed"), moved, "win32") == Path("/r/Zed/settings.json")
    assert clients.file(clients.find("codex"), moved) == Path("/codex/config.toml")
    assert clients.file(clients.find("claude-code"), moved) == Path("/claude/.claude.json")
    relative = _HOME | {"XDG_CONFIG_HOME": "cfg"}
    assert clients.file(clients.find("goose"), relative, "linux") == Path("/home/ann/.config/goose/config.yaml")


def test_the_file_that_exists_is_taken(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path / "local")}
    opencode = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    opencode.parent.mkdir(parents=True)
    opencode.write_text("{}")
    assert clients.file(clients.find("opencode"), environ, "linux") == opencode
    opencode.with_name("opencode.json").write_text("{}")
    assert clients.file(clients.find("opencode"), environ, "linux") == opencode.with_name("opencode.json")

    roaming = Path("LocalCache", "Roaming", "Claude", "claude_desktop_config.json")
    from_store = tmp_path / "local" / "Packages" / "Claude_pzs8sxrjxfjjc" / roaming
    from_store.parent.mkdir(parents=True)
    from_store.write_text("{}")
    assert clients.file(clients.find("claude-desktop"), environ, "win32") == from_store


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Claude Code", "claude-code"),
        ("claude", "claude-code"),
        ("CLAUDE_DESKTOP", "claude-desktop"),
        ("vs code", "vscode"),
        ("code", "vscode"),
        ("VSCode", "vscode"),
        ("gemini-cli", "gemini"),
        ("Codex", "codex"),
    ],
)
def test_names_are_taken_as_people_write_them(text: str, name: str) -> None:
    assert clients.find(text).name == name


def test_an_unknown_name_tells_the_near_ones_and_all() -> None:
    with pytest.raises(UnknownClient) as caught:
        clients.find("curser")
    assert caught.value.hint == "did you mean cursor?"
    assert all(client.name in caught.value.why for client in CLIENTS)


@every_client
def test_a_snippet_says_what_it_should(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(client_entries.snippet(client, "tasks", _LAUNCH), encoding="utf-8")
    found = servers(client, file)
    assert list(found) == ["tasks"]
    assert client_entries.launch_of(client, found["tasks"]) == _LAUNCH


def _parsed(client: Client) -> Any:
    text = client_entries.snippet(client, "tasks", ["python", "-m", "qk_mcp"])
    return tomllib.loads(text) if client.format == "toml" else json.loads(text)


def test_the_shapes() -> None:
    plain = {"command": "python", "args": ["-m", "qk_mcp"]}
    assert _parsed(clients.find("cursor")) == {"mcpServers": {"tasks": plain}}
    assert _parsed(clients.find("claude-desktop")) == {"mcpServers": {"tasks": plain}}
    assert _parsed(clients.find("windsurf")) == {"mcpServers": {"tasks": plain}}
    assert _parsed(clients.find("gemini")) == {"mcpServers": {"tasks": plain}}
    assert _parsed(clients.find("claude-code")) == {"mcpServers": {"tasks": {"type": "stdio", **plain}}}
    assert _parsed(clients.find("vscode")) == {"servers": {"tasks": {"type": "stdio", **plain}}}
    assert _parsed(clients.find("zed")) == {"context_servers": {"tasks": {"source": "custom", **plain}}}
    assert _parsed(clients.find("codex")) == {"mcp_servers": {"tasks": {**plain, "startup_timeout_sec": 30}}}
    assert _parsed(clients.find("opencode")) == {
        "mcp": {"tasks": {"type": "local", "command": ["python", "-m", "qk_mcp"], "enabled": True}}
    }


def test_goose_is_told_in_yaml() -> None:
    assert client_entries.snippet(clients.find("goose"), "tasks", ["python", "-m", "qk_mcp"]) == (
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


def test_a_file_that_goose_wrote_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "GOOSE_MODEL: m\nextensions:\n  developer:\n    bundled: true\n    type: builtin\n"
        "  qk-mcp:\n    args:\n    - -m\n    - qk_mcp\n    - serve\n    cmd: /usr/bin/python3\n    enabled: true\n"
        "    env_keys:\n    - TOKEN\n    envs: {}\n    type: stdio\nGOOSE_PROVIDER: p\n"
    )
    goose = clients.find("goose")
    found = servers(goose, file)
    assert list(found) == ["developer", "qk-mcp"]
    assert client_entries.launch_of(goose, found["qk-mcp"]) == ["/usr/bin/python3", "-m", "qk_mcp", "serve"]


@every_client
def test_no_placeholder_is_left_in_a_command(client: Client) -> None:
    if client.own:
        for template in (client.own.add, client.own.remove):
            words = client_entries.words(client, template, "tasks", _LAUNCH)
            assert not any(word.startswith("{") and word.endswith("}") for word in words if '"' not in word)


@every_client
def test_a_remote_server_starts_no_command(client: Client) -> None:
    entries: list[Any] = [{"url": "https://example.com/mcp"}, None, [], {"command": 3, "args": {"a": 1}}]
    for entry in entries:
        assert client_entries.launch_of(client, entry) == []
