"""What the user allows agents to do with the tasks of a project, and the decision about one task."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from qk_mcp.text import composed, printable, shorten

__all__ = [
    "RULE_KEYS",
    "Rules",
    "Verdict",
    "combine_rules",
    "decide",
    "glob_fault",
    "matches_exactly",
    "matches_loosely",
    "restricts_runs",
    "written_rules",
]


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
    """Where `allow`, `deny` and `confirm` are written, for messages."""
    also: tuple["Rules", ...] = ()
    """Rules for the same tasks that are written elsewhere. A run needs the consent of each of them."""


_DEFAULT = Rules()

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
"""The keys of the rules in a project's table, and the form of each value."""

_LENGTH = 300
"""Characters of a glob, as of a task's name. `fnmatch` takes minutes to translate 100,000 brackets."""
_SHOWN = 300
"""Characters of a rule in a message."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may happen to a task: it runs, it runs if a person agrees, or it does not run."""

    decision: Literal["run", "ask", "refuse"]
    rule: str = ""
    """The rule that decided, and where it is written; empty if none did."""


def decide(rules: Rules, names: Sequence[str]) -> Verdict:
    """Return what `rules` say of the task with these names, its aliases included.

    `deny` and `confirm` apply if they match any name, whatever its case, blanks and Unicode normal form. `allow` needs
    the exact name.
    """
    sources = (rules, *rules.also)
    for source in sources:
        for glob in source.deny:
            if matches_loosely([glob], names):
                return Verdict("refuse", f"deny = {_value(glob)} in {source.origin}")
    for source in sources:
        if source.allow is not None and not matches_exactly(source.allow, names):
            return Verdict("refuse", f"allow = {_value(source.allow)} in {source.origin} does not include it")
    for source in sources:
        for glob in source.confirm:
            if matches_loosely([glob], names):
                return Verdict("ask", f"confirm = {_value(glob)} in {source.origin}")
    return Verdict("run")


def written_rules(rules: Rules) -> dict[str, Any]:
    """Return the rules that differ from the default as a config writes them, without those written elsewhere."""
    values = {key: getattr(rules, key) for key in RULE_KEYS if getattr(rules, key) != getattr(_DEFAULT, key)}
    if "redact" in values and rules.redact is None:
        values["redact"] = False
    return {key: [*value] if isinstance(value, tuple) else value for key, value in values.items()}


def restricts_runs(rules: Rules) -> bool:
    """Return whether `rules` keep any task from running, or from running without a person's consent."""
    return any(each.allow is not None or each.deny or each.confirm for each in (rules, *rules.also))


def combine_rules(own: Rules, others: Iterable[Rules]) -> Rules:
    """Return `own` tightened by the rules of `others`, which are for the same tasks."""
    also = [each for other in others for each in (replace(other, also=()), *other.also)]
    also = [each for each in dict.fromkeys(also) if each not in (Rules(), own)]
    if not also:
        return own
    every = [own, *also]
    hidden = [each.redact for each in every if each.redact is not None]
    return replace(
        own,
        exclusive=_union(each.exclusive for each in every),
        max_timeout=min((each.max_timeout for each in every if each.max_timeout is not None), default=None),
        redact=_union(hidden) if hidden else None,
        log_args=all(each.log_args for each in every),
        also=tuple(also),
    )


def glob_fault(glob: str) -> str:
    """Return why `glob` cannot be a glob of a rule; empty if it can."""
    if not glob:
        return "it is empty"
    return f"it has more than {_LENGTH} characters" if len(glob) > _LENGTH else ""


def matches_exactly(globs: Iterable[str], names: Iterable[str]) -> bool:
    """Return whether one of `globs` matches one of `names`; only the Unicode normal form does not count."""
    texts = [composed(name) for name in names]
    return any(_matches(composed(glob), text) for glob in globs for text in texts)


def matches_loosely(globs: Iterable[str], names: Iterable[str]) -> bool:
    """Return whether one of `globs` matches one of `names` without regard to case, blanks and look of the characters.

    For rules that must not be bypassed by another spelling.
    """
    texts = [*names]
    folded = [_folded(text) for text in texts]
    return any(
        _matches(_folded(glob), fold) or _matches(composed(glob), composed(text))
        for glob in globs
        for text, fold in zip(texts, folded, strict=True)
    )


def _matches(glob: str, name: str) -> bool:
    return glob == name or fnmatchcase(name, glob)


@lru_cache(10_000)
def _folded(text: str) -> str:
    """Return `text` without case, blanks and invisible characters, in the normal form NFKC."""
    from unicodedata import normalize

    visible = normalize("NFKC", printable(text)).casefold()
    return "".join(normalize("NFKC", visible).split())


def _union(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for items in lists for each in items))


def _value(value: str | Sequence[str]) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), _SHOWN)
