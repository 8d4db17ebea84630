"""A project: its alias, and the paths of its tasks module and its root."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from qk_mcp.errors import InvalidDeclaration, InvalidName, NoDirectory, PathMissing, ProjectElsewhere, TasksNotFound
from qk_mcp.projects.remote import Remote
from qk_mcp.projects.rules import Rules
from qk_mcp.text import nearest

__all__ = [
    "TABLE",
    "TASKS",
    "Location",
    "Project",
    "check_alias",
    "current_directory",
    "escape_variables",
    "expand",
    "fit_alias",
    "held_tasks",
    "is_literal",
    "locate",
    "parse_declaration",
]

TABLE = "projects"
"""The table of a config that declares projects."""

TASKS = "_qk"
"""quickie's name for a project's tasks module, a package or a single `.py` file."""

_LONGEST_ALIAS = 64
_VARIABLE = re.compile(r"\$(?:(\$)|(\w+)|\{([^{}]+)\})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project as declared; its path need not exist (see `locate`)."""

    alias: str
    path: Path
    """Absolute, `~` and variables expanded, links kept: the tasks module or the directory that contains it."""
    python: str | None = None
    """The interpreter as the config names it, or None to search for one."""
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Variables for the tasks' environment; None removes one."""
    grace: float | None = None
    """Seconds for clean-up between SIGINT and the next step of a stop, or None for the default."""
    reports: tuple[str, ...] = ()
    """Patterns, relative to the root, of the JUnit files that tasks write."""
    rules: Rules = field(default_factory=Rules)
    """What agents may do with its tasks."""
    origin: str = ""
    """Where it was declared, for messages."""
    remote: Remote | None = None
    """Where the project is, unless it is on this machine; its path is then meant over there."""
    main_root: Path | None = None
    """For a linked worktree, the root in the declared checkout, whose Python is used if the worktree has none."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a project's tasks are on disk."""

    tasks: Path
    """The `_qk` directory or the `.py` file."""
    root: Path
    """The directory that contains it, in which tasks run."""


def parse_declaration(
    text: str, base: Path | None, environ: Mapping[str, str], origin: str = "--project", *, typed: bool = False
) -> Project:
    """Return the project that `NAME:PATH` declares; only the first colon separates.

    A relative path starts at `base`. With `typed`, the shell has expanded the variables, so that an existing path
    with a `$` is meant as it is. Raises InvalidDeclaration, InvalidName and NoDirectory.
    """
    alias, colon, path = text.partition(":")
    if not text:
        raise InvalidDeclaration(text, "it is empty", "app:/path/to/it")
    if not colon:
        raise InvalidDeclaration(text, "it has no colon", f"{fit_alias(Path(text).name)}:{text}")
    if not path:
        raise InvalidDeclaration(text, "it has no path after the colon", f"{alias or 'app'}:/path/to/it")
    if path[0].isspace():
        raise InvalidDeclaration(text, "a blank follows its colon", f"{alias}:{path.strip() or '/path/to/it'}")
    check_alias(alias)
    if typed and is_literal(path, base, environ):
        path = escape_variables(path)
    return Project(alias=alias, path=expand(path, base, environ), origin=origin)


def check_alias(name: str) -> None:
    """Raise InvalidName unless `name` can be a project's alias."""
    if not name:
        raise InvalidName(name, "it is empty")
    if len(name) > _LONGEST_ALIAS:
        raise InvalidName(name, f"it is {len(name)} characters long")
    if name != name.strip():
        raise InvalidName(name, "it has a blank at an end")
    if name[0] == "-":
        raise InvalidName(name, "it starts with -, like an option")
    if wrong := next((c for c in name if c in ":/\\" or not c.isprintable()), None):
        raise InvalidName(name, f"it contains {wrong!r}")


def fit_alias(directory_name: str) -> str:
    """Return a valid alias that is like the name of a directory."""
    fitting = "".join("-" if c in ":/\\" or not c.isprintable() else c for c in directory_name)
    return fitting.strip().lstrip("- ")[:_LONGEST_ALIAS].rstrip() or "project"


