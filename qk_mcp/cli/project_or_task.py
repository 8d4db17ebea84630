"""Whether the first word of a command line is a project or a task."""

import os
import time
from collections.abc import Iterator, Sequence

from qk_mcp.errors import ProjectNeeded, ProjectNotNamed, QkMcpError
from qk_mcp.projects.project import Project
from qk_mcp.projects.registry import Registry
from qk_mcp.text import nearest

__all__ = ["is_path", "project_and_words", "split_words"]

_SEARCH_LIMIT = 5.0
"""Seconds to look for the projects that have a task."""


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


def project_and_words(registry: Registry, words: Sequence[str]) -> tuple[Project, list[str]]:
    """Return what `split_words` does; its ProjectNotNamed also names the projects that have the task."""
    try:
        return split_words(registry, words)
    except ProjectNotNamed:
        known = [project.alias for project in registry.projects]
        owners = list(_owners(registry.projects, words[0]))
        raise ProjectNotNamed(words[0], known, nearest(words[0], known), owners) from None


def _owners(projects: Sequence[Project], task: str) -> Iterator[str]:
    from qk_mcp.cli.completion.cache import cached_tasks  # which bounds the wait for each project

    deadline = time.monotonic() + _SEARCH_LIMIT
    for project in projects:
        if time.monotonic() > deadline:
            return
        try:
            tasks = cached_tasks(project, os.environ)
        except QkMcpError:  # a broken project is not the answer
            continue
        if any(task in (each.name, *each.aliases) for each in tasks):
            yield project.alias


def is_path(word: str) -> bool:
    """Return whether a word is meant as a path, by its beginning."""
    return word in (".", "..", "~") or word.startswith(("/", "./", "../", "~/"))
