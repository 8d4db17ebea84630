"""A project's catalogue, asked of a guest, and remembered until what it came from changes.

A remembered catalogue is exact as to files: before it is used again, everything
that loading and describing looked at is compared (`qk_mcp.guest.file_trace`). What
files cannot tell, the clock above all, is described anew in the background.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from qk_mcp.errors import ProjectBroken
from qk_mcp.guest.file_trace import unchanged
from qk_mcp.host import guest as launcher
from qk_mcp.host.guest import Guest, Plan
from qk_mcp.host.stop import stop_guest
from qk_mcp.projects.project import Project
from qk_mcp.tasks import load_errors as diagnosis
from qk_mcp.tasks.catalog import Catalog, parse
from qk_mcp.tasks.prefetch import Asked, HeadStart, ask
from qk_mcp.tasks.report import read

__all__ = ["DEADLINE", "REFRESH", "Catalogs"]

DEADLINE = 15.0
"""Seconds that describing a project may take."""
REFRESH = 30.0
"""Age in seconds from which a catalogue, once used, is described anew in the background."""

_PRINTED = 4_096
"""Bytes kept of what a module prints while it is imported."""
_KILL_LIMIT = 1.0


@dataclass(frozen=True, slots=True)
class _Description:
    """What one guest reported: a catalogue, or why there is none."""

    plan: Plan
    outcome: Catalog | ProjectBroken
    trace: Mapping[str, Any]
    ended: float

    def get(self) -> Catalog:
        if isinstance(self.outcome, ProjectBroken):
            raise self.outcome.with_traceback(None)
        return self.outcome

    def holds(self) -> bool:
        """Whether the files are as they were when this was described."""
        try:
            return self.trace["settled"] is True and unchanged(dict(self.trace))
        except (AttributeError, KeyError, TypeError):
            return False  # a module has tampered with the report, or there was none

    def reusable(self, plan: Plan) -> bool:
        return self.plan == plan and self.trace.get("uncacheable") == "" and self.holds()


@dataclass(slots=True)
class _Describing:
    """A description under way, and how many wait for it."""

    task: "asyncio.Task[_Description]"
    began: float
    plan: Plan
    waiting: int = 0


class Catalogs:
    """The catalogues of a server's projects. Belongs to one event loop; `close` ends what is under way."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        timeout: float = DEADLINE,
        refresh: float = REFRESH,
        early: HeadStart | None = None,
    ) -> None:
        self._environ = environ
        self._early = early or HeadStart()
        self._timeout = timeout
        self._refresh = refresh
        self._known: dict[str, _Description] = {}
        self._under_way: dict[str, _Describing] = {}

    async def get(self, project: Project) -> Catalog:
        """Return the project's tasks as they are now; calls at the same time share one description.

        Raises `ProjectBroken`, with what to mend, and whatever `launcher.plan` raises.
        """
        plan = launcher.plan(project, self._environ)
        arrived = asyncio.get_running_loop().time()
        known = self._known.get(project.alias)
        if known is not None and known.reusable(plan):
            if arrived - known.ended > self._refresh:
                self._start(plan)
            return known.get()
        while True:
            describing = self._start(plan)
            description = await self._wait(describing)
            # One that began before this call may have missed an edit that came before it, too.
            # A failure without a trace (a deadline) cannot be compared; waiting for it twice would help nobody.
            current = describing.began >= arrived or not description.trace or description.holds()
            if describing.plan == plan and current:
                return description.get()

    def trace(self, project: Project) -> Mapping[str, Any]:
        """Return what the project's last description depends on, as the guest reported it; empty if that is not known.

        See `qk_mcp.guest.file_trace`, which also tells whether it still holds.
        """
        known = self._known.get(project.alias)
        return known.trace if known else {}

    async def close(self) -> None:
        """Stop every description under way, and wait until its processes have ended."""
        tasks = [each.task for each in self._under_way.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, plan: Plan) -> _Describing:
        """Return the description of the plan's project that is under way, begun now if there is none."""
        alias = plan.project.alias
        describing = self._under_way.get(alias)
        if describing is None:
            loop = asyncio.get_running_loop()
            early = self._early.take(alias)
            began = loop.time() if early is None else 0.0  # before any call: only what holds still may be used
            task = loop.create_task(self._describe(plan, early))
            task.add_done_callback(lambda done: self._forget(alias, done))
            self._under_way[alias] = describing = _Describing(task, began, plan)
        return describing

    def _forget(self, alias: str, done: "asyncio.Task[_Description]") -> None:
        del self._under_way[alias]
        if not done.cancelled():
            done.exception()  # seen, or asyncio would complain where nobody waited

    async def _wait(self, describing: _Describing) -> _Description:
        describing.waiting += 1
        try:
            return await asyncio.shield(describing.task)
        except asyncio.CancelledError:
            if describing.waiting == 1 and not describing.task.done():  # nobody else wants it
                describing.task.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([describing.task])
            raise
        finally:
            describing.waiting -= 1

    async def _describe(self, plan: Plan, early: Asked | None) -> _Description:
        if early is not None and early.guest.plan != plan:
            await _ask(early, 0)  # to end it
            early = None
        outcome, trace = await _ask(early or ask(plan), self._timeout)
        ended = asyncio.get_running_loop().time()
        self._known[plan.project.alias] = description = _Description(plan, outcome, trace, ended)
        return description


async def _ask(asked: Asked, seconds: float) -> tuple[Catalog | ProjectBroken, Mapping[str, Any]]:
    """Wait for a description; nothing that it started is left, and nothing it printed is heard elsewhere."""
    plan = asked.guest.plan
    guest = asked.guest
    try:
        exit_code, printed, in_time = await _watch(guest.listen(), seconds)
        report = read(asked.result, diagnosis.how_it_ended(exit_code) if in_time else f"took longer than {seconds:g} s")
    finally:
        asked.forget()
    output = printed.decode("utf-8", "replace")
    if report is None:
        if in_time:
            return diagnosis.died(plan, exit_code, output), {}
        return diagnosis.too_slow(plan, seconds, output, started=guest.leader is not None), {}
    trace = report.get("trace")
    trace = trace if isinstance(trace, dict) else {}
    if isinstance(report.get("error"), dict):
        return diagnosis.broken(plan, report["error"], output), trace
    return parse(report, plan.location.root), trace


async def _watch(guest: Guest, seconds: float) -> tuple[int | None, bytes, bool]:
    """Wait, end the guest's whole tree; return its exit code, the end of what it printed, whether it was in time."""
    os.close(guest.stdin)
    printed = bytearray()
    drains = [_Drain(descriptor, printed) for descriptor in (guest.stdout, guest.stderr)]
    ended = False
    try:
        with anyio.move_on_after(seconds):
            await guest.ended.wait()
            ended = True
    finally:
        with anyio.CancelScope(shield=True):
            if ended and guest.adopting:
                guest.end_tree()  # what the import left running
                with anyio.move_on_after(_KILL_LIMIT):
                    await guest.alone.wait()
            else:
                await stop_guest(guest)
            for drain in drains:
                drain.close()
            await guest.release()
    return guest.exit_code, bytes(printed), ended


class _Drain:
    """Reads a pipe so that nobody who writes to it has to wait, and keeps the end of what came."""

    def __init__(self, descriptor: int, kept: bytearray) -> None:
        self._descriptor = descriptor
        self._kept = kept
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        """Take what is still there, and close the pipe."""
        if self._open:
            self._read()
        if self._open:
            self._end()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return
        self._kept += data
        del self._kept[:-_PRINTED]
        if not data:
            self._end()

    def _end(self) -> None:
        self._open = False
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
