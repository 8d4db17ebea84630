"""Ends a command on SIGINT, SIGTERM or SIGHUP: after its clean-up, or at once on the second signal."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

import anyio

__all__ = ["run_until_signal"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(command: Coroutine[Any, Any, int]) -> int:
    """Run `command` in an event loop; return its exit code, or 128 plus the number of the signal that cancelled it.

    A second signal ends the process at once; the supervisor of each guest notices and ends its process tree.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, exit codes of children are lost
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return asyncio.run(_run(command))


async def _run(command: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def on_signal(number: int) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        scope.cancel()  # unlike `cancel` of a task, it respects shielded scopes

    with anyio.CancelScope() as scope:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored, for instance under nohup
                loop.add_signal_handler(number, on_signal, int(number))
        return await command
    return 128 + received[0]
