"""Where the files of clients are."""

from pathlib import Path

import pytest

from qk_mcp.clients.known import find_client
from qk_mcp.clients.locations import client_file

_HOME = {"HOME": "/home/ann"}


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
def test_each_client_has_its_file_on_each_platform(name: str, linux: str, darwin: str, win32: str) -> None:
    client = find_client(name)
    found = [str(client_file(client, _HOME, platform)) for platform in ("linux", "darwin", "win32")]
    assert found == [place.replace("~", "/home/ann") for place in (linux, darwin, win32)]


def test_variables_move_a_file() -> None:
    moved = _HOME | {"XDG_CONFIG_HOME": "/cfg", "CODEX_HOME": "/codex", "CLAUDE_CONFIG_DIR": "/claude", "APPDATA": "/r"}
    moved["GEMINI_CLI_HOME"] = "/gem"
    assert client_file(find_client("gemini"), moved, "linux") == Path("/gem/.gemini/settings.json")
    assert client_file(find_client("zed"), moved, "linux") == Path("/cfg/zed/settings.json")
    assert client_file(find_client("zed"), moved, "darwin") == Path("/home/ann/.config/zed/settings.json")
    assert client_file(find_client("zed"), moved, "win32") == Path("/r/Zed/settings.json")
    assert client_file(find_client("codex"), moved) == Path("/codex/config.toml")
    assert client_file(find_client("claude-code"), moved) == Path("/claude/.claude.json")
    relative = _HOME | {"XDG_CONFIG_HOME": "cfg"}
    assert client_file(find_client("goose"), relative, "linux") == Path("/home/ann/.config/goose/config.yaml")


def test_the_file_that_exists_is_taken(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path / "local")}
    for name, place in {
        "zed": "dev.zed.Zed/config/zed/settings.json",
        "vscode": "com.visualstudio.code/config/Code/User/mcp.json",
    }.items():
        flatpak = tmp_path / ".var" / "app" / place
        flatpak.parent.mkdir(parents=True)
        assert client_file(find_client(name), environ, "linux") == flatpak

    opencode = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    opencode.parent.mkdir(parents=True)
    opencode.write_text("{}")
    assert client_file(find_client("opencode"), environ, "linux") == opencode
    opencode.with_name("opencode.json").write_text("{}")
    assert client_file(find_client("opencode"), environ, "linux") == opencode.with_name("opencode.json")

    roaming = Path("LocalCache", "Roaming", "Claude", "claude_desktop_config.json")
    from_store = tmp_path / "local" / "Packages" / "Claude_pzs8sxrjxfjjc" / roaming
    from_store.parent.mkdir(parents=True)
    from_store.write_text("{}")
    assert client_file(find_client("claude-desktop"), environ, "win32") == from_store