def expand(path_text: str, base: Path | None, environ: Mapping[str, str]) -> Path:
    """Return `path_text` as an absolute path: variables and `~` expanded, links kept, relative to `base`.

    A variable that is not set is left as it is, and `$$` is a `$`. Raises NoDirectory for a relative path without
    a `base`.
    """
    text = _VARIABLE.sub(lambda match: match[1] or environ.get(match[2] or match[3], match[0]), path_text)
    if text == "~" or text.startswith("~/"):
        text = (environ.get("HOME") or os.path.expanduser("~")) + text[1:]
    path = Path(os.path.expanduser(text))  # ~user
    if not path.is_absolute():
        if base is None:
            raise NoDirectory(path_text)
        path = base / path
    return _climb(path)


def escape_variables(path: str | Path) -> str:
    """Return the text that `expand` turns into exactly this path, whatever `$` is in it."""
    return str(path).replace("$", "$$")


def is_literal(path_text: str, base: Path | None, environ: Mapping[str, str]) -> bool:
    """Return whether `path_text` has a `$` and exists as it is written."""
    return "$" in path_text and os.path.lexists(expand(escape_variables(path_text), base, environ))


def _climb(path: Path) -> Path:
    """Resolve `..` in `path` as the kernel does, which follows a link before it goes up."""
    parts = path.parts
    if ".." not in parts:
        return path
    end = len(parts) - parts[::-1].index("..")
    return Path(os.path.realpath(Path(*parts[:end])), *parts[end:])


def current_directory() -> Path | None:
    """Return the current directory, or None if it was deleted or is not readable."""
    try:
        return Path.cwd()
    except OSError:
        return None


def locate(project: Project) -> Location:
    """Return where the tasks of `project` are now; a few file system calls, made at each use.

    The root of a linked tasks module is the directory of the link. Raises PathMissing and TasksNotFound, and
    ProjectElsewhere for a remote project.
    """
    if project.remote is not None:
        raise ProjectElsewhere(project.alias, project.remote.place)
    tasks = _tasks_at(project.path)
    if tasks is None:
        raise _explain(project)
    return Location(tasks=tasks, root=tasks.parent)


def _tasks_at(path: Path) -> Path | None:
    if path.name == "__init__.py":
        path = path.parent
    package = os.path.isfile(path / "__init__.py")
    if path.name == TASKS:  # or, rarely, a project in a directory of that name
        return (None if package else held_tasks(path)) or held_tasks(path.parent)
    if os.path.isdir(path):
        return held_tasks(path) or (path if package else None)
    module = path if path.suffix == ".py" else path.with_name(path.name + ".py")
    return module if os.path.isfile(module) else None


def held_tasks(root: Path) -> Path | None:
    """Return the tasks module in the directory `root`, or None.

    As in an import, a directory without `__init__.py` comes last.
    """
    package, module = root / TASKS, root / f"{TASKS}.py"
    if os.path.isfile(package / "__init__.py"):
        return package
    if os.path.isfile(module):
        return module
    return package if os.path.isdir(package) else None


def _explain(project: Project) -> PathMissing | TasksNotFound:
    path = project.path
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        siblings = nearest(path.name, _entries(path.parent))
        unset = next(
            (m[0] for m in _VARIABLE.finditer(str(path)) if not m[1] and (m[2] or m[3]) not in os.environ), None
        )
        return PathMissing(project.alias, path, project.origin, [path.with_name(name) for name in siblings], unset)
    except (OSError, ValueError) as error:
        return PathMissing(project.alias, path, project.origin, [], None, getattr(error, "strerror", str(error)))
    if not os.path.isdir(path):
        return TasksNotFound(project.alias, path, "it is neither a directory nor a Python file", [])
    if not os.access(path, os.X_OK):
        return TasksNotFound(project.alias, path, "you may not search the directory (permission denied)", [])
    near = [directory for directory in path.parents if held_tasks(directory)][:1]
    near += [path / name for name in _entries(path) if held_tasks(path / name)]
    return TasksNotFound(project.alias, path, f"it contains neither {TASKS}/ nor {TASKS}.py", near[:3])


def _entries(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in islice(entries, 1000))
    except OSError:
        return []
