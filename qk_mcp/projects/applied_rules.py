"""The rules that apply to a project: its own, those of other aliases for the same tasks, those of the command line."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import TASKS, Project, locate
from qk_mcp.projects.rules import Rules, combine_rules

__all__ = ["apply_rules"]


def apply_rules(wanted: Sequence[Project], declared: Sequence[Project], common: Rules) -> tuple[Project, ...]:
    """Return the `wanted` projects with their own rules, those of `declared` projects for the same tasks, and `common`.

    Looks at the files each time: the path of a project may lead to another place than before.
    """
    ruled = [project for project in declared if project.rules != _NO_RULES]
    different = {project.rules for project in ruled}
    owners: dict[tuple[int, int], set[int]] | None = None
    answer = []
    for project in wanted:
        others: list[Rules] = []
        if len(different) > (project.rules in different):
            owners = _by_identity(ruled) if owners is None else owners
            same = set[int]().union(*(owners.get(identity, ()) for identity in _identities(project)))
            others = [ruled[position].rules for position in sorted(same)]
        rules = combine_rules(project.rules, [*others, common])
        answer.append(project if rules is project.rules else replace(project, rules=rules))
    return tuple(answer)


_NO_RULES = Rules()


def _by_identity(projects: Sequence[Project]) -> dict[tuple[int, int], set[int]]:
    """Return the positions of the projects that have an identity, by identity."""
    found: dict[tuple[int, int], set[int]] = {}
    for position, project in enumerate(projects):
        for identity in _identities(project):
            found.setdefault(identity, set()).add(position)
    return found


def _identities(project: Project) -> set[tuple[int, int]]:
    """Return what two aliases for the same tasks share: the tasks module, or the root if it has the usual name.

    A worktree also has the root of the declared checkout.
    """
    paths: list[Path] = [] if project.main_root is None else [project.main_root]
    try:
        location = locate(project)
    except QkMcpError:
        return set()
    paths += [location.tasks, location.tasks / "__init__.py"]
    if location.tasks.stem == TASKS:
        paths.append(location.root)
    found = set()
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue  # a single file, or it has gone since
        found.add((status.st_dev, status.st_ino))
    return found
