"""Which Python runs a project's tasks, and why that one.

The first candidate in which quickie is installed. What PYTHONPATH would add to
any Python does not count.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from qk_mcp.errors import NoInterpreter, QuickieTooOld
from qk_mcp.interpreters.candidates import list_candidates
from qk_mcp.interpreters.install_commands import environment_command, install_command
from qk_mcp.interpreters.installation import PACKAGE, Installation, read_installation
from qk_mcp.interpreters.layout import Unusable
from qk_mcp.interpreters.managers import find_manager
from qk_mcp.projects.project import Location, Project

__all__ = ["OLDEST_QUICKIE", "Interpreter", "find_interpreter"]

OLDEST_QUICKIE = (0, 6)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python of a project's tasks. Two are equal if nothing was installed or replaced in between."""

    python: Path
    """The executable, absolute, links kept."""
    prefix: Path
    """The environment's directory: its `sys.prefix`."""
    reason: str
    """Why this one, as "the .venv in the project's root"."""
    quickie: str
    """The version of quickie-runner in its files."""
    version: str = ""
    """Python's version, as "3.13"; empty when its files do not tell."""
    stamp: tuple[int, ...] = ()
    """Changes when its Python is replaced or packages come or go."""
    passed: tuple[str, ...] = ()
    """Candidates nearer to the project or set by its user, and why each was rejected."""
    lacking: Path | None = None
    """The nearest Python that lacks nothing but quickie, or None."""
    rejected: str = ""
    """The project's own environment and why it was rejected, if this Python is another; else empty."""
    borrowed: bool = False
    """Whether a worktree of the project has none of its own, and this is the main checkout's."""


def find_interpreter(
    project: Project, location: Location, environ: Mapping[str, str], *, own: str | None = sys.executable
) -> Interpreter:
    """Return the interpreter for the tasks at `location`: the first that has quickie.

    `own` is the Python that runs this program, the last candidate. Looks at
    files only, and caches nothing. Raises NoInterpreter, with every candidate and
    the command that provides one, and QuickieTooOld.
    """
    tried: list[str] = []
    absent: list[str] = []
    passed: list[str] = []
    rejected = ""
    lacking: list[Path] = []
    fixable: Unusable | None = None
    for candidate in list_candidates(project, location, environ, own):
        if candidate.path is None and not candidate.absence:
            absent.append(candidate.reason)
            continue
        reason = candidate.absence
        if candidate.path is not None:
            try:
                installation = read_installation(candidate.path, environ)
            except Unusable as unusable:
                if unusable.lacking in lacking:
                    continue  # the same Python by another name
                lacking += [unusable.lacking] if unusable.lacking else []
                if candidate.within and (unusable.lacking or unusable.dead):
                    fixable = fixable or unusable
                reason = str(unusable)
            else:
                return replace(
                    _accept(project, location, candidate.reason, installation, environ),
                    passed=tuple(passed),
                    lacking=fixable.lacking if fixable else None,
                    rejected=rejected,
                    borrowed=candidate.borrowed,
                )
        tried.append(f"{candidate.reason}{f' ({candidate.path})' if candidate.path else ''}: {reason}")
        passed += tried[-1:] if candidate.within else []
        if candidate.own:
            rejected = rejected or tried[-1]
    raise NoInterpreter(project.alias, tried, absent, _remedy(project, location, fixable, own, environ))


def _accept(
    project: Project, location: Location, reason: str, found: Installation, environ: Mapping[str, str]
) -> Interpreter:
    release = re.match(r"(\d+)\.(\d+)", found.quickie)
    if release and (int(release[1]), int(release[2])) < OLDEST_QUICKIE:
        needed = ".".join(map(str, OLDEST_QUICKIE))
        requirement = f"{PACKAGE}>={needed}"
        manager = find_manager(location.root)
        if manager and found.prefix.is_relative_to(location.root):
            remedy = manager.add_command(requirement)
        else:
            remedy = install_command(found.python, requirement, environ) or f"install {requirement} there"
        raise QuickieTooOld(project.alias, found.quickie, needed, f"{found.python}, {reason}", remedy)
    return Interpreter(found.python, found.prefix, reason, found.quickie, found.version, found.stamp)


def _remedy(
    project: Project, location: Location, fixable: Unusable | None, own: str | None, environ: Mapping[str, str]
) -> str:
    """Return the command that would give the project an interpreter; none breaks an environment that works."""
    command = install_command(fixable.lacking, PACKAGE, environ) if fixable and fixable.lacking else ""
    if command and (project.python or find_manager(location.root) is None):
        return command
    if project.python:
        return "let `python` in the config name an environment that has quickie, or remove it"
    return environment_command(location, fixable.dead if fixable else None, own)
