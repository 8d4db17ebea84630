"""A server process and a raw client: as little between the clock and the wire as can be."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tests.bench.answers import check

__all__ = ["Answer", "Server"]

_VERSION = "2025-11-25"
_PATIENCE = 120.0
"""Seconds after which a server is killed: a bound against hanging, never a measure."""
_PAUSE = 0.6
"""Seconds that `settle` waits at least."""
_STILL = 0.15
_LONGEST = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool returned, and when by `time.perf_counter` it was asked and answered."""

    data: Any
    asked: float
    came: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.came - self.asked


class Server:
    """A server that was just started; `began` is when, by `time.perf_counter`."""

    def __init__(self, command: Sequence[str], *, environ: Mapping[str, str], cwd: Path, errors: Path) -> None:
        self._errors = errors
        self._asked = 0
        self._data = bytearray()
        self._lines: list[bytes] = []
        with errors.open("wb") as stderr:
            self.began = time.perf_counter()
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, whatever happened; a server that was closed has ended."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close() if pipe else None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def initialize(self) -> float:
        """Shake hands; return the seconds from the start of the process to the answer."""
        about = {"name": "bench", "version": "1"}
        hello = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": about}
        result, at = self._wait(self._ask("initialize", hello), _PATIENCE)
        check("serverInfo" in result, f"initialize is answered by {result}")
        self._send({"method": "notifications/initialized"})
        return at - self.began

    def call(self, tool: str, patience: float = _PATIENCE, **arguments: Any) -> Answer:
        """Call a tool and wait for what it returns."""
        asked = time.perf_counter()
        data, came = self._returned(self._ask("tools/call", {"name": tool, "arguments": arguments}), patience)
        return Answer(data, asked, came)

    def start(self, count: int, tool: str, **arguments: Any) -> set[int]:
        """Make `count` equal calls, and do not wait."""
        return {self._ask("tools/call", {"name": tool, "arguments": arguments}) for _ in range(count)}

    def gather(self, calls: set[int]) -> tuple[list[Any], float]:
        """Wait for calls that were started; return what each returned, and when the last did."""
        waiting, returned, came = set(calls), [], 0.0
        while waiting:
            data, came = self._returned(waiting, _PATIENCE)
            returned.append(data)
        return returned, came

    def settle(self, longest: float = _LONGEST) -> None:
        """Wait until neither the server nor a process below it computes: what it prepares is then ready."""
        deadline = time.monotonic() + longest
        time.sleep(_PAUSE)
        before = self._computed()
        while time.monotonic() < deadline:
            time.sleep(_STILL)
            now = self._computed()
            if now == before:
                return
            before = now

    def close(self) -> float:
        """Close its stdin as a client does that leaves; return the seconds until the process has ended."""
        assert self._process.stdin
        assert self._process.stdout
        late = threading.Timer(_PATIENCE, self._process.kill)
        late.start()
        began = time.perf_counter()
        self._process.stdin.close()
        code = self._process.wait()  # with a timeout, it would be asked for now and then
        seconds = time.perf_counter() - began
        late.cancel()
        self._process.stdout.close()
        check(code == 0, f"the server ended with {code}: {self._complaint()}")
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

    def _ask(self, method: str, params: Mapping[str, Any]) -> int:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        return self._asked

    def _send(self, frame: Mapping[str, Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")
        except BrokenPipeError:
            return  # what is read next tells

    def _returned(self, numbers: int | set[int], patience: float) -> tuple[Any, float]:
        result, at = self._wait(numbers, patience)
        check(not result.get("isError"), f"a tool failed: {str(result)[:500]}")
        data = result.get("structuredContent")
        return (data["result"] if data is not None and set(data) == {"result"} else data), at

    def _wait(self, numbers: int | set[int], patience: float) -> tuple[dict[str, Any], float]:
        """Return the result of the first request of `numbers` to be answered, which is taken out, and when it came."""
        waiting = {numbers} if isinstance(numbers, int) else numbers
        late = threading.Timer(patience, self._process.kill)
        late.start()
        try:
            while True:
                line, at = self._line()
                frame = json.loads(line)
                if frame.get("id") in waiting:
                    waiting.remove(frame["id"])
                    check("result" in frame, f"a request failed: {str(frame)[:500]}")
                    return frame["result"], at
        finally:
            late.cancel()

    def _line(self) -> tuple[bytes, float]:
        """Return the next line and when its end was there."""
        assert self._process.stdout
        at = time.perf_counter()
        while not self._lines:
            part = os.read(self._process.stdout.fileno(), 1 << 20)
            at = time.perf_counter()
            check(bool(part), f"the server ended: {self._complaint()}")
            head, newline, tail = part.rpartition(b"\n")
            if newline:
                self._lines = bytes(self._data + head).split(b"\n")[::-1]
                self._data = bytearray()
            self._data += tail
        return self._lines.pop(), at

    def _complaint(self) -> str:
        return self._errors.read_text(errors="replace")[-1000:]
