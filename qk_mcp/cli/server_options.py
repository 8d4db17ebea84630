"""The options of `serve` in the entry that `qk-mcp install` writes."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from qk_mcp.cli.ui.messages import warn
from qk_mcp.clients.launchers import cache_of
from qk_mcp.errors import InvalidDeclaration, NoDirectory, NoProjectHere, NotShareable, QkMcpError
from qk_mcp.projects.applied_rules import apply_rules
from qk_mcp.projects.config import read_config, user_config_path
from qk_mcp.projects.project import (
    Project,
    current_directory,
    escape_variables,
    held_tasks,
    locate,
    parse_declaration,
)
from qk_mcp.projects.registry import config_path
from qk_mcp.projects.rules import Rules
from qk_mcp.projects.selection import tasks_above

__all__ = ["own_options", "remote_options", "root_here", "shared_options", "warn_of_this_python"]


def own_options(declarations: Sequence[str], config: Path | None) -> list[str]:
    """Return the options for an entry in the user's own file: absolute paths, which mean the same in any directory."""
    options: list[str] = []
    cwd = current_directory()
    projects = [parse_declaration(text, cwd, os.environ, typed=True) for text in declarations]
    for project in {project.alias: project for project in projects}.values():
        locate(project)
        options += ["--project", f"{project.alias}:{escape_variables(project.path)}"]
    file = config_path(config, os.environ, cwd)
    if file is None and not projects and _is_config_moved():
        file = user_config_path()
        warn(
            f"XDG_CONFIG_HOME moves your config, which not every client passes on: the entry names {file}, and the "
            "server has its projects alone, as they are at its start"
        )
    if file is not None:
        read_config(file, os.environ)
        options += ["--config", escape_variables(file)]
    elif not projects:
        _warn_of_no_projects()
    else:
        _warn_of_rules(projects)
    return options


def shared_options(declarations: Sequence[str], config: Path | None, root: Path) -> list[str]:
    """Return the options for an entry in a file of the project in `root`, where clients start the server.

    Without projects there are none: the server then has the project and each person's own config. Raises
    NoProjectHere if `root` has no tasks either, and NotShareable for a config or a project outside `root`.
    """
    if config is not None:
        raise NotShareable("a config", str(config), "leave --config out: the server reads each person's own config")
    if not declarations and not held_tasks(root):
        raise NoProjectHere(str(root))
    options: list[str] = []
    for text in declarations:
        project = parse_declaration(text, current_directory(), os.environ, typed=True)
        locate(project)
        if not project.path.is_relative_to(root):
            raise NotShareable("a project", str(project.path), "run this in a directory that contains the project")
        options += ["--project", f"{project.alias}:{escape_variables(project.path.relative_to(root))}"]
    return options


def remote_options(declarations: Sequence[str], config: Path | None) -> list[str]:
    """Return the options for a server on another machine, where all paths are meant. Raises InvalidDeclaration."""
    options: list[str] = []
    for text in declarations:
        alias, _, path = text.partition(":")
        if not alias or not path.startswith(("/", "~")):
            why = "on another machine it needs a name, and a path there that begins with / or ~"
            raise InvalidDeclaration(text, why, "app:~/path/to/it")
        options += ["--project", text]
    return [*options, *(["--config", str(config)] if config else [])]


def root_here() -> Path:
    """Return the root of the project of the current directory, or else that directory. Raises NoDirectory."""
    cwd = current_directory()
    if cwd is None:
        raise NoDirectory(".")
    tasks = tasks_above(cwd)
    return tasks.parent if tasks else cwd


def _is_config_moved() -> bool:
    """Return whether XDG_CONFIG_HOME moves the user's config; not every client passes that variable on."""
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    return bool(chosen) and chosen != os.path.expanduser("~/.config") and user_config_path().exists()


def _warn_of_rules(projects: Sequence[Project]) -> None:
    """Warn if your config has rules for the tasks of the projects: a server with `--project` does not read it."""
    file = user_config_path()
    try:
        own = read_config(file, os.environ).projects if file.exists() else ()
    except QkMcpError:
        return  # this entry does not use it
    for project, ruled in zip(projects, apply_rules(projects, own, Rules()), strict=True):
        if ruled != project:
            warn(
                f"the rules in {file} do not hold for {project.alias!r} in this server: leave --project out, or add "
                "--allow, --deny and --confirm to the entry"
            )


def _warn_of_no_projects() -> None:
    file = user_config_path()
    if not (file.exists() and read_config(file, os.environ).projects):
        warn(
            "there are no projects in your config: the server will have only the project of the directory in which "
            "the client starts it, if any; `qk-mcp projects add NAME:PATH` adds one"
        )


def warn_of_this_python() -> None:
    """Warn if a client may not be able to start this Python's qk-mcp later, or elsewhere."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution("qk-mcp")
    except PackageNotFoundError:
        warn(f"qk-mcp is not installed in {sys.executable}: a client will not find it from another directory")
    if cache_of(Path(sys.prefix)):
        warn(f"this Python is in a cache, {sys.prefix}, which may be deleted: install qk-mcp permanently first")
