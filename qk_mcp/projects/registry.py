"""The projects that this process serves, by alias or path."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qk_mcp.errors import NoConfig, ProjectNeeded, QkMcpError, UnknownProject
from qk_mcp.projects.applied_rules import apply_rules
from qk_mcp.projects.config import may_exist, read_config, user_config_path, with_settings
from qk_mcp.projects.project import (
    Project,
    current_directory,
    escape_variables,
    expand,
    fit_alias,
    locate,
    parse_declaration,
)
from qk_mcp.projects.rules import Rules
from qk_mcp.projects.selection import project_at, project_in_worktree, tasks_above
from qk_mcp.text import nearest

__all__ = ["CONFIG_VARIABLE", "HERE", "Registry", "build_registry", "config_path", "note_on_path"]

CONFIG_VARIABLE = "QK_MCP_CONFIG"
"""The variable that names a config to use instead of the user's own; `--config` overrides it."""

_CLIENT_DIRECTORIES = ("CLAUDE_PROJECT_DIR", "WORKSPACE_FOLDER_PATHS")
"""Set by Claude Code and by Cursor to their project, where the current directory of a server may be another one."""

HERE = "the current directory"
"""The origin of a project that was found in the current directory and not declared."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The projects of this process, fixed for its life."""

    projects: tuple[Project, ...]
    default: Project | None = None
    """The project of calls that name none: the only one, or the one of the current directory."""
    warnings: tuple[str, ...] = ()
    """What the user should know, although the projects can be used."""
    rules: Rules = field(default_factory=Rules)
    """Rules for every project, from the command line."""
    own_config: Path | None = None
    """The user's own config if that decides which projects there are; it need not exist."""

    def served(self) -> tuple[Project, ...]:
        """Return the projects, each with every rule that applies to it."""
        return apply_rules(self.projects, self.projects, self.rules)

    def find(self, name: str | None) -> Project:
        """Return the project with an alias, the one that a path belongs to, or the default without a name.

        It has every rule that applies to it. `ALIAS@WORKTREE` is the project in a linked worktree of its repository,
        as is a path there. Raises ProjectNeeded, UnknownProject, PathNotServed and WorktreeMissing, which list the
        choices.
        """
        [project] = apply_rules([self._find(name)], self.projects, self.rules)
        return project

    def _find(self, name: str | None) -> Project:
        known = [project.alias for project in self.projects]
        if not name:
            if self.default is None:
                raise ProjectNeeded(known)
            return self.default
        if name in known:
            return self.projects[known.index(name)]
        if not _is_path(name):
            if project := project_in_worktree(self._local, name):
                return project
            raise UnknownProject(name, known, nearest(name, known))
        path = _path_of(name)
        if path and (project := project_at(self._local, path)):
            return project
        raise UnknownProject(name, known, [], path=True)

    @property
    def _local(self) -> Sequence[Project]:
        return [project for project in self.projects if project.remote is None]

    def has(self, name: str) -> bool:
        """Return whether `name` is an alias, or an alias with a worktree (`ALIAS@WORKTREE`)."""
        known = [project.alias for project in self.projects]
        return name in known or any(name.startswith(f"{alias}@") for alias in known)


def note_on_path(name: str | None, project: Project) -> str:
    """Return a note that names the root of `project`, which was found by the path `name`, unless that is the root.

    Without it, a path in what is left of a removed worktree would run the surrounding checkout silently. Empty for
    an alias. Raises what `locate` raises.
    """
    if not name or not _is_path(name) or (path := _path_of(name)) is None:
        return ""
    location = locate(project)
    asked, root, tasks = map(os.path.realpath, (path, location.root, location.tasks))
    return "" if asked in (root, tasks) else f"ran in {location.root}, the root of the project that contains {name}"


def _is_path(name: str) -> bool:
    return "/" in name or name in (".", "..", "~")


def _path_of(name: str) -> Path | None:
    """Return the absolute path that a name means, or None if it cannot be a path."""
    if name.startswith("file://"):
        from urllib.parse import unquote, urlsplit

        name = unquote(urlsplit(name).path)
    return None if "\0" in name else expand(escape_variables(name), current_directory(), os.environ)


def config_path(option: Path | None, environ: Mapping[str, str], cwd: Path | None) -> Path | None:
    """Return the config that `--config` or QK_MCP_CONFIG names, or None for the user's own."""
    text = str(option) if option is not None else environ.get(CONFIG_VARIABLE)
    return expand(text, cwd, environ) if text else None


def build_registry(
    declarations: Sequence[str],
    config: Path | None,
    *,
    environ: Mapping[str, str],
    cwd: Path | None,
    rules: Rules | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Registry:
    """Return the projects that `--project` and `--config` name, or else the user's own and the one at `cwd`.

    `rules` are for all of them, besides their own; `settings` are keys of a config for those that `declarations` name.
    A later declaration of a name wins. A project whose path is missing stays; using it reports that. Raises
    UsageError for a malformed declaration, and what reading a config raises.
    """
    file = config_path(config, environ, cwd)
    if file is None and not declarations:
        return _implicit(environ, cwd, rules or Rules())
    found = read_config(file, environ) if file else None
    projects = {project.alias: project for project in found.projects} if found else {}
    for text in declarations:
        project = parse_declaration(text, cwd, environ)
        if settings:
            project = with_settings(project, settings, environ)
        projects[project.alias] = project
    default = next(iter(projects.values())) if len(projects) == 1 else None
    empty = () if projects else (f"the config {file} has no projects",)
    warnings = (*(found.warnings if found else ()), *empty)
    return Registry(tuple(projects.values()), default, warnings, rules or Rules())


def _implicit(environ: Mapping[str, str], cwd: Path | None, rules: Rules) -> Registry:
    path = _own_path()
    own = read_config(path, environ) if path and may_exist(path) else None
    projects = {project.alias: project for project in own.projects} if own else {}
    warnings = list(own.warnings) if own else []
    local = [project for project in projects.values() if project.remote is None]
    here = _here(local, cwd) if cwd else None
    for directory in filter(os.path.isabs, (environ.get(name, "") for name in _CLIENT_DIRECTORIES)):
        here = here or _here(local, Path(directory))
    if here and here not in projects.values():
        if hidden := projects.get(here.alias):
            warnings.append(
                f"the project {here.alias!r} is the one at {here.path}; the config's {hidden.path} is not served"
            )
            here = replace(here, rules=hidden.rules)  # whoever forbids something in `shop` means a copy of it, too
        projects[here.alias] = here
    if not projects:
        warnings.append("there are no projects: `qk-mcp projects add NAME:PATH` adds one")
    known = tuple(projects.values())
    return Registry(known, known[0] if len(known) == 1 else here, tuple(warnings), rules, path)


def _here(projects: Sequence[Project], cwd: Path) -> Project | None:
    """Return the project that the current directory belongs to: one of `projects`, a worktree of one, or a new one."""
    tasks = tasks_above(cwd)
    try:
        known = project_at(projects, tasks or cwd)
    except QkMcpError:
        known = None
    if known is not None or tasks is None:
        return known
    return Project(alias=fit_alias(tasks.parent.name), path=tasks.parent, origin=HERE)


def _own_path() -> Path | None:
    try:
        return user_config_path()
    except NoConfig:
        return None
