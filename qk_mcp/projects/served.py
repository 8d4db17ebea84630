"""The projects that a server serves now: the user's config is read again when it has changed."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from qk_mcp.errors import ConfigUnreadable, QkMcpError, RulesUnknown
from qk_mcp.projects.project import Project
from qk_mcp.projects.registry import Registry

__all__ = ["ServedProjects"]

log = logging.getLogger(__name__)

_SETTLED = 2.0
"""Seconds after a change in which the file system's clock may not show the next one."""

type _State = tuple[int, int, int, int, int] | None


class ServedProjects:
    """The projects of one server, as a `Registry` that follows the user's config.

    If the config becomes unreadable, the known projects stay, and `check_rules` raises RulesUnknown.
    """

    def __init__(self, registry: Registry, rebuild: Callable[[], Registry] | None = None) -> None:
        """Serve the projects of `registry`, and follow its config by `rebuild`; without that they are fixed."""
        self._registry = registry
        self._rebuild = rebuild if registry.own_config is not None else None
        self._state = _state(registry.own_config)
        self._existed = self._state is not None
        self._read_at = 0.0
        self._failure: QkMcpError | None = None
        self._callbacks: list[Callable[[], None]] = []

    @property
    def fixed(self) -> bool:
        """Whether the projects and their rules never change: `--project` or `--config` names them."""
        return self._rebuild is None

    @property
    def projects(self) -> tuple[Project, ...]:
        """The projects, each with every rule that applies to it."""
        return self._current().served()

    @property
    def default(self) -> Project | None:
        """The project of calls that name none."""
        return self._current().default

    def find(self, name: str | None) -> Project:
        """Return what `Registry.find` returns."""
        return self._current().find(name)

    def check_rules(self) -> None:
        """Raise RulesUnknown if the config cannot be read."""
        self._current()
        if self._failure is not None:
            raise RulesUnknown(self._failure)

    @property
    def note(self) -> str:
        """What an agent should know if the config cannot be read; else empty."""
        self._current()
        return "" if self._failure is None else f"no task can run: {self._failure.what}; ask the user to correct it"

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each change of the projects or their rules, during the call that noticed it."""
        self._callbacks.append(callback)

    def _current(self) -> Registry:
        """Return the registry, built again if the config has changed."""
        if self._rebuild is None:
            return self._registry
        state = _state(self._registry.own_config)
        if state == self._state and self._failure is None and self._is_settled(state):
            return self._registry
        self._state, self._read_at = state, time.time()
        try:
            registry = self._rebuild_from(state)
        except QkMcpError as failure:
            if str(failure) != str(self._failure):
                log.warning("no task runs until the config is corrected: %s", failure)
            self._failure = failure
            return self._registry
        if self._failure is not None:
            log.info("the config can be used again")
            self._failure = None
        if registry != self._registry:
            self._replace(registry)
        return registry

    def _rebuild_from(self, state: _State) -> Registry:
        """Build the registry again. Raises ConfigUnreadable if the config is gone: nobody has lifted its rules."""
        assert self._rebuild is not None and self._registry.own_config is not None
        if state is None and self._existed:
            raise ConfigUnreadable(
                self._registry.own_config, "It was there before.", "restore it, or restart the server"
            )
        registry = self._rebuild()
        self._existed = self._existed or state is not None
        return registry

    def _replace(self, registry: Registry) -> None:
        for warning in registry.warnings:
            if warning not in self._registry.warnings:
                log.warning("%s", warning)
        self._registry = registry
        log.info("the config has changed: projects=%d", len(registry.projects))
        for callback in self._callbacks:
            callback()

    def _is_settled(self, state: _State) -> bool:
        """Return whether a change since the last reading would show in the file's state."""
        return state is None or self._read_at - state[-1] / 1e9 > _SETTLED


def _state(path: Path | None) -> _State:
    """Return what changes with the file at `path`; None if there is no file."""
    try:
        status = os.stat(path) if path else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return 0, 0, 0, 0, 0  # reading it reports why
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
