"""How long the known MCP clients wait for the answer of a call, by the name that they give in the protocol."""

__all__ = ["patience_of"]

_PATIENCE = {
    "claude-ai": 60.0,  # Claude Desktop; fixed
    "codex-mcp-client": 60.0,  # `tool_timeout_sec`; it sends no cancellation
    "cursor": 60.0,  # cursor-vscode
    "gemini-cli-mcp-client": 600.0,  # `timeout`; it appends the server's name to its own
}
"""Seconds by the beginning of the name. Claude Code is not here: it moves long calls to the background itself."""


def patience_of(client: str) -> float | None:
    """Return the seconds after which the client of that name gives up on a call; None if they are unknown."""
    name = client.casefold()
    return next((seconds for known, seconds in _PATIENCE.items() if name.startswith(known)), None)
