"""One run of a task: start it, feed it, watch it, stop it, collect what it said."""

import asyncio
import fcntl
import os
import struct
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio

from qk_mcp.errors import RunLost, RunTimedOut, UnknownTask
from qk_mcp.host.guest import Guest
from qk_mcp.host.stop import LeftRunning, drain_pipes, left_running, stop_guest
from qk_mcp.runs.output import Capture, Captured
from qk_mcp.runs.output_files import file_name
from qk_mcp.tasks.load_errors import broken, died

__all__ = ["Observer", "Request", "Run", "Sink", "Stream", "run"]

type Stream = Literal["stdout", "stderr"]
type Observer = Callable[[Stream, str, str], None]
"""Called with a stream, the text of lines that became complete, and the unfinished line after them."""
type Sink = Callable[[Stream, bytes], None]
"""Takes the bytes of a stream as they come, and with it nothing is captured: the streams of the `Run` are empty."""

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to run, and its bounds."""

    task: str
    args: Sequence[str] = ()
    stdin: str | None = None
    """Text for the task's standard input; None and "" mean /dev/null."""
    timeout: float | None = None
    """Seconds until the run is stopped; None for no limit."""
    max_output: int
    """Characters of each stream in the result."""
    outputs: Path
    """The directory for complete outputs."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a task ended, and what it said."""

    exit_code: int
    """Negative for a signal, as in `subprocess`."""
    stdout: Captured
    stderr: Captured
    left: tuple[LeftRunning, ...]
    seconds: float

    def answer(self) -> dict[str, Any]:
        """Return the run as `run_task` answers it; some keys are there only when they have something to say."""
        answer: dict[str, Any] = {"exit_code": self.exit_code, "stdout": self.stdout.text, "stderr": self.stderr.text}
        streams = {"stdout": self.stdout, "stderr": self.stderr}
        truncated = {name: _truncated(stream) for name, stream in streams.items() if not stream.complete}
        if truncated:
            answer["truncated"] = truncated
        if self.left:
            answer["left_running"] = [{"pid": each.pid, "command": each.command} for each in self.left]
        return answer


def _truncated(stream: Captured) -> dict[str, Any]:
    told: dict[str, Any] = {
        "characters": stream.characters,
        "bytes": stream.size,
        "file": None if stream.file is None else str(stream.file),
    }
    return told | ({"error": stream.file_error} if stream.file_error else {})


async def run(
    guest: Guest, request: Request, observe: Observer | None = None, sink: Sink | None = None, *, waited: float = 0.0
) -> Run:
    """Run a task in `guest`, which is used up by it, and return how it ended.

    `waited` is how many seconds of its timeout are over already.

    Whatever ends this coroutine early ends the task's whole process tree, and so
    does a task that never began; one that ends by itself leaves its children alone. Raises `UnknownTask`,
    `ProjectBroken`, `RunTimedOut` (with the output so far) and `RunLost`.
    """
    began = time.monotonic()
    readers = [
        _Reader(guest.stdout, "stdout", request, observe, sink),
        _Reader(guest.stderr, "stderr", request, observe, sink),
    ]
    feeder = _Feeder(guest.stdin, request.stdin)
    said: dict[str, Any] | None = None
    by_itself = answered = False
    left: tuple[LeftRunning, ...] = ()
    try:
        with anyio.move_on_after(None if request.timeout is None else max(0.0, request.timeout - waited)) as limit:
            await guest.ask(
                {
                    "do": "run",
                    "tasks": str(guest.plan.location.tasks),
                    "task": request.task,
                    "args": [*request.args],
                    "stdin": guest.inherits_stdin or bool(request.stdin),
                    "warm": guest.warm,
                }
            )
            said = await guest.answer()
            await guest.ended.wait()
            if guest.exit_code is not None and guest.began:
                left = await left_running(guest)
                by_itself = True
        answered = True
    finally:
        with anyio.CancelScope(shield=True):
            if not by_itself:
                await stop_guest(guest)
            feeder.close()
            held = [reader.stop() for reader in readers]
            drain_pipes([descriptor for descriptor in held if descriptor is not None], keep=by_itself)
            stdout, stderr = (reader.finish(keep=answered) for reader in readers)
            await guest.release()
    match said:
        case {"event": "outdated"}:
            raise RunLost(request.task, _so_far(stdout, stderr), began=False)
        case {"event": "unknown", "near": [*near]}:
            raise UnknownTask(guest.plan.project.alias, request.task, [str(name) for name in near])
        case {"event": "broken", "error": dict(report)}:
            raise broken(guest.plan, report, stdout.text + stderr.text)
    if limit.cancelled_caught and request.timeout is not None:
        raise RunTimedOut(request.task, request.timeout, _so_far(stdout, stderr), began=guest.began)
    if guest.leader is None and guest.process.returncode is not None:
        raise died(guest.plan, guest.process.returncode, stdout.text + stderr.text)
    if guest.exit_code is None:
        lost_after_start = guest.began or said == {"event": "began"}
        raise RunLost(request.task, _so_far(stdout, stderr), began=lost_after_start)
    if not guest.began:
        raise died(guest.plan, guest.exit_code, stdout.text + stderr.text)
    return Run(guest.exit_code, stdout, stderr, left, time.monotonic() - began)


