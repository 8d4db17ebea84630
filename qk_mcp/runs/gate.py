"""The gate between finding a task and starting it, for a project with rules."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qk_mcp.host.guest import Guest
from qk_mcp.tasks.catalog import relative_location

__all__ = ["Gate", "ResolvedTask", "pass_gate"]


@dataclass(frozen=True, slots=True)
class ResolvedTask:
    """The task that a guest has found under the requested name."""

    names: Sequence[str]
    """Its name and its aliases."""
    location: str | None
    """`file:line` of its definition, relative to the project's root."""


type Gate = Callable[[ResolvedTask], Awaitable[None]]
"""Returns when the task may start, or raises why it may not."""


async def pass_gate(guest: Guest, gate: Gate, reply: dict[str, Any] | None) -> dict[str, Any] | None:
    """Ask `gate` about the task in the guest's `reply`, let the task start, and return the guest's next reply.

    A reply that names no task (it is unknown, its project is broken) is returned as it is. Raises what `gate` raises.
    """
    names = reply.get("names") if reply is not None and reply.get("event") == "resolved" else None
    if not isinstance(names, list) or reply is None:
        return reply
    texts = [name for name in names if isinstance(name, str)]
    await gate(ResolvedTask(texts, relative_location(reply, guest.plan.location.root)))
    await guest.allow_start()
    return await guest.answer()
