"""Messages from a server."""

import json
from dataclasses import dataclass
from typing import Any

from tests.support.schema import Frame

__all__ = ["Answer", "Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """A frame that the server sent, and when it arrived (monotonic seconds)."""

    at: float
    frame: Frame

    @property
    def params(self) -> Frame:
        """The parameters of a notification."""
        params: Frame = self.frame["params"]
        return params


class Answer(Message):
    """The answer to a request."""

    __slots__ = ()

    @property
    def error(self) -> Frame:
        """The JSON-RPC error."""
        assert "error" in self.frame, f"an error was expected: {self.frame}"
        error: Frame = self.frame["error"]
        return error

    @property
    def result(self) -> Frame:
        """The result of the request."""
        assert "result" in self.frame, f"a result was expected: {self.frame}"
        result: Frame = self.frame["result"]
        return result

    @property
    def is_error(self) -> bool:
        """Whether the tool failed (a failed request has `error`)."""
        return bool(self.result.get("isError", False))

    @property
    def text(self) -> str:
        """The text of a tool's result."""
        blocks = self.result["content"]
        assert len(blocks) == 1, blocks
        assert blocks[0]["type"] == "text", blocks
        text: str = blocks[0]["text"]
        return text

    @property
    def refusal(self) -> str:
        """The text of a tool error."""
        assert self.is_error, f"a tool error was expected: {self.text}"
        return self.text

    @property
    def data(self) -> Any:
        """The structured content of a tool's result; the text must be the same as JSON."""
        assert not self.is_error, self.text
        structured = self.result["structuredContent"]
        data = structured["result"] if set(structured) == {"result"} else structured
        assert json.loads(self.text) == data, "the text is not the JSON of the structured content"
        return data
