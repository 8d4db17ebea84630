"""One run of a task: sends the request to a guest, collects the output, and stops the process tree."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from qk_mcp.errors import RunLost, RunTimedOut, UnknownTask
from qk_mcp.host.guest import Guest
from qk_mcp.host.stop import LeftRunning, drain_pipes, left_running, stop_guest
from qk_mcp.runs.output import Capture, Captured
from qk_mcp.runs.output_files import output_name
from qk_mcp.runs.streams import Observer, Sink, StdinFeeder, Stream, StreamReader
from qk_mcp.tasks.load_errors import broken, died

__all__ = ["Request", "Run", "run_in_guest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A task to run, with its arguments and limits."""

    task: str
    args: Sequence[str] = ()
    stdin: str | None = None
    """Text for the task's standard input. None and "" mean /dev/null."""
    timeout: float | None = None
    """Seconds after which the run is stopped; None for no limit."""
    max_output: int
    """Characters of each stream in the result."""
    outputs: Path
    """The directory for complete outputs."""


@dataclass(frozen=True, slots=True)
class Run:
    """The exit code and the output of a task."""

    exit_code: int
    """Negative for a signal, as in `subprocess`."""
    stdout: Captured
    stderr: Captured
    left: tuple[LeftRunning, ...]
    seconds: float

    def answer(self) -> dict[str, Any]:
        """Return the answer of `run_task`. Keys without a value are absent."""
        answer: dict[str, Any] = {"exit_code": self.exit_code, "stdout": self.stdout.text, "stderr": self.stderr.text}
        streams = {"stdout": self.stdout, "stderr": self.stderr}
        truncated = {name: _truncated(stream) for name, stream in streams.items() if not stream.complete}
        if truncated:
            answer["truncated"] = truncated
        if self.left:
            answer["left_running"] = [{"pid": each.pid, "command": each.command} for each in self.left]
        return answer


def _truncated(stream: Captured) -> dict[str, Any]:
    file = None if stream.file is None else str(stream.file)
    size: dict[str, Any] = {"characters": stream.characters, "bytes": stream.size, "file": file}
    return size | ({"error": stream.file_error} if stream.file_error else {})


async def run_in_guest(
    guest: Guest, request: Request, observe: Observer | None = None, sink: Sink | None = None, *, waited: float = 0.0
) -> Run:
    """Run a task in `guest`, which runs nothing else afterwards. `waited` counts seconds of the timeout that are over.

    A task that ends by itself leaves its children running. In every other case (timeout, cancellation, a task that
    never begins) the whole process tree is stopped.

    Raises `UnknownTask`, `ProjectBroken`, `RunTimedOut` (with the output so far) and `RunLost`.
    """
    began = time.monotonic()
    streams: tuple[tuple[int, Stream], ...] = ((guest.stdout, "stdout"), (guest.stderr, "stderr"))
    readers = [
        StreamReader(descriptor, stream, _capture(request, stream), observe, sink) for descriptor, stream in streams
    ]
    feeder = StdinFeeder(guest.stdin, request.stdin)
    reply: dict[str, Any] | None = None
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
            reply = await guest.answer()
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
            pipes = [reader.stop() for reader in readers]
            drain_pipes([pipe for pipe in pipes if pipe is not None], keep=by_itself)
            stdout, stderr = (reader.finish(keep=answered) for reader in readers)
            await guest.release()
    match reply:
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
        lost_after_start = guest.began or reply == {"event": "began"}
        raise RunLost(request.task, _so_far(stdout, stderr), began=lost_after_start)
    if not guest.began:
        raise died(guest.plan, guest.exit_code, stdout.text + stderr.text)
    return Run(guest.exit_code, stdout, stderr, left, time.monotonic() - began)


def _capture(request: Request, stream: Stream) -> Capture:
    return Capture(request.max_output, request.outputs, output_name(request.task, stream))


def _so_far(stdout: Captured, stderr: Captured) -> str:
    """Return what a run had printed when it was stopped, and the files with the complete output."""
    parts = []
    for name, stream in (("stdout", stdout), ("stderr", stderr)):
        if stream.text:
            parts.append(f"--- {name} so far ---\n{stream.text.rstrip()}")
        if stream.file is not None:
            parts.append(f"--- complete {name}: {stream.file} ---")
    return "\n".join(parts) or "It had printed nothing."
