"""The server over HTTP: who is let in, what is bounded, and that clients of both eras work as over stdio."""

import asyncio
import json
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp.client import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from joserfc.jwk import RSAKey
from mcp.client.client import Client as PlainClient
from mcp.client.streamable_http import streamable_http_client

from tests.support.cli import CommandLine
from tests.support.http import HttpServer, serving_http
from tests.support.processes import descriptors, gone, marked, read_pid, until
from tests.support.projects import make_project

SOURCE = """
    import os, sys, time
    from pathlib import Path
    from quickie import Arg, task

    @task(args=[Arg("--name", default="world")])
    def hello(name="world"):
        print("hello", name)
        print("greeted", file=sys.stderr)

    @task
    def hang():
        Path("hang.pid").write_text(f"{os.getpid()}\\n")
        print("hanging", flush=True)
        time.sleep(600)
"""
HELLO = {"exit_code": 0, "stdout": "hello world\n", "stderr": "greeted\n"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    directory = tmp_path_factory.mktemp("http")
    with serving_http(directory, make_project(directory / "project", SOURCE), "--show-token") as server:
        yield server


@pytest.fixture
def server(shared: HttpServer) -> HttpServer:
    """A server that several tests use; it must not be stopped."""
    assert shared.process.poll() is None, shared.errors.read_text()
    return shared


def client_of(server: HttpServer, token: str = "", **options: Any) -> Client[Any]:
    headers = {"Authorization": f"Bearer {token or server.token}"}
    return Client(StreamableHttpTransport(server.url, headers=headers), **options)


def wait_for(talk: Any) -> None:
    asyncio.run(asyncio.wait_for(talk, 120))


@pytest.mark.long
def test_fastmcps_client_lists_runs_and_receives_live_output(server: HttpServer) -> None:
    logged: list[Any] = []

    async def log(message: Any) -> None:
        logged.append(message.data)

    async def talk() -> None:
        async with client_of(server, log_handler=log) as client:
            listing = await client.call_tool("list_tasks")
            assert [task["name"] for task in listing.structured_content["result"][0]["tasks"]] == ["hang", "hello"]
            answer = await client.call_tool("run_task", {"task_name": "hello"})
            assert answer.structured_content == HELLO

    wait_for(talk())
    assert sorted(logged) == ["greeted", "hello world"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdks_client_runs_in_both_eras(server: HttpServer, mode: str) -> None:
    async def talk() -> None:
        async with httpx2.AsyncClient(headers=server.credentials, timeout=60) as web:
            transport = streamable_http_client(server.url, http_client=web)
            async with PlainClient(transport, mode=mode) as client:
                answer = await client.call_tool("run_task", {"task_name": "hello"})
                assert answer.structured_content == HELLO

    wait_for(talk())


def test_only_the_token_lets_in(server: HttpServer) -> None:
    right = server.credentials
    assert server.status_of({}) == 401
    assert server.status_of({"Authorization": f"Bearer {server.token}x"}) == 401
    assert server.status_of({"Authorization": f"Bearer {server.token[:-1]}"}) == 401
    assert server.status_of({"Authorization": "Bearer \N{LATIN SMALL LETTER E WITH ACUTE}"}) == 401
    assert server.status_of({"Authorization": f"Basic {server.token}"}) == 401
    assert server.status_of({}, method="GET") == 401
    assert server.status_of({}, method="DELETE") == 401
    assert server.status_of(right | {"Host": "attacker.example"}) == 421
    assert server.status_of(right | {"Origin": "https://attacker.example"}) == 403
    assert server.status_of(right | {"Mcp-Session-Id": "unknown"}) == 404


def test_a_body_over_four_mebibytes_is_refused(server: HttpServer) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * (5 << 20)}}
    assert server.status_of(server.credentials, body) == 413
    assert server.status_of({}, body) == 401


