"""`qk-mcp serve`: the MCP server."""

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qk_mcp.cli import log
from qk_mcp.errors import InvalidOption
from qk_mcp.registry import build

__all__ = ["serve"]

_LEAST_OUTPUT = 1_000


def serve(
    *,
    project: Annotated[list[str] | None, Parameter(name="--project", negative="")] = None,
    config: Path | None = None,
    verbose: Annotated[int, Parameter(name=["--verbose", "-v"], count=True)] = 0,
    quiet: Annotated[int, Parameter(name=["--quiet", "-q"], count=True)] = 0,
    log_file: Path | None = None,
    max_output: int = 30_000,
    describe_timeout: float = 15.0,
    warm: bool = True,
) -> None:
    """Serve the projects' tasks to an agent, over MCP on stdin and stdout.

    Without --project and --config: the projects that `qk-mcp projects add` registered, and the one
    that the current directory belongs to.

    Parameters
    ----------
    project
        NAME:PATH of a project to serve; may be repeated, a later one of the same name wins.
    config
        TOML or JSON file with a [projects] table to serve instead of your own.
    verbose
        Log more to stderr: -v tells each run, -vv everything.
    quiet
        Log errors only.
    log_file
        Append a full log to this file.
    max_output
        Characters of stdout, and of stderr, that an answer holds; the rest is kept in a file.
    describe_timeout
        Seconds that describing a project's tasks may take.
    warm
        Keep an interpreter ready for the next run of a project that is in use.
    """
    if max_output < _LEAST_OUTPUT:
        raise InvalidOption("--max-output", f"it must be {_LEAST_OUTPUT} or more, not {max_output}")
    if not 0 < describe_timeout < 86_400:
        raise InvalidOption("--describe-timeout", f"it must be between 0 and 86400 seconds, not {describe_timeout:g}")
    log.configure(verbose, quiet, log_file)
    registry = build(project or [], config, environ=os.environ, cwd=_current_directory())
    for warning in registry.warnings:
        log.warn(warning)
    if sys.stdin is not None and sys.stdin.isatty():
        print("qk-mcp waits for an MCP client on stdin; press Ctrl+C to leave", file=sys.stderr)

    from qk_mcp import stdio

    stdio.serve(registry, max_output=max_output, describe_timeout=describe_timeout, warm=warm)


def _current_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None  # it was deleted, or may not be read
