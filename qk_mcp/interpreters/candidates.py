"""Where a project's Python may be: every place to look, the nearest to the project first.

The order is quickie's own (its launcher looks into `_qk` and the root for a
virtual environment, then at QK_EXECUTABLE), with the places of other tools
added. Only files are read; no process starts.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from qk_mcp.interpreters.managers import poetry_environment, uv_workspace
from qk_mcp.projects.project import Location, Project, expand

__all__ = ["Candidate", "list_candidates"]

_EXEC_LINE = re.compile(r"'''exec' (?:\"([^\"]+)\"|(\S+)) ")
"""The second line of a script whose `#!` line would be too long or contain blanks, as pip and uv write it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place to look at."""

    reason: str
    path: Path | None
    """An environment's directory or a Python; None if there is nothing to look at."""
    within: bool = False
    """Whether it belongs to the project or its user's shell, so that quickie may be installed there."""
    own: bool = False
    """Whether it is an environment in the project's own directories."""
    absence: str = ""
    """Why there is nothing to look at; empty if the place does not exist."""
    borrowed: bool = False
    """Whether it belongs to the main checkout of a worktree."""


def list_candidates(
    project: Project, location: Location, environ: Mapping[str, str], own: str | None
) -> Iterator[Candidate]:
    """Yield the candidates for the tasks at `location`, the best first.

    `own` is the Python that runs this program, the last of them. A `python` in
    the config is the only candidate.
    """
    main = project.main_root
    if project.python:
        own_place = _configured(project.python, location, environ)
        if main is None or (own_place.path and os.path.lexists(own_place.path)):
            yield own_place
        else:
            elsewhere = Location(main / location.tasks.name, main)
            yield replace(_configured(project.python, elsewhere, environ), borrowed=True)
        return
    root = location.root
    yield from _inside(location)
    if main is not None:
        for place in _inside(Location(main / location.tasks.name, main)):
            yield replace(place, reason=f"{place.reason} of the main checkout", borrowed=True)
    yield _named("UV_PROJECT_ENVIRONMENT", "UV_PROJECT_ENVIRONMENT", root, environ)
    yield Candidate("pixi's default environment", _existing(root / ".pixi" / "envs" / "default"), within=True, own=True)
    yield Candidate("the path in .pdm-python", _pdm_environment(root), within=True, own=True)
    if poetry := poetry_environment(root, environ):
        yield Candidate("Poetry's environment", poetry, within=True, own=True)
    executable = _named("QK_EXECUTABLE", "QK_EXECUTABLE", root, environ)
    yield from _pythons_of(executable.path, executable.reason, within=True) if executable.path else [executable]
    yield _named("VIRTUAL_ENV", "the active VIRTUAL_ENV", root, environ)
    yield _named("CONDA_PREFIX", "the active CONDA_PREFIX", root, environ)
    scripts = list(_on_path("qk", environ))
    for script in scripts:
        yield from _pythons_of(script, "the qk on PATH", within=False)
    # Graphical clients start servers with a short PATH, without the directory that pipx and uv link tools into.
    local = Path(environ.get("HOME") or "/", ".local", "bin", "qk")
    if local not in scripts and os.access(local, os.X_OK):
        yield from _pythons_of(local, "the qk in ~/.local/bin", within=False)
    if not scripts:
        yield Candidate("a qk on PATH", None)
    if own:
        yield Candidate("the Python that runs qk-mcp", Path(own))


def _inside(location: Location) -> Iterator[Candidate]:
    """Yield the virtual environments in the tasks module, in the root, and in the root of its uv workspace."""
    for directory, where in ((location.tasks, location.tasks.name), (location.root, "the project's root")):
        for name in (".venv", "venv") if directory.is_dir() else ():
            yield Candidate(f"the {name} in {where}", _existing(directory / name), within=True, own=True)
    if workspace := uv_workspace(location.root):
        reason = "the .venv of the project's uv workspace"
        yield Candidate(reason, _existing(workspace / ".venv"), within=True, own=True)


def _existing(path: Path) -> Path | None:
    return path if os.path.lexists(path) else None


def _named(variable: str, reason: str, root: Path, environ: Mapping[str, str]) -> Candidate:
    """Return the place that an environment variable names; uv reads a relative one from the project's root."""
    return Candidate(reason, root / environ[variable] if environ.get(variable) else None, within=True)


def _configured(python: str, location: Location, environ: Mapping[str, str]) -> Candidate:
    """Return what the config names: a path, an environment's directory in the root, or a command on PATH."""
    reason = "`python` in the config"
    try:
        if re.search(r"[/\\~$]", python) or (location.root / python).is_dir():
            return Candidate(reason, expand(python, location.root, environ), within=True)
        command = next(_on_path(python, environ), None)
    except ValueError:  # NUL, or what the file system's encoding lacks
        return Candidate(reason, None, absence=f"{python!r} is not a path")
    return Candidate(reason, command, within=True, absence="" if command else f"there is no command {python} on PATH")


def _pdm_environment(root: Path) -> Path | None:
    try:
        lines = (root / ".pdm-python").read_bytes().splitlines()
    except OSError:
        return None
    return root / os.fsdecode(lines[0].strip()) if lines and lines[0].strip() else None


def _on_path(command: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that a shell may run for `command`, in order, without those in the current directory."""
    for directory in (environ.get("PATH") or os.defpath).split(os.pathsep):
        for suffix in (".exe", "") if os.name == "nt" else ("",):
            file = Path(directory, command + suffix)
            if file.is_absolute() and os.access(file, os.X_OK) and not os.path.isdir(file):
                yield file


def _pythons_of(script: Path, reason: str, *, within: bool) -> Iterator[Candidate]:
    """Yield the Pythons that a `qk` script may mean: the one that it starts with, then the one beside it."""
    reason = f"{reason}, {script}"
    if os.path.isdir(script):
        yield Candidate(reason, script, within)
        return
    if script.name.startswith(("python", "pypy")):
        yield Candidate(reason, script, within)  # a Python in place of a qk
        return
    real = Path(os.path.realpath(script))  # pipx and `uv tool` link to the script in the environment
    if "shims" in (script.parent.name, real.parent.name):
        # pyenv's and its like: which Python they run depends on directory, variables and hooks.
        yield Candidate(
            reason, None, absence="it is a version manager's shim, which chooses a Python only when it is run"
        )
        return
    named = _shebang(real)
    names = ("python", "python3", "python.exe")
    neighbour = next(filter(os.path.lexists, (real.parent / name for name in names)), None)
    pythons = [python for python in (named, neighbour if neighbour != named else None) if python]
    for python in pythons:
        yield Candidate(reason, python, within)
    if not pythons:
        absence = "there is no Python beside it" if os.path.lexists(real) else "it does not exist"
        yield Candidate(reason, None, absence=absence)


def _shebang(script: Path) -> Path | None:
    """Return the Python that a script names in its first lines, if it names one by its path."""
    try:
        with script.open("rb") as file:
            lines = os.fsdecode(file.read(2048)).splitlines()
    except OSError:
        return None
    if not lines or not lines[0].startswith("#!"):
        return None
    program = (lines[0][2:].split() or [""])[0]
    if program.endswith("/sh") and len(lines) > 1 and (match := _EXEC_LINE.match(lines[1])):
        program = match[1] or match[2]
    python = Path(program)
    return python if python.is_absolute() and python.name.startswith(("python", "pypy")) else None
