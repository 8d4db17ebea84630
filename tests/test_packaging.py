"""What package indexes, the MCP registry and Claude Code read about this project."""

import json
import tomllib
from pathlib import Path
from typing import Any

from qk_mcp import __version__
from qk_mcp.clients.launchers import launch_words

ROOT = Path(__file__).parents[1]


def _json(name: str) -> Any:
    return json.loads((ROOT / name).read_text(encoding="utf-8"))


def test_the_registrys_file_names_this_version_and_package() -> None:
    server = _json("server.json")
    [package] = server["packages"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert server["version"] == package["version"] == __version__
    assert package["identifier"] == project["name"]
    assert len(server["description"]) <= 100
    assert server["repository"]["url"] == project["urls"]["Source"]
    assert [word["value"] for word in package["packageArguments"]] == ["serve"]
    # The registry accepts a package only if its README, which the index shows, names the server.
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_plugin_of_claude_code_starts_what_install_writes() -> None:
    [plugin] = _json(".claude-plugin/marketplace.json")["plugins"]
    manifest = _json(f"{plugin['source']}/.claude-plugin/plugin.json")
    assert manifest["name"] == plugin["name"]
    server = manifest["mcpServers"]["qk-mcp"]
    assert [server["command"], *server["args"]] == launch_words("uvx", shared=True)
