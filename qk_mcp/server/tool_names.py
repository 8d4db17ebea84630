"""The names of tasks' own tools: what clients accept, and the same at each start, because people grant them."""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from hashlib import sha256

__all__ = ["tool_names"]

_LONGEST = 40
"""Characters of a name: some clients put the server's name in front and cut at 60."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = 4


def tool_names(tasks: Sequence[tuple[str, str]], reserved: Collection[str], *, with_alias: bool) -> list[str]:
    """Return a name for each project's alias and task: `TASK`, or `ALIAS-TASK` if `with_alias`.

    Of several with the same name, the one that is written so keeps it; the others, and long names, end in four hex
    digits that depend only on the alias and the task.
    """
    plain = [f"{alias}-{task}" if with_alias else task for alias, task in tasks]
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(plain):
        alike[_cleaned(name)].append(position)
    names: list[str] = []
    for position, name in enumerate(plain):
        clean = _cleaned(name)
        exact = [each for each in alike[clean] if plain[each] == clean]
        keeps = len(alike[clean]) == 1 or exact == [position]
        free = keeps and len(clean) <= _LONGEST and clean not in reserved
        names.append(clean if free else _distinct(clean, tasks[position], {*names, *alike, *reserved}))
    return names


def _cleaned(name: str) -> str:
    return _OTHER.sub("_", name)


def _distinct(name: str, task: tuple[str, str], taken: Collection[str]) -> str:
    attempt = 0
    while True:
        digits = sha256(repr((*task, attempt)).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        candidate = f"{name[: _LONGEST - _DIGITS - 1]}-{digits}"
        if candidate not in taken:
            return candidate
        attempt += 1
