"""Reading the servers of a client's file."""

from pathlib import Path

import pytest

from qk_mcp.clients.entries import launch_of, snippet
from qk_mcp.clients.files import read_servers
from qk_mcp.clients.known import CLIENTS, Client

_LAUNCH = ["/opt/my python/bin/python", "-E", "-P", "-m", "qk_mcp", "serve", "--project", 'a:/x "y" ü/#z']


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_snippet_can_be_read_back(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(snippet(client, "tasks", _LAUNCH), encoding="utf-8")
    found = read_servers(client, file)
    assert list(found) == ["tasks"]
    assert launch_of(client, found["tasks"]) == _LAUNCH
