"""A server that the benchmark measures, through the JSON-RPC client of the tests."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tests.bench.answers import check
from tests.support.client import Call, Client

__all__ = ["Server", "ToolAnswer"]

_PATIENCE = 120.0
"""Seconds to wait for an answer: a bound against hanging, not a measure of speed."""
_PAUSE = 0.6
"""The least number of seconds that `settle` waits."""
_STILL = 0.15
_LONGEST = 5.0


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool returned, and how long it took."""

    data: Any
    at: float
    """The time of arrival, by `time.monotonic`."""
    seconds: float


class Server(Client):
    """A server that was just started; `began` is when, by `time.monotonic`."""

    def __init__(self, command: Sequence[str], *, environ: Mapping[str, str], cwd: Path, errors: Path) -> None:
        # Schema checks cost time that is not the server's, and quickie's own server need not pass them.
        super().__init__(command, environ=environ, cwd=cwd, errors=errors, strict=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the server unless it has ended."""
        self.process.kill()
        self.process.wait()
        self.release()

    def seconds_to_initialize(self) -> float:
        """Begin a session; return the seconds from the start of the process to the answer."""
        answer = self.initialize()
        check("serverInfo" in answer.result, f"initialize returns {answer.result}")
        return answer.at - self.began

    def ask(self, tool: str, patience: float = _PATIENCE, **arguments: Any) -> ToolAnswer:
        """Call a tool and wait for what it returns."""
        return _tool_answer(self.start(tool, **arguments), patience)

    def gather(self, calls: Sequence[Call]) -> list[ToolAnswer]:
        """Wait for the answers to calls."""
        return [_tool_answer(call, _PATIENCE) for call in calls]

    def settle(self, longest: float = _LONGEST) -> None:
        """Wait until neither the server nor a process below it uses the processor: its preparations have ended."""
        deadline = time.monotonic() + longest
        time.sleep(_PAUSE)
        before = self._computed()
        while time.monotonic() < deadline:
            time.sleep(_STILL)
            now = self._computed()
            if now == before:
                return
            before = now

    def seconds_to_exit(self) -> float:
        """Close stdin as a client that quits; return the seconds until the process has ended."""
        timer = threading.Timer(_PATIENCE, self.process.kill)
        timer.start()
        began = time.monotonic()
        self.hang_up()
        code = self.process.wait()  # without a timeout: with one, it sleeps between looks
        seconds = time.monotonic() - began
        timer.cancel()
        self.close()
        check(code == 0, f"the server ended with {code}: {self.stderr()[-1000:]}")
        return seconds

    def _computed(self) -> dict[int, float]:
        seconds = {}
        with suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self.pid)
            for process in [leader, *leader.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    seconds[process.pid] = times.user + times.system
        return seconds


def _tool_answer(call: Call, patience: float) -> ToolAnswer:
    answer = call.wait(patience)
    check(not answer.is_error, f"a tool failed: {str(answer.result)[:500]}")
    data = answer.result.get("structuredContent")
    if data is not None and set(data) == {"result"}:
        data = data["result"]
    return ToolAnswer(data, answer.at, answer.at - call.sent_at)
