"""The secrets of a project: variables of its tasks' environment whose names say that their values are secret."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from functools import lru_cache

from qk_mcp.redact import NO_SECRETS, SHORTEST, Secrets, make_secrets, redact_text

__all__ = ["SECRET_NAMES", "find_secrets", "redact_for_log"]

SECRET_NAMES = ("*TOKEN*", "*SECRET*", "*PASSWORD*", "*_KEY", "*CREDENTIAL*")
"""Globs for the names of variables that are secret in every project, in any case."""

_known: dict[tuple[tuple[str, str], ...], Secrets] = {}


def find_secrets(variables: Mapping[str, str], globs: Sequence[str] | None) -> Secrets:
    """Return the secrets among `variables`: those of `SECRET_NAMES`, and those whose names match one of `globs`.

    With None instead of globs, nothing is secret. The same variables yield the same object.
    """
    if globs is None:
        return NO_SECRETS
    is_secret = _matcher(tuple(globs)).match
    found = tuple(
        (name, value) for name, value in variables.items() if len(value) >= SHORTEST and is_secret(name.upper())
    )
    if found not in _known:
        _known[found] = make_secrets(dict(found))
    return _known[found]


def redact_for_log(text: str) -> str:
    """Return `text` without any secret that this process has found, of whichever project."""
    for secrets in list(_known.values()):  # another thread may find more meanwhile
        text = redact_text(text, secrets)
    return text


@lru_cache
def _matcher(globs: tuple[str, ...]) -> "re.Pattern[str]":
    return re.compile("|".join(translate(glob.upper()) for glob in (*SECRET_NAMES, *globs)))
