"""Serves MCP over streamable HTTP: where it listens, who may speak, and the application that answers.

FastMCP speaks the protocol. Its guard on Host and Origin is on, because a web page that a browser of this machine shows
could otherwise send requests to the loopback. TLS is the work of a reverse proxy.
"""

import os
import socket
import stat
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from qk_mcp.errors import CannotListen, InvalidOption
from qk_mcp.projects.served import ServedProjects
from qk_mcp.server.process import ServeOptions, at_exit, begin_process, build_server, run_server
from qk_mcp.server.tokens import read_token

if TYPE_CHECKING:
    from fastmcp.server.auth import TokenVerifier

__all__ = ["Address", "HttpOptions", "listen_at", "parse_address", "serve_http"]

_UNIX = "unix:"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BACKLOG = 64
"""Connections that wait to be accepted. As many are accepted in one turn of the event loop, before any is refused."""
_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address, or the path of a socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    @property
    def url(self) -> str:
        """The address as a client writes it."""
        if self.path is not None:
            return f"{_UNIX}{self.path} (path {_PATH})"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{_PATH}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """The options of `serve` that only HTTP has."""

    address: Address
    allowed_hosts: Sequence[str] = ()
    """Names in the Host header besides those of the loopback."""
    token_file: Path
    """The file with the bearer token; created if it does not exist."""
    show_token: bool = False
    issuer: str | None = None
    """The identity provider whose JSON Web Tokens are accepted instead of the file's token."""
    audience: str | None = None


def parse_address(text: str, allowed_hosts: Sequence[str]) -> Address:
    """Return the address that `[HOST:]PORT` or `unix:PATH` names. Raises InvalidOption.

    Without `allowed_hosts`, the host must be one of the loopback: whoever serves others says by which name.
    """
    if text.startswith(_UNIX):
        path = Path(text.removeprefix(_UNIX)).expanduser()
        if not path.name:
            raise InvalidOption("--http", "it has no path after unix:")
        return Address(path=path.absolute())
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if colon and not host:
        raise InvalidOption("--http", f"it has no host before the colon; use {port} alone for the loopback")
    if not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise InvalidOption("--http", f"it must be [HOST:]PORT or unix:PATH, not {text!r}")
    if host and host not in _LOOPBACK and not allowed_hosts:
        why = f"{host} is not the loopback: name the host by which clients reach it with --allow-host"
        raise InvalidOption("--http", why)
    return Address(host=host or _LOOPBACK[0], port=int(port))


def listen_at(address: Address) -> socket.socket:
    """Return a listening socket. Raises CannotListen. A socket that no server listens at any more is replaced."""
    if address.path is not None:
        return _listen_at_path(address.path)
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise CannotListen(f"{address.host}:{address.port}", error.strerror or str(error)) from None
    return listener


def serve_http(served: ServedProjects, options: ServeOptions, http: HttpOptions) -> NoReturn:
    """Serve MCP over HTTP until a signal arrives, then end every run and exit the process.

    Raises `QkMcpError` if it cannot listen, or cannot read or create the token.
    """
    token = "" if http.issuer else read_token(http.token_file)
    listener = listen_at(http.address)
    begin_process(served)
    if http.address.path is not None:
        at_exit(lambda: _remove_socket(http.address.path))
    server = build_server(served, replace(options, principal=_principal))
    import uvicorn

    from qk_mcp.server.http_limits import BodyDeadline, bounded_protocol

    app = server.app()
    app.auth = _verifier(http, token)
    web = app.http_app(path=_PATH, host_origin_protection=True, allowed_hosts=[*http.allowed_hosts])
    config = uvicorn.Config(
        BodyDeadline(web),
        http=bounded_protocol(),
        ws="none",
        backlog=_BACKLOG,
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    web_server = uvicorn.Server(config)
    web_server.capture_signals = nullcontext  # type: ignore[assignment,method-assign]  # signals end every run first
    _announce(http, listener, token)

    async def converse() -> None:
        await web_server.serve(sockets=[listener])

    run_server(server, served, converse, "the listener has closed")


def _verifier(http: HttpOptions, token: str) -> "TokenVerifier":
    from qk_mcp.server.principals import StaticToken, jwt_verifier

    return jwt_verifier(http.issuer, http.audience or "") if http.issuer else StaticToken(token)


def _principal() -> str:
    from qk_mcp.server.principals import current_principal

    return current_principal()


def _announce(http: HttpOptions, listener: socket.socket, token: str) -> None:
    """Print where the server listens; with port 0, the system has chosen the port."""
    address = http.address
    if address.path is None:
        address = Address(address.host, listener.getsockname()[1])
    credentials = f"tokens of {http.issuer}" if http.issuer else f"the token in {http.token_file}"
    print(f"qk-mcp serves MCP at {address.url} to clients with {credentials}", file=sys.stderr)
    if http.show_token and token:
        print(f"token: {token}", file=sys.stderr, flush=True)


def _listen_at_path(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        if _is_abandoned(path):
            path.unlink()
        listener.bind(str(path))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(f"{_UNIX}{path}", error.strerror or str(error)) from None
    finally:
        os.umask(mask)
    return listener


def _is_abandoned(path: Path) -> bool:
    """Return whether `path` is a socket at which nobody listens, as SIGKILL leaves it."""
    if not path.exists() or not stat.S_ISSOCK(path.lstat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False


def _remove_socket(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)
