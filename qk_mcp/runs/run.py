"""One run of a task: sends the request to a guest, collects the output, and stops the process tree."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from qk_mcp.errors import OutOfProcesses, QkMcpError, RunLost, RunStopped, RunTimedOut, TaskBusy, UnknownTask
from qk_mcp.host.guest import Guest
from qk_mcp.host.stop import GRACE, LeftRunning
from qk_mcp.host.threads import call_in_thread
from qk_mcp.redact import Redactor, redact_json, redact_text
from qk_mcp.runs.control import Control
from qk_mcp.runs.ending import Ending, attempt, end_run
from qk_mcp.runs.excerpt import MAX_OUTPUT, Excerpt, cut_in_thread, fail_with_output
from qk_mcp.runs.exclusive import TaskLock, add_lock
from qk_mcp.runs.gate import pass_gate
from qk_mcp.runs.output import Capture, Captured
from qk_mcp.runs.output_files import stream_file
from qk_mcp.runs.prompts import missing_terminal
from qk_mcp.runs.streams import Observer, Sink, StdinFeeder, Stream, StreamReader
from qk_mcp.tasks.load_errors import explain_death, explain_load_error
from qk_mcp.text import encoded_size

__all__ = ["BY_A_PERSON", "Request", "Run", "run_in_guest"]

log = logging.getLogger(__name__)

BY_A_PERSON = "a person stopped it with `qk-mcp runs stop`"
"""What `RunStopped` says about a stop by a person."""
_LIVE_AFTER = 1.0
"""Seconds after which output that is kept is written through to its files, for people who follow it."""
_STOP_TIME = 1.5
"""Seconds left for stopping a run, so that its answer arrives before the timeout; a longer grace adds to them."""
_LONG = 10.0
"""Seconds of a timeout that includes the time for stopping."""
_LONG_WAIT = 1.0
"""Seconds of a wait for another run that an answer mentions."""
_PROBLEMS = 5
"""Unreadable reports that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A task to run, with its arguments and limits."""

    task: str
    args: Sequence[str] = ()
    stdin: str | None = None
    """Text for the task's standard input. None and "" mean /dev/null."""
    timeout: float | None = None
    """Seconds after which the run is stopped; None for no limit."""
    bounds_call: bool = False
    """Whether a long timeout includes the time for stopping, because the caller waits no longer than that."""
    grace: float = GRACE
    """Seconds of that time for the task's clean-up."""
    max_output: int = MAX_OUTPUT
    """Bytes of JSON of the answer, or of the message of an error."""
    output: Path
    """Where the complete streams go, with a suffix for each: see `output_path`."""
    keeps_output: bool = False
    """Whether the files stay although the answer is complete."""
    owner: str = "another run"
    """Who runs the task, for others that wait for its end."""

    @property
    def limit(self) -> float | None:
        """Seconds after which stopping begins, at least half of the timeout; None for no limit."""
        if self.timeout is None or not self.bounds_call or self.timeout < _LONG:
            return self.timeout
        return max(self.timeout / 2, self.timeout - _STOP_TIME - max(0.0, self.grace - GRACE))


@dataclass(frozen=True, slots=True)
class Run:
    """The exit code and the output of a task."""

    exit_code: int
    """Negative for a signal, as in `subprocess`."""
    stdout: Excerpt
    stderr: Excerpt
    left: tuple[LeftRunning, ...]
    tests: dict[str, Any] | None
    """The tests in the reports that the task wrote, if it wrote any."""
    note: str
    """What is unusual about the run; often empty."""
    redacted: tuple[str, ...]
    """The names of the secrets that were replaced, sorted."""
    seconds: float

    def answer(self) -> dict[str, Any]:
        """Return the answer of `run_task`. Keys without a value are absent."""
        answer: dict[str, Any] = {"exit_code": self.exit_code, "stdout": self.stdout.text, "stderr": self.stderr.text}
        streams = {"stdout": self.stdout, "stderr": self.stderr}
        truncated = {name: stream.truncated() for name, stream in streams.items() if not stream.complete}
        extras = _extras(self.left, self.tests, self.note, self.redacted)
        return answer | ({"truncated": truncated} if truncated else {}) | extras


