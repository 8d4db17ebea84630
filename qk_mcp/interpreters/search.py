"""Which Python runs a project's tasks, and why that one.

The order is quickie's own (its launcher looks into `_qk` and the root for a
virtual environment, then at QK_EXECUTABLE), with the places of other tools
added. A candidate counts only if quickie is installed there: what PYTHONPATH
would add to any Python says nothing about one.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from qk_mcp.errors import NoInterpreter, QuickieTooOld
from qk_mcp.interpreters.installation import PACKAGE, Installation, Unusable, examine, install_command
from qk_mcp.projects.project import Location, Project, expand

__all__ = ["OLDEST_QUICKIE", "Interpreter", "find_interpreter"]

OLDEST_QUICKIE = (0, 6)

_EXEC_LINE = re.compile(r"'''exec' (?:\"([^\"]+)\"|(\S+)) ")
"""The second line of a script whose `#!` line would be too long or hold blanks, as pip and uv write it."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python of a project's tasks; two are equal as long as nothing was installed or replaced between."""

    python: Path
    """The executable, absolute, links kept."""
    prefix: Path
    """The environment's directory: its `sys.prefix`."""
    reason: str
    """Why this one, as "the .venv in the project's root"."""
    quickie: str
    """The version of quickie-runner that its files tell."""
    version: str = ""
    """Python's version, as "3.13"; empty when its files do not tell."""
    stamp: tuple[int, ...] = ()
    """Differs once its Python is replaced or packages come or go."""
    passed: tuple[str, ...] = ()
    """What is nearer to the project or meant by its user, and why it would not do."""
    lacking: Path | None = None
    """The Python of the nearest of those that lack nothing but quickie, or None."""
    rejected: str = ""
    """The project's own environment and why it would not do, when this Python is another; else empty."""
    borrowed: bool = False
    """Whether a worktree of the project has none of its own, and this is the main checkout's."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Somewhere to look: an environment's directory, or a Python; None where there is nothing to look at."""

    reason: str
    path: Path | None
    within: bool = False
    """Whether it belongs to the project or its user's shell, so that quickie may well be installed there."""
    own: bool = False
    """Whether it is an environment in the project's own directories."""
    absence: str = ""
    """Why there is nothing to look at; empty when the place is simply not there."""
    borrowed: bool = False
    """Whether it belongs to the main checkout of a worktree."""


def find_interpreter(
    project: Project, location: Location, environ: Mapping[str, str], *, own: str | None = sys.executable
) -> Interpreter:
    """Return the interpreter for the tasks at `location`: the first that has quickie.

    `own` is the Python that runs this program, the last to be asked. Looks at
    files only, anew each time. Raises NoInterpreter, with every place that was
    tried and the command that mends it, and QuickieTooOld.
    """
    tried: list[str] = []
    absent: list[str] = []
    passed: list[str] = []
    rejected = ""
    lacking: list[Path] = []
    mendable: Unusable | None = None
    for place in _places(project, location, environ, own):
        if place.path is None and not place.absence:
            absent.append(place.reason)
            continue
        reason = place.absence
        if place.path is not None:
            try:
                accepted = _accept(project, place.reason, examine(place.path, environ), environ)
                lacked = mendable.lacking if mendable else None
                return replace(
                    accepted, passed=tuple(passed), lacking=lacked, rejected=rejected, borrowed=place.borrowed
                )
            except Unusable as unusable:
                if unusable.lacking in lacking:
                    continue  # by another name
                lacking += [unusable.lacking] if unusable.lacking else []
                if place.within and (unusable.lacking or unusable.dead):
                    mendable = mendable or unusable
                reason = str(unusable)
        tried.append(f"{place.reason}{f' ({place.path})' if place.path else ''}: {reason}")
        passed += tried[-1:] if place.within else []
        if place.own:
            rejected = rejected or tried[-1]
    raise NoInterpreter(project.alias, tried, absent, _remedy(project, location, mendable, own, environ))


def _accept(project: Project, reason: str, found: Installation, environ: Mapping[str, str]) -> Interpreter:
    release = re.match(r"(\d+)\.(\d+)", found.quickie)
    if release and (int(release[1]), int(release[2])) < OLDEST_QUICKIE:
        needed = ".".join(map(str, OLDEST_QUICKIE))
        remedy = install_command(found.python, environ, f"{PACKAGE}>={needed}")
        raise QuickieTooOld(project.alias, found.quickie, needed, f"{found.python}, {reason}", remedy)
    return Interpreter(found.python, found.prefix, reason, found.quickie, found.version, found.stamp)


