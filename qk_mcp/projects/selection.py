"""Finds the project that a path belongs to, never one that merely surrounds it.

The nearest checkout of a repository and the nearest tasks module, from the path
upward, decide. A linked worktree of a served project's repository is that project
in another tree. Anything else that is not served is an error.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qk_mcp.errors import PathNotServed, QkMcpError, WorktreeMissing
from qk_mcp.projects.project import TASKS, Location, Project, fit_alias, held_tasks, locate
from qk_mcp.projects.worktrees import Checkout, checkout_at, enclosing_checkouts, linked_worktrees

__all__ = ["project_at", "project_in_worktree", "tasks_above"]


@dataclass(frozen=True, slots=True)
class _Located:
    """A project and where its tasks are now; its path stands for what does not exist."""

    project: Project
    location: Location | None
    tasks: Path
    """The tasks module."""
    root: Path
    """The root without links."""

    def holds(self, real: Path) -> bool:
        """Return whether a path without links is in the root."""
        return real.is_relative_to(self.root)


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
    served = [_located(project) for project in projects]
    for each in served:
        if path.is_relative_to(each.tasks):
            return each.project  # even if the tasks module is a link to another place
    real = Path(os.path.realpath(path))
    holders = [each for each in served if each.holds(real)]
    holder = max(holders, key=lambda each: len(each.root.parts), default=None)
    boundary = _boundary(real)
    if holder is not None and (boundary is None or not _is_below(boundary.top, holder.root)):
        return _unless_nested(served, holder, real, path)
    if boundary is not None and boundary.worktree:
        return _of_worktree(served, boundary, real, path)
    if boundary is not None and (holder is not None or _nearest_root(real, boundary.top)):
        raise _not_served(served, path, boundary.top)
    return None


def project_in_worktree(projects: Sequence[Project], name: str) -> Project | None:
    """Return the project that `ALIAS@WORKTREE` means, or None if `name` does not begin with an alias and `@`.

    Raises WorktreeMissing, which lists the worktrees.
    """
    for project in projects:
        worktree = name.removeprefix(f"{project.alias}@")
        if worktree == name:
            continue
        main = _located(project)
        own = _boundary(main.root)
        tops = linked_worktrees(own.repository) if own else {}
        checkout = checkout_at(tops[worktree]) if worktree in tops else None
        if own is None or checkout is None or checkout.repository != own.repository:
            existing = [each for each, top in tops.items() if checkout_at(top)]
            why = f"Git knows no worktree {worktree!r} of it." if worktree not in tops else "It was moved or removed."
            raise WorktreeMissing(project.alias, worktree, why, [f"{project.alias}@{each}" for each in existing])
        return _moved(main, own, checkout)
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


def _located(project: Project) -> _Located:
    try:
        location = locate(project)
    except QkMcpError:
        return _Located(project, None, project.path, Path(os.path.realpath(project.path)))
    return _Located(project, location, location.tasks, Path(os.path.realpath(location.root)))


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


def _unless_nested(served: Sequence[_Located], holder: _Located, real: Path, path: Path) -> Project:
    """Return the project of `holder`. Raises PathNotServed if `real` belongs to other tasks inside its root."""
    nearest = _nearest_root(real, holder.root)
    if nearest is not None and _is_below(nearest, holder.root) and not real.is_relative_to(holder.tasks):
        raise _not_served(served, path, nearest)
    return holder.project


def _of_worktree(served: Sequence[_Located], checkout: Checkout, real: Path, path: Path) -> Project:
    place = real.relative_to(checkout.top)
    candidates = list(_sharing(served, checkout))
    roots = {each.project.alias: each.root.relative_to(own.top) for each, own in candidates}
    found = [(each, own) for each, own in candidates if place.is_relative_to(roots[each.project.alias])]
    if found:
        main, own = max(found, key=lambda pair: len(roots[pair[0].project.alias].parts))
    elif len(candidates) == 1 and place == Path():
        main, own = candidates[0]  # the top of a worktree means the repository's only project
    elif candidates:
        names = [f"{each.project.alias}@{checkout.worktree}" for each, _ in candidates]
        raise PathNotServed(str(path), "It is in a worktree, but in none of the projects there.", names)
    else:
        raise _not_served(served, path, checkout.top)
    return _unless_nested(served, _located(_moved(main, own, checkout)), real, path)


def _sharing(served: Sequence[_Located], checkout: Checkout) -> Iterator[tuple[_Located, Checkout]]:
    """Yield the projects in checkouts of the same repository, each with its own checkout."""
    for each in served:
        own = _boundary(each.root)
        if own is not None and own.repository == checkout.repository:
            yield each, own


def _moved(main: _Located, own: Checkout, checkout: Checkout) -> Project:
    """Return a project of the checkout `own` in the worktree `checkout`. Raises WorktreeMissing."""
    project, location = main.project, main.location
    alias = f"{project.alias}@{checkout.worktree}"
    tasks = main.root / location.tasks.name if location else main.root
    path = checkout.top / tasks.relative_to(own.top)
    if tasks.name in (TASKS, f"{TASKS}.py"):
        path = held_tasks(path.parent) or path  # a branch may have the other form
    if not os.path.lexists(path):
        why = f"There is nothing at {path}: the branch checked out there has no tasks."
        raise WorktreeMissing(project.alias, checkout.worktree, why, [])
    main_root = location.root if location else None
    return replace(project, alias=alias, path=path, main_root=main_root, origin=f"a worktree of {project.alias!r}")


def _not_served(served: Sequence[_Located], path: Path, top: Path) -> PathNotServed:
    known = [each.project.alias for each in served]
    directory = _nearest_root(Path(os.path.realpath(path)), top)
    if directory is None:
        return PathNotServed(
            str(path), f"The nearest repository is {top}, which has no tasks and is not served.", known
        )
    why = f"It belongs to {directory}, which has tasks of its own and is not served."
    return PathNotServed(str(path), why, known, f"{fit_alias(directory.name)}:{directory}")
