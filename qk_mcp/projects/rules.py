"""What the user's config allows agents to do with the tasks of a project."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RULE_KEYS", "Rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules in a project's table of a config. The globs match the names and aliases of a task."""

    allow: tuple[str, ...] | None = None
    """The only tasks that are listed and run; None for all."""
    deny: tuple[str, ...] = ()
    """Tasks that are neither listed nor run, even if `allow` has them."""
    confirm: tuple[str, ...] = ()
    """Tasks that run only if a person agrees to each run."""
    read_only: tuple[str, ...] = ()
    """Tasks that change nothing, as the user vouches."""
    tools: tuple[str, ...] = ()
    """Tasks that are tools of their own as well."""
    exclusive: tuple[str, ...] = ()
    """Tasks of which only one run at a time may be under way in a root."""
    max_timeout: float | None = None
    """Seconds that a run may take at most; None for no limit."""
    redact: tuple[str, ...] | None = ()
    """Variables whose values are hidden, besides those with the usual names of secrets; None hides nothing."""
    log_args: bool = True
    """Whether the record of a run has its arguments."""
    origin: str = ""
    """Where the rules are written, for messages."""


RULE_KEYS: Mapping[str, str] = {
    "allow": "globs",
    "deny": "globs",
    "confirm": "globs",
    "read_only": "globs",
    "tools": "globs",
    "exclusive": "globs",
    "max_timeout": "seconds",
    "redact": "globs or false",
    "log_args": "boolean",
}
"""The keys of the rules in a project's table, and the kind of each value."""