def _extras(
    left: Sequence[LeftRunning], tests: dict[str, Any] | None, note: str, redacted: Sequence[str]
) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if left:
        extras["left_running"] = [{"pid": each.pid, "command": each.command} for each in left]
    if tests:
        extras["tests"] = tests
    if note:
        extras["note"] = note
    if redacted:
        extras["redacted"] = [*redacted]
    return extras


async def run_in_guest(
    guest: Guest,
    request: Request,
    observe: Observer | None = None,
    sink: Sink | None = None,
    *,
    control: Control | None = None,
) -> Run:
    """Run a task in `guest`, which runs nothing else afterwards. `control` stops it; its limit may have begun before.

    A task that ends by itself leaves its children running. In every other case (timeout, stop, cancellation, a task
    that never begins) the whole process tree is stopped. The plan's secrets are replaced in everything but the bytes
    that a `sink` gets.

    Raises `UnknownTask`, `ProjectBroken`, what the gate of `control` raises, and with the output so far `RunTimedOut`,
    `RunStopped` and `RunLost`.
    """
    control = control or Control(request.limit)
    captures: dict[Stream, Capture] = {"stdout": _capture(request, "stdout"), "stderr": _capture(request, "stderr")}
    control.attach(guest, captures)
    keeps_output = request.keeps_output
    if keeps_output:
        live = asyncio.get_running_loop().call_later(_LIVE_AFTER, control.write_through)
    try:
        return await _run(guest, request, captures, control, observe, sink)
    except RunLost as failure:
        keeps_output = keeps_output and failure.began  # otherwise it may be retried
        raise
    finally:
        if request.keeps_output:
            live.cancel()
        for capture in captures.values():
            with attempt("close an output file", []):
                if keeps_output and (guest.began or not control.live):
                    capture.file.keep()
                capture.file.discard()


def _capture(request: Request, stream: Stream) -> Capture:
    return Capture(request.max_output, stream_file(request.output, stream))


