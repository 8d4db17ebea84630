"""Warm spares: guests that have imported quickie, and nothing of the project, and wait to be asked.

A spare saves a run the start of an interpreter; the project's module is still
imported anew by each run. A spare is used once, and only while a guest that is
started now would be started in the same way.
"""

import asyncio
import logging

from qk_mcp.errors import QkMcpError
from qk_mcp.host.guest import Guest, Plan, launch

__all__ = ["IDLE", "SPARES", "Spares"]

SPARES = 4
"""How many spares there are at most, one a project."""
IDLE = 600.0
"""Seconds that a spare waits before it goes."""

log = logging.getLogger(__name__)


class Spares:
    """The spares of one server, by alias, the one that was used last at the end."""

    def __init__(self, *, limit: int = SPARES, idle: float = IDLE) -> None:
        self._limit = limit
        self._idle = idle
        self._waiting: dict[str, tuple[Guest, asyncio.TimerHandle]] = {}
        self._going: set[asyncio.Task[None]] = set()

    def take(self, plan: Plan) -> Guest:
        """Return a guest for `plan`: its spare, or one started now. Raises `GuestFailed`."""
        guest, timer = self._waiting.pop(plan.project.alias, (None, None))
        if guest is not None and timer is not None:
            timer.cancel()
            if guest.plan == plan and guest.process.poll() is None and not guest.ended.is_set():
                log.debug("project=%s warm", plan.project.alias)
                return guest
            self._dismiss(guest)
        return launch(plan)

    def prepare(self, plan: Plan) -> None:
        """Have a spare for `plan` ready soon; the one that was used longest ago goes for it."""
        if self._limit == 0 or plan.project.alias in self._waiting:
            return
        while len(self._waiting) >= self._limit:
            self._drop(next(iter(self._waiting)))
        try:
            guest = launch(plan)
        except QkMcpError as failure:
            log.debug("no spare: %s", failure)
            return
        timer = asyncio.get_running_loop().call_later(self._idle, self._drop, plan.project.alias)
        guest.warm = True
        self._waiting[plan.project.alias] = (guest, timer)

    def _drop(self, alias: str) -> None:
        guest, timer = self._waiting.pop(alias)
        timer.cancel()
        self._dismiss(guest)

    def _dismiss(self, guest: Guest) -> None:
        guest.close_pipes()
        going = asyncio.get_running_loop().create_task(guest.release())
        self._going.add(going)
        going.add_done_callback(self._going.discard)
