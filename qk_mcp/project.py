"""A project: its alias, and where its tasks module and its root lie."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Location", "Project"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project as declared: nothing here says that its path exists (see `locate`)."""

    alias: str
    path: Path
    """Absolute, `~` and variables expanded, links kept: the tasks module or the directory that holds it."""
    python: str | None = None
    """The interpreter that the user's config names, or None to search for one."""
    env: Mapping[str, str | None] = field(default_factory=dict)
    """What the config adds to the environment of tasks; None takes a variable away."""
    origin: str = ""
    """Where the declaration stands, for messages."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a project's tasks lie on disk."""

    tasks: Path
    """The `_qk` directory or the `.py` file."""
    root: Path
    """The directory that holds it: where tasks run."""
