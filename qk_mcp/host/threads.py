"""Calls slow functions outside the event loop."""

import logging
from collections.abc import Callable

import anyio

__all__ = ["call_in_thread"]

log = logging.getLogger(__name__)


async def call_in_thread[**P, T](function: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    """Call `function` in a thread. If none can be started, because the limit of processes is reached, call it here."""
    began = False

    def call() -> T:
        nonlocal began
        began = True
        return function(*args, **keywords)

    try:
        return await anyio.to_thread.run_sync(call)
    except RuntimeError as error:
        if began:
            raise
        log.debug("no thread: %s", error)
    return call()
