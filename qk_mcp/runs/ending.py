"""The end of a run: stops what must not go on, reads the rest of the output, and releases the guest.

No step of it may lose the answer: a step that fails is logged and mentioned in the answer.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from qk_mcp.host.drain import drain_pipes
from qk_mcp.host.guest import Guest
from qk_mcp.host.stop import LeftRunning, left_running, stop_guest
from qk_mcp.runs.exclusive import TaskLock
from qk_mcp.runs.streams import StdinFeeder, StreamReader

__all__ = ["Ending", "attempt", "end_run"]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Ending:
    """How a run came to its end, and what the end found."""

    lock: TaskLock
    """Keeps other runs of an exclusive task from starting."""
    reply: Mapping[str, Any] | None = None
    """The guest's answer to the request."""
    by_itself: bool = False
    """Whether the task ended by itself, so that its children may stay."""
    timed_out: bool = False
    waited_for: str = ""
    """What the task waited for in vain, if it asked for a person."""
    left: tuple[LeftRunning, ...] = ()
    """Processes that the task left running, those that are listed."""
    others: int = 0
    """The number of those that are not listed."""
    survivors: tuple[LeftRunning, ...] = ()
    """Processes that could not be killed."""
    failures: list[str] = field(default_factory=list)
    """What went wrong at the end."""


async def end_run(guest: Guest, readers: Sequence[StreamReader], feeder: StdinFeeder, ending: Ending) -> None:
    """End the run of `guest`; the caller must shield this from cancellation. Completes `ending`."""
    failures = ending.failures
    if ending.by_itself:
        with attempt("list the processes that the task left running", failures):
            ending.left, ending.others = await left_running(guest)
    else:
        with attempt("stop the process tree", failures):
            ending.survivors = await stop_guest(guest)
    with attempt("close the standard input", failures):
        feeder.close()
    open_pipes = []
    for reader in readers:
        with attempt("read the rest of the output", failures):
            open_pipes.append(reader.stop())
    with attempt("keep the pipes of a left process open", failures):
        drain_pipes([pipe for pipe in open_pipes if pipe is not None], keep=ending.by_itself)
    with attempt("end the supervisor", failures):
        await guest.release()
    with attempt("release the lock of the task", failures):
        ending.lock.release(remove=guest.gone.is_set())


@contextmanager
def attempt(purpose: str, failures: list[str]) -> Iterator[None]:
    """Log a failure and add it to `failures`, and go on."""
    try:
        yield
    except Exception as error:
        log.warning("cannot %s: %s: %s", purpose, type(error).__name__, error)
        failures.append(f"could not {purpose}: {error}")