@pytest.mark.long
def test_sigterm_ends_every_run_and_the_server(home: Path, project: Callable[..., Path]) -> None:
    root = project(SOURCE)

    async def talk(server: HttpServer) -> None:
        async with client_of(server) as client:
            call = asyncio.create_task(client.call_tool("run_task", {"task_name": "hang"}, raise_on_error=False))
            pid = await asyncio.to_thread(read_pid, root / "hang.pid")
            server.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(gone, pid)
            assert await asyncio.to_thread(server.process.wait, 60) == 128 + signal.SIGTERM
            call.cancel()

    with serving_http(home, root) as server:
        try:
            wait_for(talk(server))
        except (httpx2.HTTPError, RuntimeError):  # the client says good-bye to a server that has gone
            assert server.process.poll() is not None
        assert not marked(server.mark)


def test_a_socket_in_the_file_system_is_private_and_goes_with_the_server(
    home: Path, tmp_path: Path, project: Callable[..., Path]
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as abandoned:  # as SIGKILL leaves it
        abandoned.bind(str(path))
    with serving_http(home, project(SOURCE), address=f"unix:{path}") as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

        async def talk() -> None:
            def web(**options: Any) -> httpx2.AsyncClient:
                return httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=str(path)), **options)

            transport = StreamableHttpTransport(
                "http://localhost/mcp",
                headers=server.credentials,
                httpx_client_factory=web,  # type: ignore[arg-type]  # it passes them by name
            )
            async with Client(transport) as client:
                assert (await client.call_tool("run_task", {"task_name": "hello"})).structured_content == HELLO

        wait_for(talk())
        second = CommandLine(home)("serve", "--http", f"unix:{path}", "--project", f"demo:{project(SOURCE)}")
        assert second.code == 1
        assert "cannot listen at unix:" in second.stderr
        assert server.stop() == 128 + signal.SIGTERM
        assert not path.exists()


# The tokens of an identity provider


class Issuer:
    """An identity provider: its description, its keys, and tokens for subjects."""

    def __init__(self) -> None:
        self.keys = RSAKeyPair.generate()
        key = RSAKey.import_key(self.keys.public_key)
        documents: dict[str, Any] = {
            "/keys": {"keys": [{**key.as_dict(private=False), "kid": "1", "alg": "RS256", "use": "sig"}]}
        }

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                document = documents.get(self.path)
                self.send_response(200 if document else 404)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        documents["/.well-known/openid-configuration"] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def token(self, subject: str, **claims: Any) -> str:
        return self.keys.create_token(subject=subject, kid="1", **({"issuer": self.url, "audience": "qk-mcp"} | claims))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.close()


@pytest.mark.long
def test_tokens_of_an_identity_provider_let_in(home: Path, project: Callable[..., Path], issuer: Issuer) -> None:
    options = ("--auth-issuer", issuer.url, "--auth-audience", "qk-mcp")
    with serving_http(home, project(SOURCE), *options) as server:
        stranger = Issuer()
        stranger.close()
        for wrong in (
            "x",
            issuer.token("ann", audience="another"),
            issuer.token("ann", expires_in_seconds=-60),
            stranger.token("ann", issuer=issuer.url),
        ):
            assert server.status_of({"Authorization": f"Bearer {wrong}"}) == 401

        async def talk() -> None:
            async with client_of(server, issuer.token("ann")) as client:
                assert (await client.call_tool("run_task", {"task_name": "hello"})).structured_content == HELLO

        wait_for(talk())
        assert server.token == ""  # no token file was made


@pytest.mark.long
def test_a_principal_cannot_see_or_stop_the_runs_of_another(
    home: Path, project: Callable[..., Path], issuer: Issuer
) -> None:
    options = ("--auth-issuer", issuer.url, "--auth-audience", "qk-mcp")
    with serving_http(home, project(SOURCE), *options) as server:

        async def talk() -> None:
            async with client_of(server, issuer.token("ann")) as ann, client_of(server, issuer.token("bob")) as bob:
                start = {"task_name": "hang", "background": True}
                run = (await ann.call_tool("run_task", start)).structured_content
                assert run["state"] == "running"
                one = {"run_id": run["run_id"]}
                for tool in ("get_run", "stop_run"):
                    assert (await bob.call_tool(tool, one, raise_on_error=False)).is_error
                assert (await bob.call_tool("get_run")).structured_content["runs"] == []
                assert (await ann.call_tool("get_run", one)).structured_content["state"] == "running"
                assert (await ann.call_tool("stop_run", one)).structured_content["state"] == "stopped"
                assert (await bob.call_tool("get_run", one, raise_on_error=False)).is_error

        wait_for(talk())


