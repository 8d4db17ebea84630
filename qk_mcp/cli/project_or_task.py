"""Whether the first word of a command line is a project or a task."""

from collections.abc import Sequence

from qk_mcp.errors import ProjectNeeded, ProjectNotNamed
from qk_mcp.projects.project import Project
from qk_mcp.projects.registry import Registry
from qk_mcp.text import nearest

__all__ = ["is_path", "split_words"]


def split_words(registry: Registry, words: Sequence[str]) -> tuple[Project, list[str]]:
    """Return the project and the other words of `PROJECT TASK ...` or `TASK ...`.

    The first word is the project if it is the name of one or a path (it begins with `.`, `/` or `~`). Otherwise it
    is a task of the default project. The projects' tasks play no part. Raises ProjectNeeded, ProjectNotNamed and
    what `Registry.find` raises.
    """
    first, *rest = words
    known = [project.alias for project in registry.projects]
    if registry.has(first) or is_path(first):
        return registry.find(first), rest
    if registry.default is not None:
        return registry.default, [first, *rest]
    raise ProjectNotNamed(first, known, nearest(first, known)) if known else ProjectNeeded(known)


def is_path(word: str) -> bool:
    """Return whether a word is meant as a path, by its beginning."""
    return word in (".", "..", "~") or word.startswith(("/", "./", "../", "~/"))
