"""How many runs may start at the same time, shared fairly between projects."""

import asyncio
from collections import Counter, deque

__all__ = ["StartSlots"]


class StartSlots:
    """A number of slots. A free one goes to the waiting project that holds the fewest. Belongs to one event loop."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """The waiting runs by project. The project that got a slot last comes last."""

    async def acquire(self, project: str) -> None:
        """Wait for a slot."""
        if self._free and not self._waiting:
            self._take(project)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(project, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(project)  # it was granted in the same moment
            else:
                self._forget(project, turn)
            raise

    def release(self, project: str) -> None:
        """Return a slot that `project` holds."""
        self._held[project] -= 1
        self._free += 1
        if self._waiting:
            next_project = min(self._waiting, key=self._held.__getitem__)
            turn = self._waiting[next_project][0]
            self._forget(next_project, turn)
            if next_project in self._waiting:
                self._waiting[next_project] = self._waiting.pop(next_project)
            self._take(next_project)
            turn.set_result(None)

    def _take(self, project: str) -> None:
        self._free -= 1
        self._held[project] += 1

    def _forget(self, project: str, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting[project]
        queue.remove(turn)
        if not queue:
            del self._waiting[project]
