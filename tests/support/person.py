"""A client with a person who answers the server's questions."""

from collections.abc import Sequence
from typing import Any, ClassVar

from tests.support.answers import Answer
from tests.support.client import MODERN, Call, Client
from tests.support.schema import Frame

__all__ = ["YES", "Asking"]

YES: Frame = {"action": "accept", "content": {"run": True}}


class Asking(Client):
    """A client that can ask a person. `replies` are the next answers; None leaves a question unanswered."""

    capabilities: ClassVar[Frame] = {"elicitation": {}}

    def __init__(self, *args: Any, **options: Any) -> None:
        self.questions: list[Frame] = []
        """The parameters of the questions so far."""
        self.replies: list[Frame | None] = []
        super().__init__(*args, **options)

    def asked(self, frame: Frame) -> None:
        """Answer a question of the older protocol."""
        assert frame["method"] == "elicitation/create", frame
        self.questions.append(frame["params"])
        reply = self.replies.pop(0) if self.replies else None
        if reply is not None:
            end = {"error": reply} if "code" in reply else {"result": reply}
            self.send({"jsonrpc": "2.0", "id": frame["id"]} | end)

    def ask_and_run(self, replies: Sequence[Frame | None], task_name: str, *args: str, **more: Any) -> Answer:
        """Run a task, give the person's `replies` in either protocol, and return the last answer."""
        self.replies = list(replies)
        arguments = {"task_name": task_name, "args": list(args), **more}
        answer = self.call("run_task", **arguments)
        while self.version == MODERN and answer.result.get("resultType") == "input_required" and self.replies:
            answer = self.answer_question(answer, arguments, self.replies.pop(0)).wait()
        return answer

    def answer_question(self, asked: Answer, arguments: Frame, reply: Frame | None) -> Call:
        """Call `run_task` again with the answer to a question of the newer protocol."""
        [(name, request)] = asked.result["inputRequests"].items()
        self.questions.append(request["params"])
        more: Frame = {"requestState": asked.result["requestState"]}
        if reply is not None:
            more["inputResponses"] = {name: reply}
        return self.request("tools/call", {"name": "run_task", "arguments": arguments, **more}, log_level="debug")
