"""The way to stop a run from outside, and to read its output, while it goes through the hands of its guests."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio

from qk_mcp.host.guest import Guest
from qk_mcp.runs.gate import Gate
from qk_mcp.runs.output import Capture
from qk_mcp.runs.streams import Stream

__all__ = ["Control"]


class Control:
    """One run: its limit, whether somebody has stopped it, and its captured output."""

    def __init__(self, limit: float | None) -> None:
        """Start the time of a run that is stopped after `limit` seconds; None for no limit."""
        self._deadline = math.inf if limit is None else anyio.current_time() + limit
        self._scope: anyio.CancelScope | None = None
        self.stopped = ""
        """Who stopped the run; empty if nobody did."""
        self.captures: Mapping[Stream, Capture] = {}
        """The output of the guest."""
        self.guest: Guest | None = None
        """The run's present guest."""
        self.live = False
        """Whether the output is written through to files, which are kept."""
        self.asking = False
        """Whether a person is being asked if the task may run."""
        self.find_gate: Callable[[], Gate | None] = lambda: None
        """Returns the gate that the task must pass, or None; called when a guest is there. May raise a refusal."""
        self.on_wait: Callable[[str], object] | None = None
        """Called with the other run if this one has to wait, because its task is exclusive."""
        self.waits_for = ""
        """That other run; stays when this one waits no longer."""

    def stop(self, by: str) -> None:
        """Stop the run, unless its task has ended. The first stop counts."""
        self.stopped = self.stopped or by
        if self._scope is not None:
            self._scope.cancel()

    def wait_for(self, other: str) -> None:
        """Note that the task cannot begin before another run has ended."""
        self.waits_for = other
        if self.on_wait is not None:
            self.on_wait(other)

    def write_through(self) -> None:
        """Write all output to files, at once from now on, and keep them if the task begins."""
        if not self.live:
            self.live = True
            self._open_files()

    def attach(self, guest: Guest, captures: Mapping[Stream, Capture]) -> None:
        """Note the guest that runs the task now, and where its output goes."""
        self.guest, self.captures = guest, captures
        if self.live:
            self._open_files()

    def detach(self) -> None:
        """Release the guest and its output, when the run has ended."""
        self.guest, self.captures = None, {}

    def _open_files(self) -> None:
        for capture in self.captures.values():
            capture.file.write_through()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time of the limit pass during a block: a person is asked."""
        began, scope = anyio.current_time(), self._scope
        self.asking = True
        if scope is not None:
            scope.deadline = math.inf
        try:
            yield
        finally:
            self.asking = False
            self._deadline += anyio.current_time() - began
            if scope is not None:
                scope.deadline = self._deadline

    @contextmanager
    def limited(self) -> Iterator[anyio.CancelScope]:
        """Limit a block to the time that is left; a stop ends it early."""
        with anyio.CancelScope(deadline=self._deadline) as scope:
            self._scope = scope
            if self.stopped:
                scope.cancel()
            try:
                yield scope
            finally:
                self._scope = None
