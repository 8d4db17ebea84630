"""The clients that `install` knows: their names."""

import pytest

from qk_mcp.clients.known import CLIENTS, find_client
from qk_mcp.errors import UnknownClient


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
def test_a_client_is_found_by_name_title_or_alias(text: str, name: str) -> None:
    assert find_client(text).name == name


def test_an_unknown_client_gets_suggestions_and_the_whole_list() -> None:
    with pytest.raises(UnknownClient) as caught:
        find_client("curser")
    assert caught.value.hint == "did you mean cursor?"
    assert all(client.name in caught.value.why for client in CLIENTS)
