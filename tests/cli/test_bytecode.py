"""`install --write` leaves no slow first start behind."""

from pathlib import Path

import pytest

from tests.support.cli import CommandLine


@pytest.mark.long
def test_the_first_start_after_an_installation_finds_bytecode(qk_mcp: CommandLine, tmp_path: Path) -> None:
    cache = tmp_path / "pycache"
    environ = {"PYTHONPYCACHEPREFIX": str(cache)}
    first = qk_mcp("install", "cursor", "--write", env=environ)
    assert first.code == 0
    assert "compiling the server" in first.stderr
    names = {path.name.split(".")[0] for path in cache.rglob("*.pyc")}
    assert {"stdio", "prefab_payload", "streamable_http"} <= names
    again = qk_mcp("install", "cursor", "--write", env=environ)
    assert again.code == 0
    assert "compiling the server" not in again.stderr
