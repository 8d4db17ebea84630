"""Has projects described before an event loop runs: while the server imports what it is made of.

One guest at a time, for two cores are soon busy; the imports go on meanwhile.
"""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from qk_mcp.errors import GuestFailed, QkMcpError
from qk_mcp.host import guest as launcher
from qk_mcp.host.guest import Guest, Plan
from qk_mcp.host.launch import start_guest
from qk_mcp.projects.project import Project

__all__ = ["Asked", "HeadStart", "ask", "forget_all", "forget_old"]

_PATIENCE = 10.0
"""Seconds after which the next project's turn comes though the last is not done."""

_PREFIX = "qk-mcp-report-"
_OLD = 3600.0
"""Seconds after which nobody awaits a report any more: the process that did was killed."""

_directories: set[Path] = set()
"""Those of all reports that are awaited."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A guest that was asked for a description, and the file that is to hold it."""

    guest: Guest
    result: Path

    def forget(self) -> None:
        """Remove the file."""
        shutil.rmtree(self.result.parent, ignore_errors=True)
        _directories.discard(self.result.parent)


def ask(plan: Plan) -> Asked:
    """Start a guest and ask it to describe the plan's project. Raises `GuestFailed`."""
    try:
        result = Path(tempfile.mkdtemp(prefix=_PREFIX), "result.json")
    except OSError as error:
        raise GuestFailed(plan.project.alias, str(plan.interpreter.python), error) from error
    _directories.add(result.parent)
    try:
        guest = start_guest(plan)
    except GuestFailed:
        result.parent.rmdir()
        _directories.discard(result.parent)
        raise
    guest.ask_now({"do": "describe", "tasks": str(plan.location.tasks), "result": str(result)})
    return Asked(guest, result)


def forget_all() -> None:
    """Remove every report's file, for the process is about to end; its guests end with it."""
    for directory in list(_directories):
        shutil.rmtree(directory, ignore_errors=True)


def forget_old() -> None:
    """Remove the reports that earlier processes of this user had no time to remove."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > _OLD:
                    shutil.rmtree(entry.path, ignore_errors=True)


class HeadStart:
    """The descriptions of some projects, asked for in a thread, one after the other, until they are taken."""

    def __init__(self, projects: Sequence[Project] = (), environ: Mapping[str, str] | None = None) -> None:
        self._environ = environ or {}
        self._asked: dict[str, Asked] = {}
        self._waiting = {project.alias: project for project in projects}
        self._lock = threading.Lock()
        if projects:
            threading.Thread(target=self._work, daemon=True).start()

    def take(self, alias: str) -> Asked | None:
        """Return the description that was asked for; nobody else gets it, and none is asked for here from now on."""
        with self._lock:
            self._waiting.pop(alias, None)
            return self._asked.pop(alias, None)

    def _work(self) -> None:
        while (asked := self._next()) is not None:
            try:
                asked.guest.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                continue

    def _next(self) -> Asked | None:
        with self._lock:
            for alias in list(self._waiting):
                project = self._waiting.pop(alias)
                try:
                    asked = self._asked[alias] = ask(launcher.plan(project, self._environ))
                except QkMcpError:
                    continue  # whoever asks for the project is told
                return asked
        return None
