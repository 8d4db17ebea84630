"""Finds the project that a path belongs to, never one that merely surrounds it.

The nearest checkout of a repository and the nearest tasks module, from the path
upward, decide. A linked worktree of a served project's repository is that project
in another tree. Anything else that is not served is an error.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from qk_mcp.errors import PathNotServed, QkMcpError, WorktreeMissing
from qk_mcp.projects.project import TASKS, Project, fit_alias, held_tasks, locate
from qk_mcp.projects.worktrees import Checkout, checkout_at, enclosing_checkouts, linked_worktrees

__all__ = ["project_at", "project_in_worktree", "root_of", "tasks_above"]


def project_at(projects: Sequence[Project], path: Path) -> Project | None:
    """Return the project that `path` (absolute) belongs to, or None if no project or repository of one contains it.

    Raises PathNotServed if the nearest repository or tasks module is not served, and WorktreeMissing if a
    worktree does not contain the project's tasks.
    """
    if not os.path.lexists(path):
        for project in projects:
            if path.is_relative_to(project.path) and not os.path.lexists(project.path):
                return project  # `locate` reports that it is gone
        raise PathNotServed(str(path), "It does not exist.", [project.alias for project in projects])
    for project in projects:
        if path.is_relative_to(_tasks_of(project)):
            return project  # even if the tasks module is a link to another place
    real = Path(os.path.realpath(path))
    holder, boundary = _holder(projects, real), _boundary(real)
    if holder is not None and (boundary is None or not _is_below(boundary.top, _real_root(holder))):
        return _unless_nested(projects, holder, real, path)
    if boundary is not None and boundary.worktree:
        return _of_worktree(projects, boundary, real, path)
    if boundary is not None and (holder is not None or _nearest_root(real, boundary.top)):
        raise _not_served(projects, path, boundary.top)
    return None


def project_in_worktree(projects: Sequence[Project], name: str) -> Project | None:
    """Return the project that `ALIAS@WORKTREE` means, or None if `name` does not begin with an alias and `@`.

    Raises WorktreeMissing, which lists the worktrees.
    """
    for project in projects:
        worktree = name.removeprefix(f"{project.alias}@")
        if worktree == name:
            continue
        own = _boundary(_real_root(project))
        tops = linked_worktrees(own.repository) if own else {}
        checkout = checkout_at(tops[worktree]) if worktree in tops else None
        if own is None or checkout is None or checkout.repository != own.repository:
            existing = [each for each, top in tops.items() if checkout_at(top)]
            why = f"Git knows no worktree {worktree!r} of it." if worktree not in tops else "It was moved or removed."
            raise WorktreeMissing(project.alias, worktree, why, [f"{project.alias}@{each}" for each in existing])
        return _placed(project, own, checkout)
    return None


def tasks_above(directory: Path) -> Path | None:
    """Return the nearest tasks module from `directory` upward; a repository's top ends the search.

    The top of a submodule does not end it: a submodule without tasks belongs to the surrounding project.
    """
    boundary = _boundary(Path(os.path.realpath(directory)))
    for each in (directory, *directory.parents):
        if tasks := held_tasks(each):
            return tasks
        if boundary is not None and os.path.realpath(each) == str(boundary.top):
            return None
    return None


def root_of(project: Project) -> Path:
    """Return the root of a project's tasks, or the project's path if there are none."""
    try:
        return locate(project).root
    except QkMcpError:
        return project.path


def _real_root(project: Project) -> Path:
    return Path(os.path.realpath(root_of(project)))


def _tasks_of(project: Project) -> Path:
    try:
        return locate(project).tasks
    except QkMcpError:
        return project.path


def _holder(projects: Sequence[Project], real: Path) -> Project | None:
    """Return the project with the deepest root that contains a path without links."""
    deepest, depth = None, 0
    for project in projects:
        root = _real_root(project)
        if real.is_relative_to(root) and len(root.parts) > depth:
            deepest, depth = project, len(root.parts)
    return deepest


def _boundary(real: Path) -> Checkout | None:
    """Return the nearest checkout that contains a path; a submodule counts only if it has tasks there."""
    for checkout in enclosing_checkouts(real):
        if not checkout.submodule or _nearest_root(real, checkout.top):
            return checkout
    return None


def _nearest_root(real: Path, top: Path) -> Path | None:
    """Return the nearest directory with tasks from `real` up to `top`."""
    for directory in (real, *real.parents):
        if held_tasks(directory):
            return directory
        if directory == top:
            break
    return None


def _is_below(path: Path, other: Path) -> bool:
    return path != other and path.is_relative_to(other)


def _unless_nested(projects: Sequence[Project], project: Project, real: Path, path: Path) -> Project:
    root = _real_root(project)
    nearest = _nearest_root(real, root)
    if nearest is not None and _is_below(nearest, root) and not real.is_relative_to(_tasks_of(project)):
        raise _not_served(projects, path, nearest)
    return project


def _of_worktree(projects: Sequence[Project], checkout: Checkout, real: Path, path: Path) -> Project:
    place = real.relative_to(checkout.top)
    candidates = list(_sharing(projects, checkout))
    found = [project for project, root in candidates if place.is_relative_to(root)]
    depth = {project.alias: len(root.parts) for project, root in candidates}
    if found:
        project = max(found, key=lambda each: depth[each.alias])
    elif len(candidates) == 1 and place == Path():
        project = candidates[0][0]  # the top of a worktree means the repository's only project
    elif candidates:
        names = [f"{project.alias}@{checkout.worktree}" for project, _ in candidates]
        raise PathNotServed(str(path), "It is in a worktree, but in none of the projects there.", names)
    else:
        raise _not_served(projects, path, checkout.top)
    own = _boundary(_real_root(project))
    assert own is not None  # `_sharing` found one
    return _unless_nested(projects, _placed(project, own, checkout), real, path)


def _sharing(projects: Sequence[Project], checkout: Checkout) -> Iterator[tuple[Project, Path]]:
    """Yield the projects in checkouts of the same repository, each with its root relative to the checkout's top."""
    for project in projects:
        root = _real_root(project)
        own = _boundary(root)
        if own is not None and own.repository == checkout.repository:
            yield project, root.relative_to(own.top)


def _placed(project: Project, own: Checkout, checkout: Checkout) -> Project:
    """Return `project` in the worktree `checkout` of its repository. Raises WorktreeMissing."""
    alias = f"{project.alias}@{checkout.worktree}"
    try:
        location = locate(project)
        tasks = Path(os.path.realpath(location.root)) / location.tasks.name
        main_root: Path | None = location.root
    except QkMcpError:
        tasks, main_root = Path(os.path.realpath(project.path)), None
    path = checkout.top / tasks.relative_to(own.top)
    if tasks.name in (TASKS, f"{TASKS}.py"):
        path = held_tasks(path.parent) or path  # a branch may have the other form
    if not os.path.lexists(path):
        why = f"There is nothing at {path}: the branch checked out there has no tasks."
        raise WorktreeMissing(project.alias, checkout.worktree, why, [])
    return replace(project, alias=alias, path=path, main_root=main_root, origin=f"a worktree of {project.alias!r}")


def _not_served(projects: Sequence[Project], path: Path, top: Path) -> PathNotServed:
    known = [project.alias for project in projects]
    directory = _nearest_root(Path(os.path.realpath(path)), top)
    if directory is None:
        return PathNotServed(
            str(path), f"The nearest repository is {top}, which has no tasks and is not served.", known
        )
    why = f"It belongs to {directory}, which has tasks of its own and is not served."
    return PathNotServed(str(path), why, known, f"{fit_alias(directory.name)}:{directory}")
