"""The conformance suite of the Model Context Protocol, against `serve --http`.

Many of its scenarios are for a server with certain tools, prompts and resources, which this one does not have.
"""

import http.client
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.http import HttpServer, serving_http
from tests.support.node import installed

PACKAGES = {"@modelcontextprotocol/conformance": "0.1.16", "node": "^22.19"}
"""The suite needs a newer Node, which the package `node` brings."""

PASSED = {
    "server-initialize",
    "logging-set-level",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
}
FAILED = {
    "it has no prompts and no resources, and does not declare them": {
        "completion-complete",
        "prompts-get-embedded-resource",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-with-image",
        "prompts-list",
        "resources-list",
        "resources-read-binary",
        "resources-read-text",
        "resources-subscribe",
        "resources-templates-read",
        "resources-unsubscribe",
    },
    "it has none of the tools whose results the suite expects": {
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "json-schema-2020-12",
        "tools-call-audio",
        "tools-call-elicitation",
        "tools-call-embedded-resource",
        "tools-call-image",
        "tools-call-mixed-content",
        "tools-call-sampling",
        "tools-call-with-logging",
        "tools-call-with-progress",
    },
    "it has no sessions, and so no streams to resume": {"server-sse-polling"},
}


@contextmanager
def proxy(server: HttpServer) -> Iterator[str]:
    """Yield the URL of a proxy that adds the token, which the suite cannot send, and changes nothing else."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in {**dict(self.headers.items()), **server.credentials}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("date", "server", "transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            with suppress(OSError, http.client.HTTPException):  # the client leaves streams that it needs no more
                while chunk := answer.read1():
                    self.wfile.write(chunk)
                    self.wfile.flush()
            connection.close()

        do_GET = do_POST = do_DELETE = forward  # noqa: N815  # the names of http.server

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}/mcp"
        finally:
            listener.shutdown()


@pytest.mark.long
def test_the_scenarios_for_any_server_pass(
    tmp_path: Path, project: Callable[..., Path], pytestconfig: pytest.Config
) -> None:
    programs = installed(pytestconfig.cache.mkdir("node"), "conformance", PACKAGES) / "node_modules" / ".bin"

    def suite(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(programs / "node"), str(programs / "conformance"), *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    listed = suite("list").stdout
    scenarios = set(re.findall(r"^  - (\S+)", listed.partition("Client scenarios")[0], re.MULTILINE))
    assert scenarios == PASSED.union(*FAILED.values())
    (tmp_path / "home").mkdir()
    root = project("from quickie import task\n@task\ndef hello(): print('hello')")

    with serving_http(tmp_path / "home", root) as server, proxy(server) as url:

        def run(scenario: str) -> tuple[str, subprocess.CompletedProcess[str]]:
            return scenario, suite("server", "--url", url, "--scenario", scenario)

        with ThreadPoolExecutor(3) as pool:
            outcomes = dict(pool.map(run, sorted(scenarios)))
    passed = {scenario for scenario, outcome in outcomes.items() if outcome.returncode == 0}
    assert passed == PASSED, [outcomes[scenario].stdout[-2000:] for scenario in PASSED - passed]
