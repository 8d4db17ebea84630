"""Tool results: the same JSON as text and as structured content, and errors.

Every text that a client receives passes through here, or through `qk_mcp.text.encodable`: paths and arguments may
contain lone surrogates, which cannot be sent.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastmcp.tools import Tool, ToolResult
from mcp_types import TextContent

from qk_mcp.text import encodable

__all__ = ["Answer", "AnsweringTool", "tool_answer", "tool_error"]

type Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]
"""Answers a call of a tool."""


class AnsweringTool(Tool):
    """A tool with hand-written schemas; `answer` receives the arguments as the client sent them."""

    answer: Any

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Return the answer to one call."""
        # FastMCP imports this when it has the answer, which would be lost if no file can be opened then.
        import fastmcp.server.providers.prefab_payload  # noqa: F401

        result: ToolResult = await self.answer(arguments)
        return result


def tool_answer(structured: Mapping[str, Any], text: str | None = None) -> ToolResult:
    """Return a successful result. `text` is the text form; by default the JSON of `structured`."""
    text = json.dumps(structured, ensure_ascii=False) if text is None else text
    if (clean := encodable(text)) != text:
        text, structured = clean, json.loads(encodable(json.dumps(structured, ensure_ascii=False)))
    return ToolResult([TextContent(type="text", text=text)], dict(structured))


def tool_error(message: str) -> ToolResult:
    """Return a failed result, which a model reads as text."""
    return ToolResult([TextContent(type="text", text=encodable(message))], is_error=True)
