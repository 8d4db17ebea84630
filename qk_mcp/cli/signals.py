"""Ends a command when a signal asks for it: with everything tidied up, or at once if asked twice."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

import anyio

__all__ = ["run"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(command: Coroutine[Any, Any, int]) -> int:
    """Run `command` in an event loop; return its exit code, or 128 plus the number of the signal that cancelled it.

    A second signal ends the process where it stands: the supervisor of each guest sees that, and ends its tree.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, exit codes of children are lost
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return asyncio.run(_run(command))


async def _run(command: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def on_signal(number: int) -> None:
        if came:
            os._exit(128 + number)
        came.append(number)
        scope.cancel()  # which, unlike a task's `cancel`, leaves alone what is shielded

    with anyio.CancelScope() as scope:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                loop.add_signal_handler(number, on_signal, int(number))
        return await command
    return 128 + came[0]
