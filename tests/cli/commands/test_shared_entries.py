"""`install --scope project`: an entry for everybody who works on a project."""

import json
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from qk_mcp.clients.known import CLIENTS
from tests.support.cli import CommandLine
from tests.support.environment import BARE_PATH, scrubbed
from tests.support.projects import make_project
from tests.support.serving import serving

UVX = ["uvx", "--python", ">=3.12", "--from", "qk-mcp[quickie]", "python", "-E", "-P", "-m", "qk_mcp", "serve"]
FILES = {client.name: client.project_file for client in CLIENTS if client.project_file}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_project(tmp_path / "work" / "shop", "from quickie import task\n@task\ndef hi(): print('hello')\n")


def _servers(file: Path) -> Any:
    data = tomllib.loads(file.read_text()) if file.suffix == ".toml" else json.loads(file.read_text())
    return next(iter(data.values()))


@pytest.mark.parametrize("client", FILES)
def test_the_file_can_be_committed(qk_mcp: CommandLine, shop: Path, client: str) -> None:
    inside = shop / "src"
    inside.mkdir()
    shown = qk_mcp("install", client, "--scope", "project", cwd=shop)
    done = qk_mcp("install", client, "--scope", "project", "--write", cwd=inside)
    assert (done.code, done.stdout) == (0, "")
    file = shop / FILES[client]
    assert f"added qk-mcp to {file}\n" in done.stderr
    assert f"then: commit {FILES[client]}, then " in done.stderr
    assert file.read_text() == shown.stdout
    entry = _servers(file)["qk-mcp"]
    assert (entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]) == UVX
    assert str(shop.parent) not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~_umask(shop)
    assert not [path for path in qk_mcp.home.rglob("*") if path.is_file()], "the user's own files are not touched"

    assert "already" in qk_mcp("install", client, "--scope", "project", "--write", cwd=shop).stderr
    gone = qk_mcp("uninstall", client, "--scope", "project", cwd=shop)
    assert (gone.code, gone.stderr) == (0, f"removed qk-mcp from {file}, which had nothing else\n")
    assert list(file.parent.iterdir()) == [] or file.parent == shop
    assert list(shop.rglob("*backup*")) == []


def _umask(directory: Path) -> int:
    (directory / "new").touch()
    return 0o666 & ~stat.S_IMODE((directory / "new").stat().st_mode)


def test_other_entries_of_the_file_stay(qk_mcp: CommandLine, shop: Path) -> None:
    file = shop / ".mcp.json"
    file.write_text('{"mcpServers": {"gh": {"command":   "npx"}}}\n')
    file.chmod(0o640)
    assert qk_mcp("install", "claude-code", "--scope", "project", "--write", cwd=shop).code == 0
    assert list(_servers(file)) == ["gh", "qk-mcp"]
    assert '"gh": {"command":   "npx"}' in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert qk_mcp("uninstall", "claude-code", "--scope", "project", cwd=shop).code == 0
    assert file.read_text() == '{"mcpServers": {"gh": {"command":   "npx"}}}\n'


@pytest.mark.long
def test_what_the_entry_starts_serves_the_project(qk_mcp: CommandLine, shop: Path, tmp_path: Path) -> None:
    """With the Python on PATH, and with a program that takes the words of uvx and installs nothing."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, skipped in {"python": 0, "uvx": 5}.items():
        (programs / name).write_text(f'#!/bin/sh\nshift {skipped}\nexec {sys.executable} "$@"\n')
        (programs / name).chmod(0o755)
    path = {"PATH": f"{programs}:{BARE_PATH}"}
    for launcher in ("uvx", "python"):
        qk_mcp("install", "cursor", "--scope", "project", "--launcher", launcher, "--write", "--force", cwd=shop)
        entry = _servers(shop / ".cursor" / "mcp.json")["qk-mcp"]
        command = [str(programs / entry["command"]), *entry["args"]]
        with serving(tmp_path / launcher, None, command=command, cwd=shop, environ=path) as client:
            assert client.run("hi").data["stdout"] == "hello\n"

    checked = qk_mcp("doctor", "--project-files", "--json", cwd=shop, env=path)
    [row] = [check for check in json.loads(checked.stdout)["checks"] if check["check"] == "Cursor"]
    assert row["status"] == "ok", row


def test_projects_below_the_directory_are_named_by_relative_paths(qk_mcp: CommandLine, shop: Path) -> None:
    done = qk_mcp("install", "codex", "--scope", "project", "--project", f"shop:{shop}", cwd=shop.parent)
    assert tomllib.loads(done.stdout)["mcp_servers"]["qk-mcp"]["args"] == [*UVX[1:], "--project", "shop:shop"]
    assert f"Codex reads {shop.parent}/.codex/config.toml for everybody" in done.stderr


def test_an_entry_of_ones_own_can_use_uvx(qk_mcp: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "uvx").write_text("")
    (tmp_path / "uvx").chmod(0o755)
    done = qk_mcp("install", "cursor", "--launcher", "uvx", env={"PATH": f"{tmp_path}:{BARE_PATH}"})
    entry = json.loads(done.stdout)["mcpServers"]["qk-mcp"]
    assert [entry["command"], *entry["args"]] == [str(tmp_path / "uvx"), *UVX[1:]]


def test_under_uvx_everything_is_said_for_uvx(tmp_path: Path, shop: Path) -> None:
    """In an environment like those of uvx: in a cache, and gone when the cache is cleaned."""
    cache = tmp_path / "cache"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", cache / "archive-v0" / "x"], check=True)
    (cache / "CACHEDIR.TAG").touch()
    [site] = (cache / "archive-v0" / "x" / "lib").glob("python*/site-packages")
    (site / "tests.pth").write_text("\n".join(path for path in sys.path if path))
    environ = scrubbed(tmp_path / "home", UV="/usr/bin/uv")
    program = [str(cache / "archive-v0" / "x" / "bin" / "python"), "-m", "qk_mcp"]

    done = subprocess.run([*program, "install", "cursor"], cwd=shop, env=environ, capture_output=True, text=True)
    entry = json.loads(done.stdout)["mcpServers"]["qk-mcp"]
    assert [entry["command"], *entry["args"]] == UVX
    assert f"or let qk-mcp do it: {shlex.join(UVX[:-1])} install cursor --write\n" in done.stderr
    assert "is in a cache" not in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "texts"),
    [
        (["goose"], 2, ["Goose has no file for a single project", "claude-code, cursor, vscode", "leave --scope out"]),
        (["cursor", "--config", "x.toml"], 2, ["a config at x.toml cannot be in a file that others share"]),
        (["cursor", "--project", "other:../other"], 2, ["/other cannot be in a file that others share"]),
    ],
)
def test_what_others_do_not_have_is_refused(
    qk_mcp: CommandLine, shop: Path, args: list[str], code: int, texts: list[str]
) -> None:
    make_project(shop.parent / "other", "")
    done = qk_mcp("install", *args, "--scope", "project", "--write", cwd=shop)
    assert (done.code, done.stdout) == (code, "")
    assert all(text in done.stderr for text in texts), done.stderr
    assert [path.name for path in shop.iterdir()] == ["_qk"]


def test_without_a_project_here_there_is_no_root(qk_mcp: CommandLine, tmp_path: Path) -> None:
    done = qk_mcp("install", "cursor", "--scope", "project", "--write", cwd=tmp_path)
    assert done.code == 1
    assert f"there is no project at {tmp_path}" in done.stderr
    assert "--project NAME:PATH" in done.stderr
