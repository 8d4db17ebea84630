"""The commands that start the server."""

import sys
from pathlib import Path
from typing import get_args

import pytest

from qk_mcp.clients.entries import starts_qk_mcp
from qk_mcp.clients.launchers import Launcher, cache_of, default_launcher, launch_words


@pytest.mark.parametrize("launcher", get_args(Launcher))
def test_doctor_and_uninstall_know_each_command(launcher: Launcher) -> None:
    for shared in (False, True):
        assert starts_qk_mcp(launch_words(launcher, shared=shared))


@pytest.mark.parametrize("launcher", ["uvx", "python"])
def test_a_shared_command_names_no_path(launcher: Launcher) -> None:
    assert not [word for word in launch_words(launcher, shared=True) if "/" in word]


def test_a_command_of_ones_own_finds_uvx_with_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uvx = tmp_path / "uvx"
    uvx.write_text("")
    uvx.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launch_words("uvx", shared=False)[0] == str(uvx)
    assert launch_words("this", shared=False)[0] == sys.executable


def test_a_cache_is_known_by_its_mark_or_name(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "CACHEDIR.TAG").touch()
    assert cache_of(tmp_path / "cache" / "archive-v0" / "x") == tmp_path / "cache"
    assert cache_of(tmp_path / ".cache" / "pipx" / "x") == tmp_path / ".cache"
    assert cache_of(tmp_path / "tools" / "x") is None


def test_a_shared_file_gets_uvx() -> None:
    assert default_launcher({}, shared=True) == "uvx"
    assert default_launcher({"UV": "/bin/uv"}, shared=False) == "this"  # `uv run`, not from a cache