async def _run(
    guest: Guest,
    request: Request,
    captures: Mapping[Stream, Capture],
    control: Control,
    observe: Observer | None,
    sink: Sink | None,
) -> Run:
    began, began_at = time.monotonic(), time.time()
    pipes: tuple[tuple[int, Stream], ...] = ((guest.stdout, "stdout"), (guest.stderr, "stderr"))
    secrets, redacted = guest.plan.secrets, guest.redacted
    readers = [
        StreamReader(pipe, stream, captures[stream], Redactor(secrets, redacted) if secrets else None, observe, sink)
        for pipe, stream in pipes
    ]
    feeder = StdinFeeder(guest.stdin, request.stdin)
    ending = Ending(TaskLock(request.output.parent.with_name("locks"), request.owner, guest.process.pid))
    try:
        await _wait_for_end(guest, request, captures, control, ending)
    finally:
        with anyio.CancelScope(shield=True):
            await end_run(guest, readers, feeder, ending)
    stdout, stderr = (reader.finish() for reader in readers)
    if not ending.by_itself or guest.exit_code is None:
        raise await _failure(guest, request, control, ending, stdout, stderr)
    more = f"{ending.others} more processes are left running" if ending.others else ""
    tests = redact_json(await _tests(guest, began_at, request.max_output // 4, ending.failures), secrets, redacted)
    note = "\n".join(filter(None, (guest.plan.note, _wait_note(ending.lock), more, *ending.failures)))
    note = redact_text(note, secrets, redacted)
    names = tuple(sorted(redacted))
    extras = _extras(ending.left, tests, note, names)
    room = request.max_output - encoded_size(extras)
    texts = await cut_in_thread(stdout, stderr, room, failed=guest.exit_code != 0)
    return Run(guest.exit_code, *texts, ending.left, tests, note, names, time.monotonic() - began)


def _wait_note(lock: TaskLock) -> str:
    return f"waited {lock.waited:.0f} s for {lock.other}" if lock.waited >= _LONG_WAIT else ""


async def _wait_for_end(
    guest: Guest, request: Request, captures: Mapping[Stream, Capture], control: Control, ending: Ending
) -> None:
    """Send the request and wait until the task has ended or the time is over. Completes `ending`."""
    with control.limited() as timer:
        guest.on_stop = timer.cancel
        gate = add_lock(control.find_gate, ending.lock, guest, control.wait_for)
        await guest.ask(
            {
                "do": "run",
                "tasks": str(guest.plan.location.tasks),
                "task": request.task,
                "args": [*request.args],
                "stdin": guest.inherits_stdin or bool(request.stdin),
                "warm": guest.warm,
                "gate": gate is not None,
            }
        )
        reply = await guest.answer()
        if gate is not None:
            reply = await pass_gate(guest, gate, reply)
        ending.reply = redact_json(reply, guest.plan.secrets)
        await guest.ended.wait()
    # If this process was suspended past the timeout, the loop handles the timer before the end of the task.
    guest.receive_events()
    ending.timed_out = timer.cancelled_caught
    ending.by_itself = guest.exit_code is not None and guest.began
    if guest.began and not ending.by_itself:
        ending.waited_for = missing_terminal(captures.values())


async def _failure(
    guest: Guest, request: Request, control: Control, ending: Ending, stdout: Captured, stderr: Captured
) -> QkMcpError:
    """Return why the task did not begin or did not end by itself."""
    match ending.reply:
        case {"event": "outdated"}:
            return RunLost(request.task, "", began=False)
        case {"event": "unknown", "near": [*near]}:
            return UnknownTask(guest.plan.project.alias, request.task, [str(name) for name in near])
        case {"event": "broken", "error": dict(report)}:
            return explain_load_error(guest.plan, report, stdout.end + stderr.end)
    alive = ", ".join(f"{each.pid} {each.command}" for each in ending.survivors)
    failure: Callable[[str], QkMcpError]
    if guest.stop_asked or guest.process.returncode == -signal.SIGUSR2:  # it could not handle the signal yet
        failure = partial(RunStopped, request.task, BY_A_PERSON, survivors=alive)
        return await fail_with_output(failure, stdout, stderr, request.max_output)
    if control.stopped:
        return RunStopped(request.task, control.stopped, survivors=alive)
    if ending.timed_out and request.timeout is not None and ending.lock.is_waiting:
        return TaskBusy(request.task, request.timeout, ending.lock.other)
    if ending.timed_out and request.timeout is not None:
        failure = partial(
            RunTimedOut,
            request.task,
            request.timeout,
            began=guest.began,
            waited_for=ending.waited_for,
            survivors=alive,
        )
        return await fail_with_output(failure, stdout, stderr, request.max_output)
    if guest.could_not_fork:
        return OutOfProcesses("its interpreter cannot fork", guest.plan.project.alias)
    ended = guest.process.returncode if guest.leader is None else guest.exit_code
    if guest.warm and not guest.began and ended == -signal.SIGKILL:
        return RunLost(request.task, "", began=False)  # perhaps while it waited, which is not the project's fault
    if guest.leader is None and guest.process.returncode is not None:
        return explain_death(guest.plan, guest.process.returncode, stdout.end + stderr.end)
    if guest.exit_code is None:
        began = guest.began or ending.reply == {"event": "began"}
        failure = partial(RunLost, request.task, began=began, survivors=alive)
        return await fail_with_output(failure, stdout, stderr, request.max_output)
    return explain_death(guest.plan, guest.exit_code, stdout.end + stderr.end)


async def _tests(guest: Guest, since: float, room: int, failures: list[str]) -> dict[str, Any] | None:
    """Return the tests in the reports of the run, and add what is wrong with a report to `failures`."""
    patterns = guest.plan.project.reports
    if not patterns:
        return None
    from qk_mcp.runs.reports import read_reports

    with attempt("read the reports", failures):
        reports = await call_in_thread(read_reports, guest.plan.location.root, patterns, since, room=room)
        failures += reports.problems[:_PROBLEMS]
        return reports.answer()
    return None
