"""Reaps orphans that this process has adopted because it is the first of its namespace, as in a container."""

import asyncio
import os
import signal
from contextlib import suppress

from qk_mcp.guest.process_tree import own_children
from qk_mcp.host.launch import is_guest

__all__ = ["reap_orphans"]

_PAUSE = 1.0
"""Seconds between two looks. A process that has ended before the first and that nobody has reaped is an orphan."""


def reap_orphans() -> None:
    """Reap orphans from now on, in the running event loop, if this process is the first of its namespace."""
    if os.getpid() == 1:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, _Reaper(loop).look_soon)


class _Reaper:
    """Looks for ended children twice: whoever has started one reaps it at once, except for idle guests."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._ended: set[int] = set()

    def look_soon(self) -> None:
        """Look after a pause, once for all signals of that time."""
        if self._timer is None:
            self._timer = self._loop.call_later(_PAUSE, self._look)

    def _look(self) -> None:
        self._timer = None
        ended = {pid for pid in own_children() if not is_guest(pid) and _has_ended(pid)}
        for pid in ended & self._ended:
            with suppress(ChildProcessError):  # its starter has reaped it now
                os.waitpid(pid, os.WNOHANG)
        self._ended = ended - self._ended
        if self._ended:
            self.look_soon()


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False
