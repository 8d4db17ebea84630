"""Asks the person at the client whether a task may run, in both eras of the protocol.

Before 2026-07-28, the server sends a question and waits for the answer. From then on, the call's result is the
question; the client calls again with the answer and with the state, which the framework seals. A question is good for
one run.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from fastmcp.server.context import Context
from fastmcp.tools.base import InputRequiredToolResult
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from qk_mcp.errors import QkMcpError
from qk_mcp.text import shell_line, shorten

__all__ = ["WAIT", "ConsentPending", "NoConsent", "Question", "Questions"]

WAIT = 120.0
"""Seconds that a person has for an answer."""
_KEPT = 100
"""Questions whose answers are waited for at the same time, in the newer protocol."""
_LONGEST = 4_000
"""Characters of a question. A longer one is not asked: a person must see all of it."""
_FIELD = "run"
_REQUEST = "consent"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_FIELD: {"type": "boolean", "title": "Run it", "description": "Yes runs this task once."}},
    "required": [_FIELD],
}
"""A required boolean: some clients accept an empty form without showing it."""


class NoConsent(Exception):
    """No person has agreed; the message says what came instead."""


class ConsentPending(QkMcpError):
    """The person must answer first: `result` is the question, and the result of the call."""

    def __init__(self, result: InputRequiredToolResult) -> None:
        super().__init__("a person must agree first", "The client has the question.")
        self.result = result


@dataclass(frozen=True, slots=True)
class Question:
    """Whether one task may run; an answer is for exactly these arguments."""

    project: str
    root: str
    words: Sequence[str]
    """The command line of the task."""
    names: Sequence[str]
    stdin: str
    location: str
    rule: str

    def text(self) -> str:
        """Return what the person reads, with everything invisible escaped. Raises NoConsent if it is too long."""
        name, *aliases = self.names
        lines = [
            f"May the agent run this task of {shell_line([self.project])}?",
            "",
            f"    {shell_line(self.words)}",
            "",
            f"task: {shell_line([name])}" + (f" (aliases: {shell_line(aliases)})" if aliases else ""),
            f"in: {shell_line([self.root])}",
            f"defined at: {self.location or 'not known'}",
            *([f"standard input: {shell_line([self.stdin])}"] if self.stdin else []),
            f"asked because of: {self.rule}",
        ]
        text = "\n".join(lines)
        if len(text) > _LONGEST:
            raise NoConsent("its arguments or its standard input are too long to show to a person")
        return text


class Questions:
    """The questions of one server."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[Question, float]] = {}
        """What was asked by results of calls, and when, by the state that comes back."""

    async def ask(self, question: Question, context: Context) -> None:
        """Return if the person agrees. Raises NoConsent, and ConsentPending if the client must call again."""
        capabilities = context.session.client_capabilities
        elicitation = capabilities.elicitation if capabilities else None
        if elicitation is None or (elicitation.form is None and elicitation.url is not None):
            raise NoConsent("the client cannot ask a person")
        text = question.text()
        if context._is_modern_protocol():
            _check_answer(self._answer(question, text, context))
        else:
            _check_answer(await _answer_to(text, context))

    def _answer(self, question: Question, text: str, context: Context) -> Any:
        """Return the client's answer to this very question. Raises ConsentPending if it has not been asked yet."""
        asked, at = self._asked.pop(context.request_state or "", (None, 0.0))
        if asked != question:
            raise ConsentPending(self._put(question, text))
        if time.monotonic() - at > WAIT:
            raise NoConsent(f"the answer came after more than {WAIT:g} s")
        return (context.input_responses or {}).get(_REQUEST)

    def _put(self, question: Question, text: str) -> InputRequiredToolResult:
        state = secrets.token_hex(16)
        if len(self._asked) >= _KEPT:
            del self._asked[next(iter(self._asked))]
        self._asked[state] = question, time.monotonic()
        request = ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=_SCHEMA))
        return InputRequiredToolResult(InputRequiredResult(input_requests={_REQUEST: request}, request_state=state))


async def _answer_to(text: str, context: Context) -> ElicitResult:
    try:
        with anyio.fail_after(WAIT):
            return await context.session.elicit_form(text, _SCHEMA, context.request_id)
    except TimeoutError:
        raise NoConsent(f"nobody answered within {WAIT:g} s") from None
    except MCPError as error:
        raise NoConsent(f"the client could not ask ({shorten(error.error.message, 200)})") from None
    except ValueError:  # pydantic's
        raise NoConsent("the client's answer is malformed") from None


def _check_answer(answer: Any) -> None:
    """Return if a client's answer is a yes. Raises NoConsent."""
    match answer:
        case ElicitResult(action="accept", content={"run": True}):
            return
        case ElicitResult(action="accept"):
            raise NoConsent("the answer was not yes")
        case ElicitResult(action="decline"):
            raise NoConsent("the client declined the question; some clients do so without showing it to anybody")
        case ElicitResult(action="cancel"):
            raise NoConsent("the question was closed without an answer")
    raise NoConsent("the client gave no answer")
