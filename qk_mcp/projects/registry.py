"""Which projects this process serves, and finding one by alias or path."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qk_mcp.errors import NoConfig, ProjectNeeded, QkMcpError, UnknownProject
from qk_mcp.projects.config import Config, present, user_config_path
from qk_mcp.projects.config import read as read_config
from qk_mcp.projects.project import (
    Project,
    current_directory,
    expand,
    find_upward,
    fit_alias,
    locate,
    parse_declaration,
)
from qk_mcp.text import nearest

__all__ = ["CONFIG_VARIABLE", "HERE", "Registry", "build", "config_path"]

CONFIG_VARIABLE = "QK_MCP_CONFIG"
"""Names the config to use instead of the user's own; `--config` wins over it."""

HERE = "the current directory"
"""The origin of a project that was not declared but lies where the program was started."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The projects of this process, fixed for its life."""

    projects: tuple[Project, ...]
    default: Project | None = None
    """The one that is meant when none is named: the only one, or the one that holds the current directory."""
    warnings: tuple[str, ...] = ()
    """What the user should know, and what did no harm."""

    def find(self, name: str | None) -> Project:
        """Return the project with an alias, or the one with the deepest root that holds a path, or the default.

        Raises ProjectNeeded and UnknownProject, which tell the names.
        """
        known = [project.alias for project in self.projects]
        if not name:
            if self.default is None:
                raise ProjectNeeded(known)
            return self.default
        if name in known:
            return self.projects[known.index(name)]
        if "/" not in name and name not in (".", "..", "~"):
            raise UnknownProject(name, known, nearest(name, known))
        if "\0" not in name and (project := _holder(self.projects, name)):
            return project
        raise UnknownProject(name, known, [], path=True)


def config_path(option: Path | None, environ: Mapping[str, str], cwd: Path | None) -> Path | None:
    """Return the config that `--config` or QK_MCP_CONFIG names, or None when it is the user's own."""
    text = str(option) if option is not None else environ.get(CONFIG_VARIABLE)
    return expand(text, cwd, environ) if text else None


def build(
    declarations: Sequence[str], config: Path | None, *, environ: Mapping[str, str], cwd: Path | None
) -> Registry:
    """Return the projects that `--project` and `--config` name, or else the user's own and the one at `cwd`.

    A later declaration of a name wins. A project whose path is gone stays: using it says so. Raises
    UsageError for a malformed declaration, and what reading a config raises.
    """
    file = config_path(config, environ, cwd)
    if file is None and not declarations:
        return _implicit(environ, cwd)
    read = read_config(file, environ) if file else None
    projects = {project.alias: project for project in read.projects} if read else {}
    for text in declarations:
        project = parse_declaration(text, cwd, environ)
        projects[project.alias] = project
    default = next(iter(projects.values())) if len(projects) == 1 else None
    empty = () if projects else (f"the config {file} has no projects",)
    return Registry(tuple(projects.values()), default, (*(read.warnings if read else ()), *empty))


def _implicit(environ: Mapping[str, str], cwd: Path | None) -> Registry:
    read = _own_config(environ)
    projects = {project.alias: project for project in read.projects} if read else {}
    warnings = list(read.warnings) if read else []
    tasks = find_upward(cwd) if cwd else None
    if tasks and os.path.realpath(tasks.parent) not in map(_real_root, projects.values()):
        here = Project(alias=fit_alias(tasks.parent.name), path=tasks.parent, origin=HERE)
        if hidden := projects.get(here.alias):
            warnings.append(
                f"the project {here.alias!r} is the one at {here.path}; the config's {hidden.path} is not served"
            )
        projects[here.alias] = here
    if not projects:
        warnings.append("there are no projects: `qk-mcp projects add NAME:PATH` adds one")
    known = tuple(projects.values())
    default = known[0] if len(known) == 1 else _holder(known, str(cwd)) if cwd else None
    return Registry(known, default, tuple(warnings))


def _own_config(environ: Mapping[str, str]) -> Config | None:
    try:
        path = user_config_path()
    except NoConfig:
        return None
    return read_config(path, environ) if present(path) else None


def _holder(projects: Sequence[Project], path: str) -> Project | None:
    """Return the project with the deepest root that holds `path`, as written or with its links followed."""
    written = expand(path, current_directory(), os.environ)
    real = Path(os.path.realpath(written))
    deepest, depth = None, 0
    for project in projects:
        real_root = Path(_real_root(project))
        holds = real.is_relative_to(real_root) or written.is_relative_to(_root(project))
        if holds and len(real_root.parts) > depth:
            deepest, depth = project, len(real_root.parts)
    return deepest


def _root(project: Project) -> Path:
    try:
        return locate(project).root
    except QkMcpError:
        return project.path  # to be told, when it is used, what is wrong with it


def _real_root(project: Project) -> str:
    return os.path.realpath(_root(project))
