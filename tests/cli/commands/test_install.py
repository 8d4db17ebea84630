"""`qk-mcp install` and `uninstall`, run as a user would: what they print, and what becomes of a client's file."""

import base64
import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from qk_mcp.clients.known import CLIENTS
from qk_mcp.editing.jsonc_text import read_jsonc
from tests.support.cli import CommandLine
from tests.support.environment import BARE_PATH
from tests.support.projects import make_project

SERVE = [sys.executable, "-E", "-P", "-m", "qk_mcp", "serve"]

not_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return make_project(tmp_path / "my app", "")


@pytest.fixture
def own_command(tmp_path: Path) -> Callable[..., tuple[dict[str, str], Callable[[], list[list[str]]]]]:
    """Put a script on PATH that replaces a client's own command and records its arguments."""

    def make(program: str, body: str = "") -> tuple[dict[str, str], Callable[[], list[list[str]]]]:
        directory, log = tmp_path / "bin", tmp_path / "calls"
        directory.mkdir(exist_ok=True)
        script = directory / program
        script.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" >> '{log}'\nprintf '\\n\\0' >> '{log}'\n{body}\n")
        script.chmod(0o755)

        def calls() -> list[list[str]]:
            runs = log.read_text().split("\n\0") if log.exists() else []
            return [run.split("\0")[:-1] for run in runs if run]

        return {"PATH": f"{directory}:{BARE_PATH}"}, calls

    return make


def _json(file: Path) -> Any:
    return json.loads(file.read_text())


# Showing


@pytest.mark.parametrize("client", [client.name for client in CLIENTS])
def test_the_snippet_alone_goes_to_stdout(qk_mcp: CommandLine, app: Path, client: str) -> None:
    done = qk_mcp("install", client, "--project", f"app:{app}")
    assert done.code == 0
    assert json.dumps(f"app:{app}", ensure_ascii=False) in done.stdout
    assert str(qk_mcp.home) in done.stderr
    assert "then: " in done.stderr
    assert not [path for path in qk_mcp.home.rglob("*") if path.is_file()], "showing writes nothing"
    if client == "codex":
        tomllib.loads(done.stdout)
    elif client != "goose":
        json.loads(done.stdout)
    assert ("or let qk-mcp do it: " in done.stderr) is (client != "goose")


def test_the_command_is_absolute_and_works_from_anywhere(qk_mcp: CommandLine, app: Path, tmp_path: Path) -> None:
    config = tmp_path / "team.toml"
    config.write_text(f'[projects]\nteam = "{app}"\n')
    config.chmod(0o600)
    done = qk_mcp(
        "install", "cursor", "--project", f"app:{app.name}", "--project", "app:./my app/_qk", "--config", "team.toml",
        cwd=tmp_path,
    )  # fmt: skip
    entry = json.loads(done.stdout)["mcpServers"]["qk-mcp"]
    assert [entry["command"], *entry["args"]] == [*SERVE, "--project", f"app:{app}/_qk", "--config", str(config)]

    # Modules in the directory where a client starts it must not take the place of what the server imports.
    (tmp_path / "fastmcp.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "qk_mcp").mkdir()
    (tmp_path / "qk_mcp" / "__init__.py").write_text("raise SystemExit('shadowed')")
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    # Nor must the variables of an application that has a Python of its own.
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(qk_mcp.home), "PYTHONHOME": "/none", "PYTHONPATH": str(tmp_path)}
    command = [entry["command"], *entry["args"]]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environ
    ) as server:
        assert server.stdin
        assert server.stdout
        print(json.dumps(hello), file=server.stdin, flush=True)
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "qk-mcp"
        server.stdin.close()


def test_without_projects_the_users_config_is_meant(qk_mcp: CommandLine, app: Path) -> None:
    done = qk_mcp("install", "cursor")
    assert json.loads(done.stdout)["mcpServers"]["qk-mcp"]["args"] == SERVE[1:]
    assert "warning: there are no projects in your config" in done.stderr
    qk_mcp.write_config(f'[projects]\napp = "{app}"\n')
    assert "warning" not in qk_mcp("install", "cursor").stderr


