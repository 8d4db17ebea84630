"""The JSON-RPC client of the tests and the benchmark.

It speaks the protocol directly, without an SDK. By default it checks each message against the schema.
"""

import time
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.support.answers import Answer, Message
from tests.support.schema import Frame, SchemaFault, check_notification, check_result, check_structured
from tests.support.wire import PATIENCE, Wire

__all__ = ["LEGACY", "MODERN", "Call", "Client"]

LEGACY = "2025-11-25"
MODERN = "2026-07-28"

_META = "io.modelcontextprotocol/"
_INFO = {"name": "raw", "version": "1"}


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was sent."""

    client: "Client"
    id: int | str
    method: str
    sent_at: float

    @property
    def answered(self) -> bool:
        """Whether the answer has arrived."""
        return self.id in self.client.answers

    @property
    def progress(self) -> list[Message]:
        """The progress notifications of this request."""
        reports = self.client.notifications("notifications/progress")
        return [report for report in reports if report.params["progressToken"] == self.id]

    def wait(self, within: float = PATIENCE) -> Answer:
        """Return the answer; fail if it does not come."""
        self.client.until(lambda: self.answered, within, f"answer to {self.method} {self.id}")
        return self.client.answers[self.id]

    def first_report(self) -> Message:
        """Wait for the first progress notification and return it."""
        self.client.until(lambda: self.progress, what=f"progress of {self.method} {self.id}")
        return self.progress[0]

    def cancel(self, reason: str = "no longer needed") -> None:
        """Cancel the request."""
        self.client.notify("notifications/cancelled", {"requestId": self.id, "reason": reason})


class Client(Wire):
    """A client of one server; `version` is the negotiated protocol revision.

    Without `strict` it accepts messages that break the schema. Other arguments go to Wire.
    """

    capabilities: ClassVar[Frame] = {}

    def __init__(self, *args: Any, strict: bool = True, **options: Any) -> None:
        self.version = ""
        self._strict = strict
        self.answers: dict[int | str, Answer] = {}
        self._asked: dict[int | str, tuple[str, str | None]] = {}
        self._schemas: dict[str, Frame] = {}
        super().__init__(*args, **options)

    # Receiving

    def received(self, message: Message) -> None:
        """Keep an answer; check the message against the schema, and the answer against its request."""
        frame = message.frame
        if "method" in frame:
            if "id" in frame:
                self.asked(frame)
            elif self._strict:
                check_notification(self.version or LEGACY, frame)
        elif frame["id"] is not None or "result" in frame:  # an error without id answers what could not be read
            if self._strict:
                self._check_answer(frame)
            self.answers[frame["id"]] = Answer(message.at, frame)

    def asked(self, frame: Frame) -> None:
        """Handle a request of the server in the reader's thread; this client has no capability for any."""
        if self._strict:
            raise SchemaFault(f"the server sends a request: {frame}")

    def _check_answer(self, frame: Frame) -> None:
        if frame["id"] not in self._asked or frame["id"] in self.answers:
            raise SchemaFault(f"an answer without a request, or a second one: {frame}")
        method, tool = self._asked[frame["id"]]
        if "error" in frame:
            if not isinstance(frame["error"].get("code"), int) or not isinstance(frame["error"].get("message"), str):
                raise SchemaFault(f"an error without code or message: {frame}")
            return
        result = frame["result"]
        if method == "initialize":  # the other requests are checked by the revision that it answers
            self.version = result["protocolVersion"]
        check_result(method, self.version, result)
        if method == "tools/list":
            self._schemas = {entry["name"]: entry["outputSchema"] for entry in result["tools"]}
        if tool in self._schemas and not result.get("isError") and result.get("resultType") != "input_required":
            check_structured(self._schemas[tool], result["structuredContent"])

    def notifications(self, method: str) -> list[Message]:
        """Return the notifications of `method` so far."""
        return [message for message in list(self.messages) if message.frame.get("method") == method]

    def logs(self, level: str | None = None) -> list[str]:
        """Return the texts of the log messages so far."""
        logs = [message.params for message in self.notifications("notifications/message")]
        return [log["data"] for log in logs if level in (None, log["level"])]

    def hear(self, text: str, level: str | None = None) -> None:
        """Wait until a log message contains `text`."""
        self.until(lambda: any(text in log for log in self.logs(level)), what=f"log message with {text!r}")

    # Sending

    def expect(self, method: str, number: int | str, tool: str | None = None) -> Call:
        """Register a request that the test sends itself, and return it."""
        self._asked[number] = (method, tool)
        return Call(self, number, method, time.monotonic())

    def request(
        self, method: str, params: Frame | None = None, *, progress: bool = False, log_level: str | None = None
    ) -> Call:
        """Send a request. `progress` asks for progress; `log_level` asks for logs where the revision needs that."""
        number = len(self._asked) + 1
        meta: Frame = {"progressToken": number} if progress else {}
        if self.version == MODERN:
            meta |= {
                f"{_META}protocolVersion": MODERN,
                f"{_META}clientInfo": _INFO,
                f"{_META}clientCapabilities": self.capabilities,
            }
            if log_level:
                meta[f"{_META}logLevel"] = log_level
        body = dict(params or {}) | ({"_meta": meta} if meta else {})
        call = self.expect(method, number, body.get("name"))
        frame: Frame = {"jsonrpc": "2.0", "id": number, "method": method}
        self.send(frame | ({"params": body} if body else {}))
        return call

    def notify(self, method: str, params: Frame | None = None) -> None:
        """Send a notification."""
        frame: Frame = {"jsonrpc": "2.0", "method": method}
        self.send(frame | ({"params": params} if params else {}))

    def initialize(self, version: str = LEGACY) -> Answer:
        """Begin a session as a client of `version` does, and return the server's answer."""
        if version == MODERN:
            self.version = MODERN
            return self.request("server/discover").wait()
        params = {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": _INFO}
        answer = self.request("initialize", params).wait()
        self.notify("notifications/initialized")
        return answer

    def open(self, version: str = LEGACY) -> Frame:
        """Begin a session, read the tools' schemas, and return the result of the first request."""
        result = self.initialize(version).result
        self.request("tools/list").wait()
        return result

    def start(self, tool: str, progress: bool = False, log_level: str | None = "debug", **arguments: Any) -> Call:
        """Call a tool without waiting for the answer."""
        params = {"name": tool, "arguments": arguments}
        return self.request("tools/call", params, progress=progress, log_level=log_level)

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool and return its answer."""
        return self.start(tool, **arguments).wait()

    def run(self, task_name: str, *args: str, **more: Any) -> Answer:
        """Run a task and return the answer."""
        return self.call("run_task", task_name=task_name, args=list(args), **more)
