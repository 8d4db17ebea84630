"""Keeps warm guests: they have imported quickie, but nothing of the project, and wait for a request.

A warm guest saves a run the start of an interpreter; each run still imports the
project's module itself. A warm guest is used once, and only if a guest started now
would be started in the same way.
"""

import asyncio
import logging

from qk_mcp.errors import QkMcpError
from qk_mcp.host.guest import Guest
from qk_mcp.host.launch import start_guest
from qk_mcp.interpreters.plan import Plan

__all__ = ["IDLE", "POOL_SIZE", "WarmPool"]

POOL_SIZE = 4
"""Warm guests at most, one for each project."""
IDLE = 600.0
"""Seconds after which an unused warm guest is dismissed."""

log = logging.getLogger(__name__)


class WarmPool:
    """The warm guests of one server by project alias, the most recently used project last."""

    def __init__(self, *, size: int = POOL_SIZE, idle: float = IDLE) -> None:
        self._size = size
        self._idle = idle
        self._waiting: dict[str, tuple[Guest, asyncio.TimerHandle]] = {}
        self._releases: set[asyncio.Task[None]] = set()

    def take(self, plan: Plan) -> Guest:
        """Return the warm guest for `plan`, or start a guest if there is none. Raises `GuestFailed`."""
        guest, timer = self._waiting.pop(plan.project.alias, (None, None))
        if guest is not None and timer is not None:
            timer.cancel()
            if guest.plan == plan and guest.process.poll() is None and not guest.ended.is_set():
                log.debug("project=%s warm", plan.project.alias)
                return guest
            self._dismiss(guest)
        return start_guest(plan).listen()

    def prepare(self, plan: Plan) -> None:
        """Start a warm guest for `plan`; if the pool is full, dismiss that of the least recently used project."""
        if self._size == 0 or plan.project.alias in self._waiting:
            return
        while len(self._waiting) >= self._size:
            self._drop(next(iter(self._waiting)))
        try:
            guest = start_guest(plan).listen()
        except QkMcpError as failure:
            log.debug("no warm guest: %s", failure)
            return
        timer = asyncio.get_running_loop().call_later(self._idle, self._drop, plan.project.alias)
        guest.warm = True
        self._waiting[plan.project.alias] = (guest, timer)
        log.debug("project=%s waiting pid=%d", plan.project.alias, guest.process.pid)

    def _drop(self, alias: str) -> None:
        guest, timer = self._waiting.pop(alias)
        timer.cancel()
        self._dismiss(guest)

    def _dismiss(self, guest: Guest) -> None:
        guest.close_pipes()
        release = asyncio.get_running_loop().create_task(guest.release())
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)