def test_a_config_that_a_graphical_client_would_not_find_is_named(
    qk_mcp: CommandLine, app: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "cfg" / "qk-mcp" / "config.toml"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text(f'[projects]\napp = "{app}"\n')
    elsewhere.chmod(0o600)
    done = qk_mcp("install", "cursor", env={"XDG_CONFIG_HOME": str(tmp_path / "cfg")})
    assert json.loads(done.stdout)["mcpServers"]["qk-mcp"]["args"] == [*SERVE[1:], "--config", str(elsewhere)]
    done = qk_mcp("install", "cursor", env={"QK_MCP_CONFIG": str(elsewhere)})
    assert json.loads(done.stdout)["mcpServers"]["qk-mcp"]["args"] == [*SERVE[1:], "--config", str(elsewhere)]


def test_the_link_for_cursor_carries_the_same_entry(qk_mcp: CommandLine) -> None:
    done = qk_mcp("install", "cursor", "--name", "tasks")
    link = next(line for line in done.stderr.splitlines() if "cursor://" in line).removeprefix("or open: ")
    query = parse_qs(urlparse(link).query)
    assert query["name"] == ["tasks"]
    assert json.loads(base64.b64decode(query["config"][0])) == json.loads(done.stdout)["mcpServers"]["tasks"]


def test_an_existing_entry_is_reported(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp("install", "cursor", "--write")
    assert "The server is there already." in qk_mcp("install", "cursor").stderr
    other = qk_mcp("install", "cursor", "--project", f"app:{app}")
    assert f"warning: there is another server named 'qk-mcp': {sys.executable} -E -P -m qk_mcp serve\n" in other.stderr
    assert "--write --force" in other.stderr


# Wrong usage


@pytest.mark.parametrize(
    ("args", "code", "texts"),
    [
        ([], 2, ["which client?", "claude-code, claude-desktop, cursor", "hint: name one"]),
        (["cusror"], 2, ["no client is known as 'cusror'", "hint: did you mean cursor?"]),
        (["emacs"], 2, ["no client is known as 'emacs'", "opencode"]),
        (["cursor", "--name", "my tasks"], 2, ["option --name", "letters, digits"]),
        (["cursor", "--project", "nocolon"], 2, ["'nocolon' is not NAME:PATH"]),
        (["cursor", "--project", "a:nowhere"], 1, ["there is no ", "/nowhere"]),
        (["cursor", "--config", "nowhere.toml"], 1, ["cannot read the config", "/nowhere.toml"]),
    ],
)
def test_mistakes_get_a_message(qk_mcp: CommandLine, args: list[str], code: int, texts: list[str]) -> None:
    for more in ([], ["--write"]):
        done = qk_mcp("install", *args, *more)
        assert done.code == code
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert all(text in done.stderr for text in texts), done.stderr
        assert not (qk_mcp.home / ".cursor").exists()


# Writing into a file

_FILES = {client.name: client for client in CLIENTS if client.format != "yaml"}


@pytest.mark.parametrize("client", _FILES)
def test_write_and_uninstall_without_the_clients_own_command(qk_mcp: CommandLine, app: Path, client: str) -> None:
    shown = qk_mcp("install", client, "--project", f"app:{app}")
    done = qk_mcp("install", client, "--project", f"app:{app}", "--write")
    assert done.code == 0, done.stderr
    assert done.stdout == ""
    [file] = [path for path in qk_mcp.home.rglob("*") if path.is_file()]
    assert file.read_text() == shown.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert str(file) in done.stderr

    again = qk_mcp("install", client, "--project", f"app:{app}", "--write")
    assert (again.code, again.stdout) == (0, "")
    assert "already" in again.stderr
    assert file.read_text() == shown.stdout

    gone = qk_mcp("uninstall", client, "--write")
    assert (gone.code, gone.stderr) == (0, f"removed qk-mcp from {file}, which had nothing else\n")
    assert not file.exists()
    missing = qk_mcp("uninstall", client)
    assert missing.code == 1
    assert "no server named 'qk-mcp'" in missing.stderr


_CURSOR = """\
{
    "mcpServers": {
        "github": {"command": "npx",   "args": ["-y", "gh"]},
        "paid":   {"url": "https://example.com/mcp", "headers": {"Größe": 1e3}}
    },

    "other": [1,2,   3]
}"""


def test_everything_else_stays_byte_for_byte(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    for text in (_CURSOR, _CURSOR.replace("\n", "\r\n"), "\ufeff" + _CURSOR):
        file.write_bytes(text.encode())
        file.chmod(0o640)
        done = qk_mcp("install", "cursor", "--write")
        assert done.code == 0, done.stderr
        written = file.read_bytes().decode()
        before, _, after = written.partition(',\r\n        "qk-mcp"' if "\r" in text else ',\n        "qk-mcp"')
        assert text.startswith(before)
        assert text.endswith(after[after.index("\n        }") + 10 :])
        assert ("\n" in written.replace("\r\n", "")) is ("\r" not in text)
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        backup = file.with_name("mcp.json.qk-mcp-backup")
        assert str(backup) in done.stderr
        assert backup.read_bytes() == text.encode()
        assert not backup.stat().st_mode & 0o077
        assert sorted(path.name for path in file.parent.iterdir()) == ["mcp.json", "mcp.json.qk-mcp-backup"]
        assert qk_mcp("uninstall", "cursor").code == 0
        assert file.read_bytes() == text.encode()
        for each in file.parent.glob("*.qk-mcp-backup*"):
            each.unlink()


def test_no_backup_is_written_over_another(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(_CURSOR)
    for command in (["install", "cursor", "--write"], ["uninstall", "cursor"], ["install", "cursor", "--write"]):
        assert qk_mcp(*command).code == 0
    kept = {path.name: path.read_text() for path in file.parent.glob("*.qk-mcp-backup*")}
    assert kept == {"mcp.json.qk-mcp-backup": _CURSOR, "mcp.json.qk-mcp-backup-2": file.read_text()}


def test_a_toml_file_keeps_its_comments(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".codex" / "config.toml"
    file.parent.mkdir()
    for text in ('model = "m" # mine\n\n[mcp_servers.gh]\ncommand = "npx"\n', "# only this", "", "a = 1\r\n"):
        file.write_bytes(text.encode())
        assert qk_mcp("install", "codex", "--write").code == 0
        written = file.read_bytes().decode()
        assert written.startswith(text)
        entry = tomllib.loads(written)["mcp_servers"]["qk-mcp"]
        assert [entry["command"], *entry["args"]] == SERVE
        assert (entry["startup_timeout_sec"], entry["tool_timeout_sec"]) == (30, 3600)
        assert qk_mcp("uninstall", "codex").code == 0
        assert file.read_bytes().decode() == text


def test_another_command_needs_force_which_keeps_the_other_settings(qk_mcp: CommandLine, app: Path) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"qk-mcp": {"env": {"A": "b"}, "command": "qk-mcp", "args": ["serve"]}, "z": {}}}')
    before = file.read_bytes()
    done = qk_mcp("install", "cursor", "--write", "--project", f"app:{app}")
    assert done.code == 1
    assert "present: qk-mcp serve\n" in done.stderr
    assert f"new:     {' '.join(SERVE)} --project 'app:{app}'\n" in done.stderr
    assert "--force" in done.stderr
    assert file.read_bytes() == before

    assert qk_mcp("install", "cursor", "--write", "--force", "--project", f"app:{app}").code == 0
    servers = _json(file)["mcpServers"]
    assert list(servers) == ["qk-mcp", "z"]
    assert servers["qk-mcp"] == {
        "env": {"A": "b"}, "command": sys.executable, "args": [*SERVE[1:], "--project", f"app:{app}"]
    }  # fmt: skip


def test_force_in_a_toml_file(qk_mcp: CommandLine, app: Path) -> None:
    file = qk_mcp.home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(
        '[mcp_servers.qk-mcp]\ncommand = "x"\nenabled = false\n[mcp_servers.qk-mcp.env]\nA = "b"\n\n[z]\nq = 1 # q\n'
    )
    assert qk_mcp("install", "codex", "--write", "--project", f"app:{app}").code == 1
    assert qk_mcp("install", "codex", "--write", "--project", f"app:{app}", "--force").code == 0
    assert file.read_text().startswith("\n[z]\nq = 1 # q\n")
    entry = tomllib.loads(file.read_text())["mcp_servers"]["qk-mcp"]
    assert entry == {
        "command": sys.executable,
        "args": [*SERVE[1:], "--project", f"app:{app}"],
        "enabled": False,
        "startup_timeout_sec": 30,
        "tool_timeout_sec": 3600,
        "env": {"A": "b"},
    }


def test_a_link_stays_a_link(qk_mcp: CommandLine, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles" / "mcp.json"
    dotfiles.parent.mkdir()
    dotfiles.write_text('{"mcpServers": {}}\n')
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.symlink_to(dotfiles)
    assert qk_mcp("install", "cursor", "--write").code == 0
    assert file.readlink() == dotfiles
    assert "qk-mcp" in _json(dotfiles)["mcpServers"]
    assert [path.name for path in dotfiles.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"mcpServers": {},,}', "It is broken: "),
        (b'{"mcpServers": ', "It is broken: "),
        (b"[]", "It is not an object."),
        (b'{"mcpServers": []}', "Its 'mcpServers' is not an object."),
        (b'{"mcpServers": {"a": "\xff"}}', "It is not UTF-8."),
        (b'{"mcpServers": {"a": 1}, "mcpServers": {"b": 1}, "a": 1, "a": 2}', ""),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused(qk_mcp: CommandLine, content: bytes, why: str) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_bytes(content)
    done = qk_mcp("install", "cursor", "--write")
    if not why:  # a key twice is no hindrance: the last one counts, as everywhere
        assert done.code == 0
        return
    assert done.code == 1
    assert why in done.stderr
    assert str(file) in done.stderr
    assert file.read_bytes() == content
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"]
    if "mcpServers" in why:
        assert '"command": ' in done.stderr, "what to write by hand is shown"


@pytest.mark.parametrize(
    "text",
    [
        '{\n  // mine\n  "mcpServers": {}\n}\n',
        '{"mcpServers": {},}',
        '// Zed\n{\n  "mcpServers": {\n    "a": {"command": "x"}, // one\n    /* two */\n  },\n  "z": 1,\n}\n',
        '{\n  "mcpServers": {\n    "a": {"command": "x"} // one\n  }\n}',
    ],
)
def test_comments_and_trailing_commas_stay(qk_mcp: CommandLine, text: str) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(text)
    assert qk_mcp("install", "cursor", "--write").code == 0
    assert read_jsonc(file.read_text())["mcpServers"]["qk-mcp"]["command"] == sys.executable
    assert qk_mcp("uninstall", "cursor").code == 0
    assert file.read_text() == text


def test_yaml_is_only_shown(qk_mcp: CommandLine) -> None:
    done = qk_mcp("install", "goose", "--write")
    assert done.code == 1
    assert "YAML" in done.stderr
    assert "    cmd: " in done.stderr
    file = qk_mcp.home / ".config" / "goose" / "config.yaml"
    assert not file.exists()
    file.parent.mkdir(parents=True)
    file.write_text(qk_mcp("install", "goose").stdout)
    assert "The server is there already." in qk_mcp("install", "goose").stderr
    taken = qk_mcp("uninstall", "goose")
    assert taken.code == 1
    assert "hint: remove 'qk-mcp' from its 'extensions' by hand" in taken.stderr


def test_a_directory_in_the_place_of_the_file_is_refused(qk_mcp: CommandLine) -> None:
    directory = qk_mcp.home / ".cursor" / "mcp.json"
    directory.mkdir(parents=True)
    done = qk_mcp("install", "cursor", "--write")
    assert done.code == 1
    assert "It is a directory." in done.stderr
    (qk_mcp.home / ".codeium").write_text("a file where a directory should be")
    done = qk_mcp("install", "windsurf", "--write")
    assert done.code == 1
    assert "Not a directory." in done.stderr


@not_root
def test_a_file_that_may_not_be_written_is_refused(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text("{}")
    file.chmod(0o400)
    done = qk_mcp("install", "cursor", "--write")
    assert done.code == 1
    assert "It may not be written." in done.stderr
    assert file.read_text() == "{}"


def test_two_installs_at_once_both_write_their_entry(qk_mcp: CommandLine) -> None:
    names = [f"s{number}" for number in range(6)]
    running = [qk_mcp.start("install", "cursor", "--write", "--name", name) for name in names]
    for process in running:
        process.communicate(timeout=60)
        assert process.returncode == 0
    file = qk_mcp.home / ".cursor" / "mcp.json"
    assert sorted(_json(file)["mcpServers"]) == names


# Taking out


def test_uninstall_removes_only_our_entries(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(
        '{"mcpServers": {"gh": {"command": "npx", "args": ["gh"]}, "web": {"url": "https://example.com"}, '
        '"tasks": {"command": "/gone/python", "args": ["-m", "qk_mcp", "serve"]}, "old": {"command": "qk-mcp"}}}'
    )
    before = file.read_bytes()
    for name, text in (("gh", "present: npx gh\n"), ("web", "present: https://example.com\n")):
        done = qk_mcp("uninstall", "cursor", "--name", name)
        assert done.code == 1
        assert f"the server {name!r} of Cursor is not qk-mcp" in done.stderr
        assert text in done.stderr
    done = qk_mcp("uninstall", "cursor")
    assert done.code == 1
    assert "hint: did you mean --name tasks or old?" in done.stderr
    assert file.read_bytes() == before
    for name in ("tasks", "old"):
        assert qk_mcp("uninstall", "cursor", "--name", name).code == 0
    assert list(_json(file)["mcpServers"]) == ["gh", "web"]


def test_uninstall_without_an_entry(qk_mcp: CommandLine) -> None:
    done = qk_mcp("uninstall", "cursor")
    assert done.code == 1
    assert "Cursor has no server named 'qk-mcp'" in done.stderr
    assert not (qk_mcp.home / ".cursor").exists()
    assert qk_mcp("uninstall").code == 2


# The client's own command


@pytest.mark.parametrize(
    ("client", "program", "add"),
    [
        ("claude-code", "claude", ["mcp", "add", "-s", "user", "qk-mcp", "--", *SERVE]),
        ("codex", "codex", ["mcp", "add", "qk-mcp", "--", *SERVE]),
        ("gemini", "gemini", ["mcp", "add", "-s", "user", "qk-mcp", SERVE[0], "--", *SERVE[1:]]),
        (
            "vscode",
            "code",
            [
                "--add-mcp",
                json.dumps({"name": "qk-mcp", "type": "stdio", "command": SERVE[0], "args": SERVE[1:]}),
            ],
        ),
    ],
)
def test_the_clients_own_command_is_preferred(
    qk_mcp: CommandLine, own_command: Any, client: str, program: str, add: list[str]
) -> None:
    path, calls = own_command(program)
    shown = qk_mcp("install", client, env=path)
    assert f"or run: {program} " in shown.stderr
    assert calls() == []
    done = qk_mcp("install", client, "--write", env=path)
    assert done.code == 0, done.stderr
    assert calls() == [add]
    assert f"ran: {program} " in done.stderr
    assert not [path for path in qk_mcp.home.rglob("*") if path.is_file()]


def test_a_command_that_does_nothing_is_noticed(qk_mcp: CommandLine, own_command: Any) -> None:
    path, _ = own_command("claude")
    file = qk_mcp.home / ".claude.json"
    done = qk_mcp("install", "claude-code", "--write", env=path)
    assert done.code == 0
    assert f"warning: the server is not in {file}" in done.stderr
    path, _ = own_command("claude", f"""echo '{{"mcpServers": {{"qk-mcp": {{}}}}}}' > '{file}'""")
    assert "is not in" not in qk_mcp("install", "claude-code", "--write", env=path).stderr


def test_an_existing_entry_is_edited_and_removed_by_the_clients_own_command(
    qk_mcp: CommandLine, own_command: Any
) -> None:
    """The command would drop what the user has written into the entry; one that fails in the middle, the entry."""
    path, calls = own_command("claude")
    file = qk_mcp.home / ".claude.json"
    kept = {"env": {"A": "1"}, "timeout": 5}
    file.write_text(json.dumps({"mcpServers": {"qk-mcp": {"command": "qk-mcp", "args": ["serve"], **kept}}}))
    assert qk_mcp("install", "claude-code", "--write", env=path).code == 1
    assert qk_mcp("install", "claude-code", "--write", "--force", env=path).code == 0
    assert calls() == []
    entry = _json(file)["mcpServers"]["qk-mcp"]
    assert [entry["command"], *entry["args"]] == SERVE
    assert {key: entry[key] for key in kept} == kept
    assert qk_mcp("uninstall", "claude-code", env=path).code == 0
    assert calls() == [["mcp", "remove", "-s", "user", "qk-mcp"]]


def test_settings_of_the_user_stay(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('[mcp_servers.qk-mcp]\ncommand = "qk-mcp"\nstartup_timeout_sec = 60\ntool_timeout_sec = 900\n')
    assert qk_mcp("install", "codex", "--write", "--force").code == 0
    entry = tomllib.loads(file.read_text())["mcp_servers"]["qk-mcp"]
    assert [entry["command"], *entry["args"]] == SERVE
    assert (entry["startup_timeout_sec"], entry["tool_timeout_sec"]) == (60, 900)


def test_uninstall_edits_the_file_if_the_clients_command_can_only_add(qk_mcp: CommandLine, own_command: Any) -> None:
    path, calls = own_command("code")
    assert qk_mcp("install", "vscode", "--write").code == 0
    assert qk_mcp("uninstall", "vscode", env=path).code == 0
    assert calls() == []
    assert not (qk_mcp.home / ".config" / "Code" / "User" / "mcp.json").exists()


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("echo 'not logged in' >&2; exit 3", ["failed with exit code 3: codex mcp add", "  not logged in\n"]),
        ("kill -9 $$", ["failed with exit code -9"]),
    ],
)
def test_when_the_clients_own_command_fails(qk_mcp: CommandLine, own_command: Any, body: str, texts: list[str]) -> None:
    path, _ = own_command("codex", body)
    done = qk_mcp("install", "codex", "--write", env=path)
    assert done.code == 1
    assert all(text in done.stderr for text in texts), done.stderr
    assert "hint: qk-mcp install codex shows what to write" in done.stderr


def test_codex_gets_its_time_limits_also_by_its_own_command(qk_mcp: CommandLine, own_command: Any) -> None:
    file = qk_mcp.home / ".codex" / "config.toml"
    file.parent.mkdir()
    table = '[mcp_servers.qk-mcp]\ncommand = "own"\nargs = []\n'
    path, _ = own_command("codex", f"""printf '%s' '{table}' > '{file}'""")
    assert qk_mcp("install", "codex", "--write", env=path).code == 0
    entry = tomllib.loads(file.read_text())["mcp_servers"]["qk-mcp"]
    assert (entry["startup_timeout_sec"], entry["tool_timeout_sec"]) == (30, 3600)


@pytest.mark.parametrize(
    "text",
    ['mcp_servers = "x"\n', "[[mcp_servers]]\na = 1\n", '[mcp_servers]\nqk-mcp = "x"\n', "[[mcp_servers.qk-mcp]]\n"],
)
def test_an_odd_toml_file_gets_a_message(qk_mcp: CommandLine, text: str) -> None:
    file = qk_mcp.home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    done = qk_mcp("install", "codex", "--write", "--force")
    assert done.code == 1
    assert done.stderr.startswith("warning: ")
    assert "is not a table." in done.stderr
    assert "hint: write this by hand" in done.stderr
    assert qk_mcp("uninstall", "codex").stderr.startswith("error: ")
    assert file.read_text() == text


def test_uninstall_restores_the_original_bytes(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    original = "// Zed\n{}"
    file.write_text(original)
    assert qk_mcp("install", "zed", "--write").code == 0
    installed = file.read_text()
    assert qk_mcp("uninstall", "zed").code == 0
    assert file.read_text() == original
    file.write_text(installed.replace("// Zed", "// mine"))
    assert qk_mcp("uninstall", "zed").code == 0
    assert read_jsonc(file.read_text()) == {"context_servers": {}}, "another change is not undone"
    assert file.read_text().startswith("// mine")


def test_a_foreign_server_with_our_name_among_its_arguments_stays(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    foreign = {"command": "npx", "args": ["files", "/home/me/qk-mcp"]}
    file.write_text(json.dumps({"mcpServers": {"qk-mcp": foreign}}))
    before = file.read_text()
    done = qk_mcp("uninstall", "cursor")
    assert done.code == 1
    assert "the server 'qk-mcp' of Cursor is not qk-mcp" in done.stderr
    assert file.read_text() == before


def test_a_client_on_path_is_installed_although_its_directory_does_not_exist(
    qk_mcp: CommandLine, own_command: Any
) -> None:
    path, calls = own_command("opencode")
    assert "is opencode installed?" not in qk_mcp("install", "opencode", "--write", env=path).stderr
    assert "is Windsurf installed?" in qk_mcp("install", "windsurf", "--write", env=path).stderr
    assert calls() == []


def test_the_clients_own_command_reads_an_empty_stdin(qk_mcp: CommandLine, own_command: Any) -> None:
    path, _ = own_command("codex", "read answer && exit 9; exit 0")
    assert qk_mcp("install", "codex", "--write", env=path).code == 0


# Permissions


@pytest.mark.long
def test_permissions_are_those_of_the_tools_that_change_nothing(qk_mcp: CommandLine, tmp_path: Path) -> None:
    root = make_project(tmp_path / "shop", "from quickie import task\n\n@task\ndef lint(): pass\n")
    qk_mcp("projects", "add", f"shop:{root}")
    config = next(path for path in qk_mcp.home.rglob("*.toml"))
    config.write_text(f'[projects.shop]\npath = "{root}"\ntools = ["*"]\nread_only = ["lint"]\n')
    settings = qk_mcp.home / ".claude" / "settings.json"
    shown = qk_mcp("install", "claude-code", "--permissions")
    assert '+      "mcp__qk-mcp__list_tasks",' in shown.stderr
    assert not settings.exists()
    done = qk_mcp("install", "claude-code", "--permissions", "--write")
    assert done.code == 0, done.stderr
    allowed = _json(settings)["permissions"]["allow"]
    assert any(rule.endswith("lint") for rule in allowed)
    assert "mcp__qk-mcp__list_tasks" in allowed
    assert "mcp__qk-mcp__run_task" not in allowed
    assert "already" in qk_mcp("install", "claude-code", "--permissions", "--write").stderr
    qk_mcp("uninstall", "claude-code")
    assert not settings.exists()


def test_permissions_of_codex_are_for_every_tool(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".codex" / "config.toml"
    assert "run_task" in qk_mcp("install", "codex", "--permissions").stderr
    assert not file.exists()
    qk_mcp("install", "codex", "--write")
    assert "default_tools_approval_mode" not in file.read_text()
    done = qk_mcp("install", "codex", "--permissions", "--write")
    assert "run_task" in done.stderr
    entry = tomllib.loads(file.read_text())["mcp_servers"]["qk-mcp"]
    assert (entry["default_tools_approval_mode"], entry["command"]) == ("approve", sys.executable)


@pytest.mark.parametrize("words", [("cursor",), ("claude-code", "--scope", "project")])
def test_permissions_are_refused_where_there_are_none(qk_mcp: CommandLine, words: tuple[str, ...]) -> None:
    done = qk_mcp("install", *words, "--permissions")
    assert done.code == 2
    assert "--permissions" in done.stderr


# Rules


def test_an_entry_that_goes_past_the_rules_is_warned_about(qk_mcp: CommandLine, tmp_path: Path) -> None:
    root = make_project(tmp_path / "shop", "")
    assert qk_mcp("projects", "add", f"shop:{root}").code == 0
    assert "do not hold" not in qk_mcp("install", "cursor", "--project", f"other:{root}").stderr
    assert qk_mcp("projects", "set", "shop", "deny", "deploy").code == 0
    warning = qk_mcp("install", "cursor", "--project", f"other:{root}").stderr
    assert f"the rules in {qk_mcp.config} do not hold for 'other' in this server" in warning
    assert "do not hold" not in qk_mcp("install", "cursor").stderr
