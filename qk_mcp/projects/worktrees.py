"""Finds git repositories, submodules and linked worktrees by reading git's files.

This does not start git: a checkout is a directory with `.git`, which is the
repository's directory or a file that names it (gitrepository-layout,
git-worktree and gitsubmodules of git's manual).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Checkout", "checkout_at", "enclosing_checkouts", "linked_worktrees"]

_MARK = ".git"
_OTHERS = (".hg", ".jj")
"""The same of Mercurial and Jujutsu."""
_BARE = ("HEAD", "objects", "refs")
"""What a repository's own directory has, a bare one's or `.git` itself."""
_WORKTREES = "worktrees"
"""The directory of a repository with one directory per linked worktree."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory with the checked-out files of one repository."""

    top: Path
    """The directory with `.git`; links are kept."""
    repository: Path
    """The repository's own directory, links followed; all its worktrees share it."""
    worktree: str = ""
    """Git's name of a linked worktree; empty for the main checkout."""
    submodule: bool = False
    """Whether it is a submodule of the checkout around it."""


def enclosing_checkouts(path: Path) -> Iterator[Checkout]:
    """Yield the checkouts that contain `path`, nearest first."""
    for directory in (path, *path.parents):
        if checkout := checkout_at(directory):
            yield checkout


def checkout_at(top: Path) -> Checkout | None:
    """Return the checkout whose top is `top`, or None if there is none."""
    mark = top / _MARK
    if (mark / "HEAD").is_file():
        return Checkout(top, Path(os.path.realpath(mark)), submodule=_is_listed(top))
    if any((top / name).is_dir() for name in _OTHERS) or all(map(os.path.exists, (top / name for name in _BARE))):
        return Checkout(top, Path(os.path.realpath(top)))
    pointer = _first_line(mark)
    if not pointer.startswith("gitdir:"):
        return None
    directory = top / pointer.removeprefix("gitdir:").strip()
    if not (directory / "HEAD").is_file():
        return Checkout(top, Path(os.path.realpath(directory)))  # its repository was removed or moved
    if shared := _first_line(directory / "commondir"):
        return Checkout(top, Path(os.path.realpath(directory / shared)), worktree=directory.name)
    return Checkout(top, Path(os.path.realpath(directory)), submodule="modules" in directory.parts)


def linked_worktrees(repository: Path) -> dict[str, Path]:
    """Return the tops of a repository's linked worktrees by git's names, including removed ones."""
    try:
        with os.scandir(repository / _WORKTREES) as entries:
            directories = sorted(entry.path for entry in entries)
    except OSError:
        return {}
    tops = {}
    for directory in directories:
        if mark := _first_line(Path(directory, "gitdir")):  # relative with `worktree.useRelativePaths` (git 2.48)
            tops[os.path.basename(directory)] = Path(os.path.normpath(Path(directory, mark))).parent
    return tops


def _is_listed(top: Path) -> bool:
    """Return whether the surrounding checkout lists `top`, which contains its repository, as a submodule."""
    around = next(enclosing_checkouts(top.parent), None)
    if around is None:
        return False
    try:
        lines = (around.top / ".gitmodules").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return False
    place = os.path.relpath(top, around.top)
    pairs = (line.partition("=") for line in lines)
    return any(key.strip() == "path" and value.strip().strip('"') == place for key, _, value in pairs)


def _first_line(file: Path) -> str:
    """Return the first line of one of git's small files; empty if there is no such file."""
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            return lines.readline(1 << 14).strip()
    except OSError:
        return ""
