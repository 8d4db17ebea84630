"""Runs tasks for the server: how many start at once, which interpreter they get, and when a run is retried."""

import asyncio
import os
from dataclasses import replace

import anyio

from qk_mcp.errors import QkMcpError, RunLost, RunStopped, RunTimedOut
from qk_mcp.host.guest import Guest
from qk_mcp.host.identity import identify_process
from qk_mcp.host.warm_pool import WarmPool
from qk_mcp.interpreters.plan import Plan
from qk_mcp.runs.control import Control
from qk_mcp.runs.record import Recorder, RunRecord
from qk_mcp.runs.run import Request, Run, run_in_guest
from qk_mcp.runs.streams import Observer
from qk_mcp.server.start_slots import StartSlots

__all__ = ["TaskRunner"]

_STARTS = 2 * max(2, os.cpu_count() or 1)
"""Runs that may start at the same time: if a hundred did, this process would get no processor time."""
_START = 1.0
"""Seconds after which a starting run no longer counts as one."""
_AFTER_ANSWER = 0.02
"""Seconds after which the next warm interpreter is started: not while the answer is being sent."""


class TaskRunner:
    """The runs of one server. Belongs to one event loop."""

    def __init__(self, warm_pool: WarmPool, recorder: Recorder) -> None:
        self._warm_pool = warm_pool
        self._recorder = recorder
        self._slots = StartSlots(_STARTS)
        self._starts: set[asyncio.Task[None]] = set()

    async def run_task(
        self, plan: Plan, request: Request, observe: Observer, control: Control, record: RunRecord
    ) -> Run:
        """Run a task and record its beginning.

        The limit of `control` includes the wait for a slot. Raises as `run_in_guest` does.
        """
        guest = await self._start_guest(plan, request, control)
        try:
            return await self._run(guest, request, observe, control, record)
        except RunLost as failure:
            # A warm interpreter can die, or become outdated, while it waits for a task. A task that has begun never
            # runs a second time.
            if failure.began or not guest.warm:
                raise
        guest = await self._start_guest(plan, request, control)
        return await self._run(guest, request, observe, control, record)

    def prepare_next(self, plan: Plan) -> None:
        """Start a warm interpreter for the next run soon."""
        asyncio.get_running_loop().call_later(_AFTER_ANSWER, self._warm_pool.prepare, plan)

    async def _run(self, guest: Guest, request: Request, observe: Observer, control: Control, record: RunRecord) -> Run:
        self._recorder.write(replace(record, supervisor=identify_process(guest.process.pid)))
        return await run_in_guest(guest, request, observe, control=control)

    async def _start_guest(self, plan: Plan, request: Request, control: Control) -> Guest:
        """Wait for a slot, and return a warm or a new guest. Raises `RunTimedOut`, `RunStopped` and `GuestFailed`."""
        alias = plan.project.alias
        with control.limited() as limit:
            await self._slots.acquire(alias)
        if limit.cancelled_caught and control.stopped:
            raise RunStopped(request.task, control.stopped)
        if limit.cancelled_caught and request.timeout is not None:
            raise RunTimedOut(request.task, request.timeout, "It had not begun.", began=False, queued=True)
        try:
            guest = self._warm_pool.take(plan)
        except QkMcpError:
            self._slots.release(alias)
            raise
        start = asyncio.create_task(self._release_slot(guest))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)
        return guest

    async def _release_slot(self, guest: Guest) -> None:
        """Release the slot when the guest's task has begun, or when its project takes long to load."""
        with anyio.move_on_after(_START):
            await guest.settled.wait()
        self._slots.release(guest.plan.project.alias)
