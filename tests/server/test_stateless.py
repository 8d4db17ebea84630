"""What a server imports for its first answers."""

import sys

from tests.conftest import Serve

_SOURCE = """
    from quickie import task

    @task
    def hello():
        print("hello")
"""


def test_no_answer_imports_the_store_for_session_state(serve: Serve) -> None:
    client = serve(_SOURCE, command=[sys.executable, "-X", "importtime", "-m", "qk_mcp", "serve"])
    client.call("list_tasks")
    assert client.run("hello").data["stdout"] == "hello\n"
    imported = {line.rpartition("|")[2].strip() for line in client.stderr().splitlines()}
    assert "fastmcp.server.server" in imported
    assert not {name for name in imported if name.startswith(("key_value", "beartype"))}