def _places(project: Project, location: Location, environ: Mapping[str, str], own: str | None) -> Iterator[_Place]:
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
    yield from _beside(location)
    if main is not None:
        for place in _beside(Location(main / location.tasks.name, main)):
            yield replace(place, reason=f"{place.reason} of the main checkout", borrowed=True)
    yield _named("UV_PROJECT_ENVIRONMENT", "UV_PROJECT_ENVIRONMENT", root, environ)
    yield _Place("pixi's default environment", _existing(root / ".pixi" / "envs" / "default"), within=True, own=True)
    yield _Place("the path in .pdm-python", _pdm(root), within=True, own=True)
    executable = _named("QK_EXECUTABLE", "QK_EXECUTABLE", root, environ)
    yield from _behind(executable.path, executable.reason, within=True) if executable.path else [executable]
    yield _named("VIRTUAL_ENV", "the active VIRTUAL_ENV", root, environ)
    yield _named("CONDA_PREFIX", "the active CONDA_PREFIX", root, environ)
    scripts = list(_on_path("qk", environ))
    for script in scripts:
        yield from _behind(script, "the qk on PATH", within=False)
    if not scripts:
        yield _Place("a qk on PATH", None)
    if own:
        yield _Place("the Python that runs qk-mcp", Path(own))


def _beside(location: Location) -> Iterator[_Place]:
    """Yield the virtual environments in the tasks module and in the root."""
    for directory, where in ((location.tasks, location.tasks.name), (location.root, "the project's root")):
        for name in (".venv", "venv") if directory.is_dir() else ():
            yield _Place(f"the {name} in {where}", _existing(directory / name), within=True, own=True)


def _existing(path: Path) -> Path | None:
    return path if os.path.lexists(path) else None


def _named(variable: str, reason: str, root: Path, environ: Mapping[str, str]) -> _Place:
    """Return the place that an environment variable names; uv reads a relative one from the project's root."""
    return _Place(reason, root / environ[variable] if environ.get(variable) else None, within=True)


def _configured(python: str, location: Location, environ: Mapping[str, str]) -> _Place:
    """Return what the config names: a path, an environment's directory in the root, or a command on PATH."""
    reason = "`python` in the config"
    try:
        if re.search(r"[/\\~$]", python) or (location.root / python).is_dir():
            return _Place(reason, expand(python, location.root, environ), within=True)
        command = next(_on_path(python, environ), None)
    except ValueError:  # NUL, or what the file system's encoding lacks
        return _Place(reason, None, absence=f"{python!r} is not a path")
    return _Place(reason, command, within=True, absence="" if command else f"there is no command {python} on PATH")


def _pdm(root: Path) -> Path | None:
    try:
        said = (root / ".pdm-python").read_bytes().splitlines()
    except OSError:
        return None
    return root / os.fsdecode(said[0].strip()) if said and said[0].strip() else None


def _on_path(command: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that a shell may run for `command`, in order, without those in the current directory."""
    for directory in (environ.get("PATH") or os.defpath).split(os.pathsep):
        for suffix in (".exe", "") if os.name == "nt" else ("",):
            file = Path(directory, command + suffix)
            if file.is_absolute() and os.access(file, os.X_OK) and not os.path.isdir(file):
                yield file


def _behind(script: Path, reason: str, *, within: bool) -> Iterator[_Place]:
    """Yield the Pythons that a `qk` script stands for: the one it starts with, then the one that lies beside it."""
    reason = f"{reason}, {script}"
    if os.path.isdir(script):
        yield _Place(reason, script, within)
        return
    if script.name.startswith(("python", "pypy")):
        yield _Place(reason, script, within)  # a Python in place of a qk
        return
    real = Path(os.path.realpath(script))  # pipx and `uv tool` link to the script in the environment
    if "shims" in (script.parent.name, real.parent.name):
        # pyenv's and its like: which Python they run depends on directory, variables and hooks.
        yield _Place(reason, None, absence="it is a version manager's shim, which chooses a Python only when it is run")
        return
    named = _shebang(real)
    beside = next(filter(os.path.lexists, (real.parent / name for name in ("python", "python3", "python.exe"))), None)
    pythons = [python for python in (named, beside if beside != named else None) if python]
    for python in pythons:
        yield _Place(reason, python, within)
    if not pythons:
        there = os.path.lexists(real)
        yield _Place(reason, None, absence="no Python lies beside it" if there else "it does not exist")


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


def _remedy(
    project: Project, location: Location, mendable: Unusable | None, own: str | None, environ: Mapping[str, str]
) -> str:
    """Return the command that would give the project an interpreter; none destroys what still works."""
    if mendable and mendable.lacking:
        return install_command(mendable.lacking, environ)
    if project.python:
        return "let `python` in the config name an environment that has quickie, or take it out"
    from shlex import quote

    if mendable and mendable.dead:
        directory, clear = mendable.dead, " --clear"
    else:
        directory, clear = location.root / ".venv", ""
        if os.path.lexists(directory):
            directory = location.tasks / ".venv" if location.tasks.is_dir() else location.root / "venv"
    if os.name != "nt" and ":" in str(directory):
        return "make an environment where no colon is in the path (venv refuses it); name it as `python` in your config"
    python = directory / ("Scripts" if os.name == "nt" else "bin") / "python"
    return (
        f"{quote(own or 'python3')} -m venv{clear} {quote(str(directory))}"
        f" && {quote(str(python))} -m pip install {PACKAGE}"
        ' (or, to run the tasks with the Python of qk-mcp: pip install "qk-mcp[quickie]")'
    )
