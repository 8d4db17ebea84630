"""The options of `serve`, and its environment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server is started with, besides its projects."""

    environ: Mapping[str, str]
    outputs: Path
    """The directory for complete outputs."""
    max_output: int
    """Bytes of JSON in an answer."""
    describe_timeout: float
    """Seconds that describing a project may take."""
    warm_guests: int
    """Warm guests at most."""
    tools: Sequence[str] = ()
    """Globs of the tasks of every project that are tools of their own."""
    background: bool = True
    """Whether runs may outlive their calls."""
    hand_over: float | None = None
    """Seconds after which a call is handed over, infinity for never; None: it depends on the client."""
    principal: Callable[[], str] = str
    """Returns who makes the current call, over HTTP; on stdio there is one client, without a name."""
