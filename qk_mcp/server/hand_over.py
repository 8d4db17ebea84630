"""When a call is answered although its run goes on: shortly before the client gives up on it."""

import math
from dataclasses import dataclass

from qk_mcp.clients.patience import patience_of

__all__ = ["HandOver", "plan_hand_over"]

_MARGIN = 5.0
"""Seconds before the end of a client's patience."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """The times of a call, in seconds."""

    after: float
    """When the call is answered."""
    patience: float
    """What the client waits. A shorter timeout stops the run as usual."""


def plan_hand_over(option: float | None, client: str) -> HandOver | None:
    """Return when calls of a client are handed over; None for never.

    `option` is that of `serve`: the seconds, infinity for never, or None for what is known of the client.
    """
    if option is not None:
        return None if math.isinf(option) else HandOver(option, option)
    patience = patience_of(client)
    return None if patience is None else HandOver(patience - _MARGIN, patience)
