"""Starts descriptions early: before the event loop runs, while the server still imports its libraries.

One guest runs at a time, because the server's own imports need a core as well.
"""

import subprocess
import threading
from collections.abc import Mapping, Sequence

from qk_mcp.errors import QkMcpError
from qk_mcp.interpreters.plan import resolve
from qk_mcp.projects.project import Project
from qk_mcp.tasks.describe import StartedDescription, start_description

__all__ = ["Prefetch"]

_TURN = 10.0
"""Seconds after which the next project is started although the previous guest still runs."""


class Prefetch:
    """Descriptions of some projects, started one after another in a thread."""

    def __init__(self, projects: Sequence[Project] = (), environ: Mapping[str, str] | None = None) -> None:
        self._environ = environ or {}
        self._waiting = {project.alias: project for project in projects}
        self._started: dict[str, StartedDescription] = {}
        self._lock = threading.Lock()
        if projects:
            threading.Thread(target=self._work, daemon=True).start()

    def take(self, alias: str) -> StartedDescription | None:
        """Return the project's description if it has started, for the caller to finish; if not, it never will."""
        with self._lock:
            self._waiting.pop(alias, None)
            return self._started.pop(alias, None)

    def _work(self) -> None:
        while (started := self._start_next()) is not None:
            try:
                started.guest.process.wait(_TURN)
            except subprocess.TimeoutExpired:
                continue

    def _start_next(self) -> StartedDescription | None:
        with self._lock:
            for alias in list(self._waiting):
                project = self._waiting.pop(alias)
                try:
                    started = self._started[alias] = start_description(resolve(project, self._environ))
                except QkMcpError:
                    continue  # the first call for the project reports it
                return started
        return None
