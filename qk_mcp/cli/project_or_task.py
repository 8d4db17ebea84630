"""Tells the word for a project from the word for a task."""

from collections.abc import Sequence

from qk_mcp.errors import ProjectNeeded, ProjectNotNamed
from qk_mcp.projects.project import Project
from qk_mcp.projects.registry import Registry
from qk_mcp.text import nearest

__all__ = ["choose", "is_path"]


def choose(registry: Registry, words: Sequence[str]) -> tuple[Project, list[str]]:
    """Tell `PROJECT TASK ...` from `TASK ...`: return the project, and the words from the task on.

    A first word that is the name of a project, or a path (it begins with `.`, `/`
    or `~`), is the project; otherwise it is a task of the default project. That
    depends on no project's tasks. Raises ProjectNeeded, ProjectNotNamed and UnknownProject.
    """
    first, *rest = words
    known = [project.alias for project in registry.projects]
    if registry.has(first) or is_path(first):
        return registry.find(first), rest
    if registry.default is not None:
        return registry.default, [first, *rest]
    raise ProjectNotNamed(first, known, nearest(first, known)) if known else ProjectNeeded(known)


def is_path(word: str) -> bool:
    """Say whether a word is meant for a path, by how it begins."""
    return word in (".", "..", "~") or word.startswith(("/", "./", "../", "~/"))
