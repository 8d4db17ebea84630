"""The arguments and options that several commands have."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from qk_mcp.cli.ui.messages import warn
from qk_mcp.errors import InvalidOption
from qk_mcp.projects.project import current_directory
from qk_mcp.projects.registry import Registry, build_registry
from qk_mcp.projects.rules import Rules, glob_fault
from qk_mcp.projects.served import ServedProjects

__all__ = [
    "AllowOption",
    "ClientName",
    "ConfigOption",
    "ConfirmOption",
    "DenyOption",
    "DescribeTimeoutOption",
    "ProjectOption",
    "Scope",
    "ScopeOption",
    "ServerName",
    "ToolOption",
    "check_globs",
    "check_seconds",
    "registry_of",
    "served_projects",
]

ClientName = Annotated[str | None, Parameter(name="CLIENT")]
ServerName = Annotated[str, Parameter(name="--name", metavar="NAME")]
Scope = Literal["user", "project"]
ScopeOption = Annotated[Scope, Parameter(name="--scope")]
ProjectOption = Annotated[
    list[str] | None,
    Parameter(
        name="--project",
        negative="",
        metavar="NAME:PATH",
        help="Use this project; may be repeated.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    Parameter(name="--config", metavar="FILE", help="Use this config (TOML or JSON) instead of your own."),
]
ToolOption = Annotated[
    list[str] | None,
    Parameter(
        name="--tool",
        negative="",
        metavar="GLOB",
        help="Make each task with such a name a tool of its own; may be repeated.",
    ),
]
DescribeTimeoutOption = Annotated[
    float,
    Parameter(name="--describe-timeout", metavar="SECONDS", help="Seconds that describing a project may take."),
]

_GLOBS = {"negative": "", "metavar": "GLOB"}
AllowOption = Annotated[
    list[str] | None,
    Parameter(name="--allow", help="List and run only such tasks, in every project; may be repeated.", **_GLOBS),
]
DenyOption = Annotated[
    list[str] | None,
    Parameter(name="--deny", help="Neither list nor run such tasks, in any project; may be repeated.", **_GLOBS),
]
ConfirmOption = Annotated[
    list[str] | None,
    Parameter(name="--confirm", help="Run such tasks only if a person agrees each time; may be repeated.", **_GLOBS),
]

_LONGEST = 86_400


def registry_of(declarations: Sequence[str] | None, config: Path | None) -> Registry:
    """Return the projects that `serve` would serve with these options; print warnings to stderr."""
    registry = build_registry(declarations or [], config, environ=os.environ, cwd=current_directory())
    for warning in registry.warnings:
        warn(warning)
    return registry


def served_projects(
    declarations: Sequence[str] | None,
    config: Path | None,
    *,
    allow: Sequence[str] | None,
    deny: Sequence[str] | None,
    confirm: Sequence[str] | None,
    settings: str | None = None,
) -> ServedProjects:
    """Return the projects of a server; print warnings to stderr. The globs tighten the rules of every project.

    `settings` is JSON with keys of a config for the projects in `declarations`.
    """
    for option, globs in (("--allow", allow), ("--deny", deny), ("--confirm", confirm)):
        check_globs(option, globs)
    rules = Rules(
        allow=None if allow is None else tuple(allow),
        deny=tuple(deny or ()),
        confirm=tuple(confirm or ()),
        origin="the server's command line",
    )
    build = partial(
        build_registry,
        declarations or [],
        config,
        environ=dict(os.environ),
        cwd=current_directory(),
        settings=_parse_settings(settings),
        rules=rules if allow is not None or deny or confirm else None,
    )
    registry = build()
    for warning in registry.warnings:
        warn(warning)
    return ServedProjects(registry, build)


def _parse_settings(text: str | None) -> dict[str, Any]:
    import json

    try:
        settings = json.loads(text or "{}")
    except ValueError as error:
        raise InvalidOption("--settings", f"it is not JSON: {error}") from None
    if not isinstance(settings, dict):
        raise InvalidOption("--settings", "it must be a JSON object")
    return settings


def check_globs(option: str, globs: Sequence[str] | None) -> None:
    """Raise InvalidOption if one of `globs` cannot be a glob."""
    for glob in globs or ():
        if fault := glob_fault(glob):
            raise InvalidOption(option, fault)


def check_seconds(option: str, seconds: float) -> None:
    """Raise InvalidOption unless `seconds` is positive and less than a day."""
    if not 0 < seconds < _LONGEST:
        raise InvalidOption(option, f"it must be more than 0 and less than {_LONGEST} seconds, not {seconds:g}")