# Mistakes on the command line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--http", "0.0.0.0:1"], "0.0.0.0 is not the loopback: name the host by which clients reach it"),
        (["--http", "x"], "it must be [HOST:]PORT or unix:PATH, not 'x'"),
        (["--http", "70000"], "it must be [HOST:]PORT or unix:PATH"),
        (["--http", ":80"], "use 80 alone for the loopback"),
        (["--http", "unix:"], "it has no path after unix:"),
        (["--token-file", "t"], "it is for --http, which is missing"),
        (["--http", "0", "--auth-issuer", "http://x"], "it needs --auth-audience"),
        (["--http", "0", "--auth-issuer", "http://x", "--auth-audience", "y", "--show-token"], "have no use"),
    ],
)
def test_a_wrong_option_is_explained(home: Path, options: list[str], message: str) -> None:
    outcome = CommandLine(home)("serve", *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.stderr.split())


def test_an_address_in_use_a_public_token_and_a_silent_issuer_are_explained(home: Path, tmp_path: Path) -> None:
    command = CommandLine(home)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        outcome = command("serve", "--http", str(taken.getsockname()[1]))
        assert outcome.code == 1
        assert "cannot listen at 127.0.0.1:" in outcome.stderr
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    outcome = command("serve", "--http", "0", "--auth-issuer", nobody, "--auth-audience", "x")
    assert outcome.code == 1
    assert f"cannot use the identity provider {nobody}" in outcome.stderr
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough\n")
    token.chmod(0o644)
    outcome = command("serve", "--http", "0", "--token-file", token)
    assert outcome.code == 1
    assert "Other users may read it." in outcome.stderr
    token.chmod(0o600)
    token.write_text("short\n")
    outcome = command("serve", "--http", "0", "--token-file", token)
    assert "It must have one line of 20 characters or more" in outcome.stderr


def test_show_token_prints_the_token_of_a_private_file(server: HttpServer) -> None:
    assert f"token: {server.token}" in server.errors.read_text()
    assert len(server.token) > 40
    assert stat.S_IMODE((server.errors.parent / ".local/state/qk-mcp/token").stat().st_mode) == 0o600


# Hostile and many clients


@pytest.mark.long
def test_half_requests_are_ended_and_others_are_answered(server: HttpServer) -> None:
    heads = [server.connect() for _ in range(5)]
    for half in heads:
        half.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    body = server.connect()
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
    body.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
    assert server.status_of(server.credentials) < 500
    for half in heads:
        with half:
            try:
                assert half.recv(1) == b""
            except ConnectionResetError:
                continue
    with body:
        assert body.recv(100).startswith(b"HTTP/1.1 408 ")


@pytest.mark.long
def test_a_thousand_connections_cannot_take_all_descriptors(server: HttpServer) -> None:
    before = len(descriptors(server.process.pid))
    crowd = [server.connect() for _ in range(1_000)]
    most = max(len(descriptors(server.process.pid)) for _ in range(20))
    assert most < before + 450
    for connection in crowd:
        connection.close()
    until(lambda: len(descriptors(server.process.pid)) <= before + 2, what="the connections to be closed")
    assert server.status_of(server.credentials) < 500


@pytest.mark.long
def test_a_hundred_clients_with_one_run_each_are_answered(server: HttpServer) -> None:
    async def one() -> Any:
        async with client_of(server, timeout=300) as client:
            arguments = {"task_name": "hello", "timeout": 300}
            return (await client.call_tool("run_task", arguments)).structured_content

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(one() for _ in range(100)))

    answers = asyncio.run(asyncio.wait_for(all_of_them(), 400))
    assert answers == [HELLO] * 100
    status = Path(f"/proc/{server.process.pid}/status")
    if status.exists():
        [peak] = [int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        assert peak < 400_000, f"{peak} kB"
