"""FastMCP without its store for the state of sessions, which no tool here uses.

FastMCP looks into that store for each list of tools and each call, in case a server hides tools from single sessions.
The first look imports libraries that take longer than the answer.
"""

from typing import Any

from fastmcp import FastMCP

__all__ = ["StatelessFastMCP"]


class _NothingStored:
    """The one method of the store that is called if nothing is ever stored."""

    async def get(self, **_: object) -> None:
        return None


class StatelessFastMCP(FastMCP[None]):
    """A FastMCP server without session state: `Context.get_state` finds nothing, and `Context.set_state` fails."""

    @property
    def _state_store(self) -> Any:
        return _NothingStored()
