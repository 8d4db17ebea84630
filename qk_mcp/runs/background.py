"""The runs of one server. Each is a task of the event loop, so that it can outlive the call that started it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio

from qk_mcp.errors import QkMcpError, TooManyRuns
from qk_mcp.host.activity import tree_activity
from qk_mcp.runs.control import Control
from qk_mcp.runs.lines import Lines
from qk_mcp.runs.record import RunRecord
from qk_mcp.runs.run import Request, Run
from qk_mcp.runs.streams import Observer, Stream

__all__ = ["ServerRun", "ServerRuns"]

log = logging.getLogger(__name__)

type Running = Callable[["ServerRun"], Awaitable[Run]]

_AT_ONCE = 64
"""Runs in the background at the same time."""
_OF_PRINCIPAL = 32
"""Those of one principal over HTTP."""
_START = 2.0
"""Seconds that `settle` gives a task to begin."""
_BUSY = 0.9
"""Seconds that it then gives the task to end or to sleep."""
_DECISION = 0.05
_SAMPLE = 0.003
_SAMPLES = 2
"""How often, and how many times in a row, a task must be seen asleep."""
_REMEMBERED = 50
"""Runs that have ended and stay in memory."""


class ServerRun:
    """A run that is under way or has ended."""

    def __init__(self, record: RunRecord, request: Request) -> None:
        self.record = record
        """What the record of all runs has of it; without its end while it runs."""
        self.request = request
        self.control = Control(request.limit)
        self.background = False
        """Whether it outlives the call that started it."""
        self.ended = asyncio.Event()
        self.outcome: Run | QkMcpError | None = None
        """How it ended; None while it runs, and after a defect of this program."""
        self._began = time.monotonic()
        self._seconds = 0.0
        self._last_output: float | None = None
        self._news = asyncio.Event()
        self._observers: list[Observer] = []
        self._sources: dict[Stream, Lines] = {}
        self._problem = ""

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self._seconds if self.ended.is_set() else time.monotonic() - self._began

    @property
    def last_output(self) -> float | None:
        """Seconds since its last output, while it runs; None if there was none."""
        running = not self.ended.is_set() and self._last_output is not None
        return time.monotonic() - self._last_output if running and self._last_output is not None else None

    @property
    def sources(self) -> Mapping[Stream, Lines]:
        """The files with its complete output so far."""
        if not self.ended.is_set():
            self._look()
        return self._sources

    @property
    def problem(self) -> str:
        """Why a file is missing or incomplete."""
        return self._problem

    def keep_output(self) -> None:
        """Let it outlive its call: from now on, its output is written through to files."""
        self.background = True
        self.control.write_through()

    def observe(self, stream: Stream, text: str, open_line: str) -> None:
        """Pass new output on to those who watch."""
        if text or open_line:
            self._last_output = time.monotonic()
        for observer in self._observers:
            observer(stream, text, open_line)
        self._news.set()

    @contextmanager
    def watched(self, observer: Observer) -> Iterator[None]:
        """Let `observer` receive the output while the block runs."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    def news(self) -> asyncio.Event:
        """Return an event that the next output sets, or the end."""
        if self._news.is_set() and not self.ended.is_set():
            self._news = asyncio.Event()
        return self._news

    async def settle(self) -> None:
        """Wait until it has ended or its task sleeps, but no longer than a second after the task has begun.

        A task that fails at once has then ended, and one that waits for something is not waited for. Where sleeping
        cannot be told from working, this takes the second.
        """
        deadline = time.monotonic() + _START
        began, previous, equal = False, None, 0
        while not self.ended.is_set() and time.monotonic() < deadline:
            if self.control.asking:
                deadline = time.monotonic() + _START
            guest = self.control.guest
            if guest is not None and guest.began:
                if not began:
                    began, deadline = True, min(deadline, time.monotonic() + _BUSY)
                activity = tree_activity(guest.process.pid)
                equal = equal + 1 if activity and activity == previous else 0
                if equal == _SAMPLES:
                    return
                previous = activity
            with anyio.move_on_after(_SAMPLE):
                await self.ended.wait()

    async def decided(self) -> None:
        """Wait until nobody is being asked any more if the task may run."""
        while self.control.asking and not self.ended.is_set():
            with anyio.move_on_after(_DECISION):
                await self.ended.wait()

    async def follow(self, running: Running) -> None:
        """Run it to its end."""
        try:
            self.outcome = await running(self)
        except QkMcpError as failure:
            self.outcome = failure
        except Exception:
            log.exception("a run failed; this is a defect of qk-mcp")
        finally:
            self._seconds = time.monotonic() - self._began
            self._look()
            self.control.detach()
            self.ended.set()
            self._news.set()

    def _look(self) -> None:
        """Note the files and what is wrong with them."""
        self._sources, self._problem = {}, ""
        for stream, capture in self.control.captures.items():
            if file := capture.file.readable:
                self._sources[stream] = Lines(file, capture.file.size, capture.file.newlines)
            self._problem = self._problem or capture.file.error


class ServerRuns:
    """The runs of one server: those under way, and the last ones that have ended."""

    def __init__(self) -> None:
        self._runs: dict[str, ServerRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def check_room(self, principal: str) -> None:
        """Raise `TooManyRuns` if no other run of `principal` may outlive its call; it names their oldest."""
        runs = [run for run in self._running() if run.background]
        own = [run for run in runs if run.record.principal == principal]
        if len(runs) >= _AT_ONCE or (principal and len(own) >= _OF_PRINCIPAL):
            if not own:
                raise TooManyRuns(len(runs))
            oldest = own[0]
            raise TooManyRuns(len(own), oldest.record.run, oldest.record.task, oldest.seconds)

    def start(self, record: RunRecord, request: Request, running: Running) -> ServerRun:
        """Start a run, whose work is `running`."""
        run = self._runs[record.run] = ServerRun(record, request)
        task = asyncio.create_task(run.follow(running))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return run

    def find(self, run_id: str, principal: str) -> ServerRun | None:
        """Return a run of `principal` that is in memory."""
        run = self._runs.get(run_id)
        return run if run is not None and run.record.principal == principal else None

    def newest(self, count: int, principal: str) -> list[ServerRun]:
        """Return the newest runs of `principal` in memory, the newest first."""
        return [run for run in reversed(self._runs.values()) if run.record.principal == principal][:count]

    def stop_all(self, by: str) -> None:
        """Begin to stop every run in the background; a call stops its own."""
        for run in self._running():
            if run.background:
                run.control.stop(by)

    async def wait_for_all(self) -> None:
        """Wait until every run has ended."""
        for run in self._running():
            await run.ended.wait()

    def _running(self) -> list[ServerRun]:
        return [run for run in self._runs.values() if not run.ended.is_set()]

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        ended = [name for name, run in self._runs.items() if run.ended.is_set()]
        for name in ended[:-_REMEMBERED]:
            del self._runs[name]
