"""`qk_mcp.clients.patience`: how long a client waits, by the name that it sends."""

import pytest

from qk_mcp.clients.patience import patience_of


@pytest.mark.parametrize(
    ("client", "seconds"),
    [
        ("codex-mcp-client", 60),
        ("claude-ai", 60),
        ("cursor-vscode", 60),
        ("Cursor", 60),
        ("gemini-cli-mcp-client-qk-mcp", 600),
        ("claude-code", None),
        ("opencode", None),
        ("", None),
    ],
)
def test_the_patience_of_a_client_is_known_or_not(client: str, seconds: float | None) -> None:
    assert patience_of(client) == seconds
