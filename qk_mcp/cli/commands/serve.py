"""`qk-mcp serve`: the MCP server."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from qk_mcp.cli.options import (
    AllowOption,
    ConfigOption,
    ConfirmOption,
    DenyOption,
    DescribeTimeoutOption,
    ProjectOption,
    ToolOption,
    check_globs,
    check_seconds,
    served_projects,
)
from qk_mcp.cli.ui.log import configure_log
from qk_mcp.errors import InvalidOption

if TYPE_CHECKING:
    from qk_mcp.server.http import HttpOptions

__all__ = ["serve_command"]

_HTTP = Group("Over HTTP")

_LEAST_OUTPUT = 4_000


def serve_command(
    *,
    project: ProjectOption = None,
    config: ConfigOption = None,
    allow: AllowOption = None,
    deny: DenyOption = None,
    confirm: ConfirmOption = None,
    tool: ToolOption = None,
    verbose: Annotated[int, Parameter(name=["--verbose", "-v"], count=True)] = 0,
    quiet: Annotated[int, Parameter(name=["--quiet", "-q"], count=True)] = 0,
    log_file: Path | None = None,
    max_output: int = 40_000,
    describe_timeout: DescribeTimeoutOption = 15.0,
    warm: bool = True,
    settings: Annotated[str | None, Parameter(show=False)] = None,
    background: bool = True,
    hand_over: Annotated[str | None, Parameter(metavar="SECONDS|never")] = None,
    http: Annotated[str | None, Parameter(group=_HTTP, metavar="[HOST:]PORT|unix:PATH")] = None,
    token_file: Annotated[Path | None, Parameter(group=_HTTP)] = None,
    show_token: Annotated[bool, Parameter(group=_HTTP, negative="")] = False,
    allow_host: Annotated[list[str] | None, Parameter(group=_HTTP, negative="", metavar="NAME")] = None,
    auth_issuer: Annotated[str | None, Parameter(group=_HTTP, metavar="URL")] = None,
    auth_audience: Annotated[str | None, Parameter(group=_HTTP, metavar="NAME")] = None,
) -> None:
    """Serve the tasks of projects to an agent, over MCP on stdio or HTTP.

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
    settings
        Keys of a config for the projects given by --project, as JSON: how a server gives its settings to one elsewhere.
    background
        Let tasks run on after a call is answered; offers the tools get_run and stop_run.
    hand_over
        Answer a call of run_task after this time, while its task goes on. By default, this is done shortly before
        clients that are known to give up would do so.
    http
        Serve HTTP here instead of stdio, to clients with a bearer token. Without HOST, on the loopback.
    token_file
        The file with the token, created with a random one (default: `token` in the state directory).
    show_token
        Print the token at the start.
    allow_host
        A name by which clients reach this server, other than localhost; may be repeated.
    auth_issuer
        Accept the JSON Web Tokens of this identity provider instead of a token file.
    auth_audience
        The audience that they must name.
    """
    if max_output < _LEAST_OUTPUT:
        raise InvalidOption("--max-output", f"it must be {_LEAST_OUTPUT} or more, not {max_output}")
    check_globs("--tool", tool)
    check_seconds("--describe-timeout", describe_timeout)
    configure_log(verbose, quiet, log_file)
    web = _http_options(http, token_file, show_token, allow_host or [], auth_issuer, auth_audience)
    served = served_projects(project, config, allow=allow, deny=deny, confirm=confirm, settings=settings)
    from qk_mcp.server.process import ServeOptions

    options = ServeOptions(
        max_output=max_output,
        describe_timeout=describe_timeout,
        warm=warm,
        background=background,
        hand_over=_hand_over_seconds(hand_over),
        tools=tool or (),
    )
    if web is not None:
        from qk_mcp.server.http import serve_http

        serve_http(served, options, web)
    if sys.stdin is not None and sys.stdin.isatty():
        print("qk-mcp waits for an MCP client on stdin; press Ctrl+C to exit", file=sys.stderr)

    from qk_mcp.server.stdio import serve_stdio

    serve_stdio(served, options)


def _hand_over_seconds(value: str | None) -> float | None:
    """Return the seconds, infinity for never. Raises InvalidOption."""
    if value is None:
        return None
    if value == "never":
        return math.inf
    try:
        seconds = float(value)
    except ValueError:
        raise InvalidOption("--hand-over", f"it must be a number of seconds or never, not {value!r}") from None
    check_seconds("--hand-over", seconds)
    return seconds


def _http_options(
    http: str | None,
    token_file: Path | None,
    show_token: bool,
    allow_host: Sequence[str],
    issuer: str | None,
    audience: str | None,
) -> "HttpOptions | None":
    """Return the options of HTTP, or None for stdio. Raises InvalidOption."""
    given = {
        "--token-file": token_file,
        "--show-token": show_token,
        "--allow-host": allow_host,
        "--auth-issuer": issuer,
        "--auth-audience": audience,
    }
    if http is None:
        if alone := next((option for option, value in given.items() if value), None):
            raise InvalidOption(alone, "it is for --http, which is missing")
        return None
    if bool(issuer) != bool(audience):
        raise InvalidOption("--auth-issuer", "it needs --auth-audience, and the other way round")
    if issuer and (token_file or show_token):
        raise InvalidOption("--auth-issuer", "tokens come from it, so --token-file and --show-token have no use")
    from qk_mcp.runs.output_files import outputs_directory
    from qk_mcp.server.http import HttpOptions, parse_address

    return HttpOptions(
        address=parse_address(http, allow_host),
        allowed_hosts=allow_host,
        token_file=(token_file or outputs_directory().with_name("token")).expanduser().absolute(),
        show_token=show_token,
        issuer=issuer,
        audience=audience,
    )
