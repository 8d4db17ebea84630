"""The rules that apply to a project: its own, those of other aliases for the same tasks, those of the command line."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import TASKS, Project, locate
from qk_mcp.projects.rules import Rules, combine_rules

__all__ = ["apply_rules"]


def apply_rules(project: Project, projects: Sequence[Project], common: Rules) -> Project:
    """Return `project` with every rule that applies to it: those of `projects` for the same tasks, and `common`.

    Looks at the files each time: the path of a project may lead to another place than before.
    """
    others = [each for each in projects if each.rules != Rules() and each.rules != project.rules]
    if others:
        own = _identities(project)
        others = [each for each in others if own & _identities(each)]
    rules = combine_rules(project.rules, [*(each.rules for each in others), common])
    return project if rules is project.rules else replace(project, rules=rules)


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
