"""Caches the catalogues of projects until a file they depend on changes.

Before a cached catalogue is used, everything that loading and describing the project looked at is compared
(`qk_mcp.guest.file_trace`). Files do not show everything (a module may read the clock), so a catalogue older than
`REFRESH` is used once more while the project is described again in the background.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from qk_mcp.errors import ProjectBroken
from qk_mcp.host.threads import call_in_thread
from qk_mcp.interpreters.plan import Plan, resolve
from qk_mcp.projects.project import Project
from qk_mcp.tasks.catalog import Catalog, parse_entry
from qk_mcp.tasks.describe import Description, StartedDescription, describe, discard_description, finish_description
from qk_mcp.tasks.prefetch import Prefetch

if TYPE_CHECKING:
    from qk_mcp.host.remote import RemoteServers

__all__ = ["DEADLINE", "REFRESH", "CatalogCache"]

log = logging.getLogger(__name__)

DEADLINE = 15.0
"""Seconds that describing a project may take."""
REFRESH = 30.0
"""Age in seconds from which a used catalogue is described again in the background."""


@dataclass(slots=True)
class _Running:
    """A description in progress, and the number of callers that wait for it."""

    task: "asyncio.Task[Description]"
    began: float
    plan: Plan
    waiting: int = 0


class CatalogCache:
    """The catalogues of one process's projects. Belongs to one event loop; call `close` at the end."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        timeout: float = DEADLINE,
        refresh: float = REFRESH,
        prefetch: Prefetch | None = None,
        remote_servers: "RemoteServers | None" = None,
    ) -> None:
        self._environ = environ
        self._timeout = timeout
        self._refresh = refresh
        self._prefetch = prefetch or Prefetch()
        self._remote_servers = remote_servers
        self._known: dict[str, tuple[Description, float]] = {}
        """The last description of each project, and when it ended."""
        self._catalogs: dict[str, Catalog] = {}
        """The last catalogue of each project, also if a later description failed."""
        self._running: dict[str, _Running] = {}
        self._callbacks: list[Callable[[], None]] = []

    async def get(self, project: Project) -> Catalog:
        """Return the project's tasks as they are now; simultaneous calls share one description.

        A remote project is described by its server at each call. Raises `ProjectBroken`, what `resolve` raises, and for
        a remote project RemoteFailed and RemoteRefused.
        """
        if project.remote is not None:
            catalog = parse_entry(await self._servers().list_tasks(project))
            self._keep(project, catalog)
            return catalog
        current = resolve(project, self._environ)
        arrived = asyncio.get_running_loop().time()
        known, ended = self._known.get(project.alias, (None, 0.0))
        if known is not None and known.plan == current and known.is_current():
            if arrived - ended > self._refresh:
                self._start(current)
            return known.catalog()
        while True:
            running = self._start(current)
            description = await self._wait(running)
            # A description that began before this call may have missed an earlier change, which only the files of a
            # cacheable project can rule out. One without a trace took too long; a second one would, too.
            fresh = running.began >= arrived or not description.trace or description.is_current()
            if running.plan == current and fresh:
                return description.catalog()

    async def prepare(self, project: Project) -> None:
        """Describe the project unless a call has done so, or it is remote. Raises what `resolve` raises."""
        if project.remote is None and project.alias not in self._known:
            await self._wait(self._start(resolve(project, self._environ)))

    def trace(self, project: Project) -> Mapping[str, Any]:
        """Return the files that the project's last description depends on; empty if they are not known.

        `qk_mcp.guest.file_trace` has the format and the comparison.
        """
        known, _ = self._known.get(project.alias, (None, 0.0))
        return known.trace if known else {}

    def last(self, project: Project) -> Catalog | None:
        """Return the project's last catalogue, however old; None if it never had one."""
        return self._catalogs.get(project.alias)

    async def changed(self, project: Project) -> bool:
        """Return whether the project has not been described since the files that its description depends on changed.

        Looks at files only: what a module does besides reading them counts in `get` alone. Those of a remote project
        cannot be seen, so it counts as changed until it has been described. Raises what `resolve` raises.
        """
        if project.remote is not None:
            return project.alias not in self._catalogs
        known, _ = self._known.get(project.alias, (None, 0.0))
        current = await call_in_thread(resolve, project, self._environ)
        if known is None or known.plan != current:
            return True
        return not await call_in_thread(known.has_same_files)

    def on_description(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each description."""
        self._callbacks.append(callback)

    async def close(self) -> None:
        """Stop every description in progress, and wait until its processes have ended."""
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._remote_servers is not None:
            await self._remote_servers.close()

    def _servers(self) -> "RemoteServers":
        if self._remote_servers is None:
            from qk_mcp.host.remote import RemoteServers

            self._remote_servers = RemoteServers(self._environ)
        return self._remote_servers

    def _start(self, current: Plan) -> _Running:
        """Return the description in progress of the plan's project, or start one."""
        alias = current.project.alias
        running = self._running.get(alias)
        if running is None:
            loop = asyncio.get_running_loop()
            prefetched = self._prefetch.take(alias)
            began = loop.time() if prefetched is None else 0.0
            task = loop.create_task(self._describe(current, prefetched))
            task.add_done_callback(lambda done: self._remove(alias, done))
            self._running[alias] = running = _Running(task, began, current)
        return running

    def _remove(self, alias: str, done: "asyncio.Task[Description]") -> None:
        del self._running[alias]
        if not done.cancelled():
            done.exception()  # retrieved here, or asyncio logs it if nobody waits

    async def _wait(self, running: _Running) -> Description:
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            if running.waiting == 1 and not running.task.done():  # nobody else waits for it
                running.task.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([running.task])
            raise
        finally:
            running.waiting -= 1

    async def _describe(self, current: Plan, prefetched: StartedDescription | None) -> Description:
        if prefetched is not None and prefetched.guest.plan != current:
            await discard_description(prefetched)
            prefetched = None
        alias, loop = current.project.alias, asyncio.get_running_loop()
        began, first = loop.time(), alias not in self._known
        if prefetched is None:
            description = await describe(current, self._timeout)
        else:
            description = await finish_description(prefetched, self._timeout)
        tasks = len(description.outcome.tasks) if isinstance(description.outcome, Catalog) else "failed"
        reason = "prefetched" if prefetched else "first" if first else "changed or old"
        line = "description project=%s tasks=%s seconds=%.3f reason=%s"
        log.info(line, alias, tasks, loop.time() - began, reason)
        self._known[alias] = description, loop.time()
        self._keep(current.project, description.outcome)
        return description

    def _keep(self, project: Project, outcome: Catalog | ProjectBroken) -> None:
        """Remember a new catalogue, and say that there was a description."""
        if isinstance(outcome, Catalog):
            self._catalogs[project.alias] = outcome
        for callback in self._callbacks:
            callback()
