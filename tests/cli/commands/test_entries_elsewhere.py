"""`qk-mcp install` for a server on another machine, and for one that serves HTTP."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.support.cli import CommandLine

URL = "http://127.0.0.1:8765/mcp"
TOKEN = "a-token-of-twenty-characters"


@pytest.fixture
def qk_mcp(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return file


def test_a_server_on_another_machine_is_started_by_ssh_and_can_be_removed(qk_mcp: CommandLine) -> None:
    installed = qk_mcp("install", "cursor", "--host", "ann@box", "--project", "app:~/a b", "--write")
    assert installed.code == 0, installed.stderr
    file = qk_mcp.home / ".cursor" / "mcp.json"
    entry = json.loads(file.read_text())["mcpServers"]["qk-mcp"]
    assert entry["command"] == "ssh"
    assert entry["args"][-3:] == ["--", "ann@box", "qk-mcp serve --project 'app:~/a b'"]
    assert qk_mcp("uninstall", "cursor").code == 0
    assert not file.exists()


def test_a_server_over_http_gets_the_url_and_the_token(qk_mcp: CommandLine, token: Path) -> None:
    for client in ("cursor", "codex"):
        installed = qk_mcp("install", client, "--url", URL, "--token-file", token, "--write")
        assert installed.code == 0, installed.stderr
    file = qk_mcp.home / ".cursor" / "mcp.json"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert json.loads(file.read_text())["mcpServers"]["qk-mcp"] == {"url": URL, "headers": headers}
    codex = tomllib.loads((qk_mcp.home / ".codex" / "config.toml").read_text())["mcp_servers"]["qk-mcp"]
    assert codex == {"url": URL, "http_headers": headers, "tool_timeout_sec": 3600}
    assert f"present: {URL}" in qk_mcp("uninstall", "cursor").stderr
    assert qk_mcp("uninstall", "cursor", "--url", URL).code == 0
    assert not file.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["claude-desktop", "--url", URL], "the file of Claude Desktop cannot have a server with a URL"),
        (["cursor", "--url", "box:8765"], "it must be like http://127.0.0.1:8765/mcp"),
        (["cursor", "--url", URL, "--scope", "project"], "it does not go together with the other options"),
        (["cursor", "--host", "box", "--project", "app:here"], "a path there that begins with / or ~"),
        (["cursor", "--token-file", "x"], "it is for --url, which is missing"),
    ],
)
def test_a_wrong_combination_is_explained(qk_mcp: CommandLine, token: Path, options: list[str], message: str) -> None:
    more = ["--token-file", str(token)] if "--url" in options else []
    outcome = qk_mcp("install", *options, *more)
    assert outcome.code in (1, 2)
    assert message in " ".join(outcome.stderr.split())


def test_a_missing_token_is_explained(qk_mcp: CommandLine) -> None:
    outcome = qk_mcp("install", "cursor", "--url", URL)
    assert "name the file with the token of the server" in outcome.stderr
