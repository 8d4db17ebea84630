"""The runs of one server. Each is a task of the event loop, so that it can outlive the call that started it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from qk_mcp.errors import QkMcpError
from qk_mcp.runs.control import Control
from qk_mcp.runs.record import RunRecord
from qk_mcp.runs.run import Request, Run
from qk_mcp.runs.streams import Observer, Stream

__all__ = ["ServerRun", "ServerRuns"]

log = logging.getLogger(__name__)

type Running = Callable[["ServerRun"], Awaitable[Run]]


class ServerRun:
    """A run that is under way or has ended."""

    def __init__(self, record: RunRecord, request: Request) -> None:
        self.record = record
        """What the record of all runs has of it; without its end while it runs."""
        self.request = request
        self.control = Control(request.limit)
        self.ended = asyncio.Event()
        self.outcome: Run | QkMcpError | None = None
        """How it ended; None while it runs, and after a defect of this program."""
        self._began = time.monotonic()
        self._seconds = 0.0
        self._observers: list[Observer] = []

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self._seconds if self.ended.is_set() else time.monotonic() - self._began

    def observe(self, stream: Stream, text: str, open_line: str) -> None:
        """Pass new output on to those who watch."""
        for observer in self._observers:
            observer(stream, text, open_line)

    @contextmanager
    def watched(self, observer: Observer) -> Iterator[None]:
        """Let `observer` receive the output while the block runs."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

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
            self.ended.set()


class ServerRuns:
    """The runs of one server."""

    def __init__(self) -> None:
        self._tasks: dict[ServerRun, asyncio.Task[None]] = {}

    def start(self, record: RunRecord, request: Request, running: Running) -> ServerRun:
        """Start a run, whose work is `running`."""
        run = ServerRun(record, request)
        task = self._tasks[run] = asyncio.create_task(run.follow(running))
        task.add_done_callback(lambda _: self._tasks.pop(run))
        return run

    async def stop(self, by: str) -> None:
        """Stop every run, and wait until their processes have ended."""
        runs = list(self._tasks)
        for run in runs:
            run.control.stop(by)
        for run in runs:
            await run.ended.wait()