def _so_far(stdout: Captured, stderr: Captured) -> str:
    """Return what a run had printed when it was stopped, and where the whole of it lies."""
    parts = []
    for name, stream in (("stdout", stdout), ("stderr", stderr)):
        if stream.text:
            parts.append(f"--- {name} so far ---\n{stream.text.rstrip()}")
        if stream.file is not None:
            parts.append(f"--- every byte of {name}: {stream.file} ---")
    return "\n".join(parts) or "It had printed nothing."


class _Reader:
    """Reads one stream as it comes."""

    def __init__(
        self, descriptor: int, stream: Stream, request: Request, observe: Observer | None, sink: Sink | None
    ) -> None:
        self._descriptor = descriptor
        self._stream: Stream = stream
        self._observe = observe
        self._sink = sink
        self._capture = Capture(request.max_output, request.outputs, file_name(request.task, stream))
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._loop.add_reader(descriptor, self._read, _CHUNK)

    def stop(self) -> int | None:
        """Take what the pipe holds now; return its descriptor if others still hold the other end, else close it."""
        waiting = 0 if self._ended else _bytes_waiting(self._descriptor)
        while waiting > 0 and not self._ended:
            waiting -= self._read(min(waiting, _CHUNK))
        if not self._ended:
            self._read(1)  # which meets the end of file, if nobody does
        if self._ended:
            return None
        self._loop.remove_reader(self._descriptor)
        return self._descriptor

    def finish(self, *, keep: bool) -> Captured:
        """Return the whole of the stream, once it is stopped; `keep` allows a file for it."""
        text, captured = self._capture.finish(keep=keep)
        if self._observe is not None:
            self._observe(self._stream, text, "")
        return captured

    def _read(self, count: int) -> int:
        try:
            data = os.read(self._descriptor, count)
        except BlockingIOError:
            return 0
        if not data:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._ended = True
        elif self._sink is not None:
            self._sink(self._stream, data)
        else:
            text = self._capture.feed(data)
            if self._observe is not None:
                self._observe(self._stream, text, self._capture.open_line)
        return len(data)


def _bytes_waiting(descriptor: int) -> int:
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0))
    count: int = struct.unpack("i", answer)[0]
    return count


class _Feeder:
    """Writes the task's standard input as fast as the task reads it."""

    def __init__(self, descriptor: int, text: str | None) -> None:
        self._descriptor = descriptor
        self._rest = memoryview((text or "").encode("utf-8", "surrogatepass"))
        self._loop = asyncio.get_running_loop()
        self._open = True
        if self._rest:
            self._loop.add_writer(descriptor, self._write)
        else:
            self.close()

    def close(self) -> None:
        """End the standard input."""
        if self._open:
            self._open = False
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.close()  # the task does not want it
            return
        if not self._rest:
            self.close()
