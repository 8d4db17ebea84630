"""`qk-mcp serve`: the MCP server."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qk_mcp.cli.options import ConfigOption, DescribeTimeoutOption, ProjectOption, check_seconds, registry_of
from qk_mcp.cli.ui.log import configure_log
from qk_mcp.errors import InvalidOption

__all__ = ["serve_command"]

_LEAST_OUTPUT = 4_000


def serve_command(
    *,
    project: ProjectOption = None,
    config: ConfigOption = None,
    verbose: Annotated[int, Parameter(name=["--verbose", "-v"], count=True)] = 0,
    quiet: Annotated[int, Parameter(name=["--quiet", "-q"], count=True)] = 0,
    log_file: Path | None = None,
    max_output: int = 40_000,
    describe_timeout: DescribeTimeoutOption = 15.0,
    warm: bool = True,
) -> None:
    """Serve the tasks of projects to an agent, over MCP on stdio.

    Without --project and --config, it serves the projects of your config (`qk-mcp projects add`) and the project of
    the current directory.

    Parameters
    ----------
    verbose
        Log each run to stderr; -vv: everything.
    quiet
        Log errors only.
    log_file
        Append a full log to this file.
    max_output
        Bytes of an answer of run_task.
    warm
        Keep an interpreter ready for the next run.
    """
    if max_output < _LEAST_OUTPUT:
        raise InvalidOption("--max-output", f"it must be {_LEAST_OUTPUT} or more, not {max_output}")
    check_seconds("--describe-timeout", describe_timeout)
    configure_log(verbose, quiet, log_file)
    registry = registry_of(project, config)
    if sys.stdin is not None and sys.stdin.isatty():
        print("qk-mcp waits for an MCP client on stdin; press Ctrl+C to exit", file=sys.stderr)

    from qk_mcp.server.process import ServeOptions
    from qk_mcp.server.stdio import serve_stdio

    serve_stdio(registry, ServeOptions(max_output=max_output, describe_timeout=describe_timeout, warm=warm))
