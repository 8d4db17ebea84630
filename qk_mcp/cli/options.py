"""The options that the commands for projects share."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qk_mcp.cli.ui.messages import warn
from qk_mcp.errors import InvalidOption
from qk_mcp.projects.project import current_directory
from qk_mcp.projects.registry import Registry, build_registry

__all__ = ["ConfigOption", "DescribeTimeoutOption", "ProjectOption", "ToolOption", "check_seconds", "registry_of"]

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

_LONGEST = 86_400


def registry_of(declarations: Sequence[str] | None, config: Path | None) -> Registry:
    """Return the projects that `serve` would serve with these options; print warnings to stderr."""
    registry = build_registry(declarations or [], config, environ=os.environ, cwd=current_directory())
    for warning in registry.warnings:
        warn(warning)
    return registry


def check_seconds(option: str, seconds: float) -> None:
    """Raise InvalidOption unless `seconds` is positive and less than a day."""
    if not 0 < seconds < _LONGEST:
        raise InvalidOption(option, f"it must be more than 0 and less than {_LONGEST} seconds, not {seconds:g}")
