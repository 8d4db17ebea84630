"""`qk_mcp.host.reaper`: a server that is the first process of its container leaves no zombies."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Serve
from tests.support.environment import QK_MCP
from tests.support.namespaces import AS_PID_1, needs_namespaces
from tests.support.processes import tree, until, zombies


@pytest.mark.long
@needs_namespaces
def test_processes_that_tasks_left_are_reaped(serve: Serve, project: Callable[..., Path]) -> None:
    """Both the process itself and what reads its output end up as children of the server."""
    root = project("""
        import os, subprocess, time
        from pathlib import Path
        from quickie import task

        @task
        def pid():
            print(os.getppid(), os.readlink("/proc/1/exe"))

        @task
        def leave():
            subprocess.Popen(["/bin/sh", "-c", "while [ ! -e go ]; do sleep 0.05; done"])
    """)
    client = serve(root, "--no-warm", command=[*AS_PID_1, *QK_MCP, "serve"])
    assert "python" in client.run("pid").data["stdout"]
    for _ in range(3):
        assert len(client.run("leave").data["left_running"]) >= 1
    assert len(tree(client.pid)) > 3
    (root / "go").touch()
    until(lambda: len(tree(client.pid)) == 1 and not zombies(client.pid), 20, "all but the server to be reaped")
