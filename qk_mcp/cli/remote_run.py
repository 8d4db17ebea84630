"""Runs a task of a remote project for `qk-mcp run`: the server over there runs it, and its output is shown live."""

import json
import os
import sys
from collections.abc import Sequence

from qk_mcp.host.remote import RemoteServers
from qk_mcp.projects.project import Project

__all__ = ["run_remotely"]

_LONGEST = 86_400.0
"""Seconds of a run without `--timeout`; a call of a tool has an end."""


async def run_remotely(project: Project, task: str, args: Sequence[str], limit: float | None, *, as_json: bool) -> int:
    """Run a task over there, and return its exit code as a shell shows it. Raises RemoteFailed and RemoteRefused.

    The text of the standard input goes along if it is a pipe or a file.
    """
    arguments = {"task_name": task, "args": [*args], "project": project.alias, "timeout": limit or _LONGEST}
    if not os.isatty(0) and (text := sys.stdin.read()):
        arguments["stdin"] = text
    servers = RemoteServers(os.environ)

    async def show(level: str, text: str) -> None:
        if not as_json:
            print(text, file=sys.stdout if level == "info" else sys.stderr, flush=True)

    async def ignore_progress(seconds: float, message: str) -> None:
        """Show nothing: the terminal has the output itself."""

    try:
        answer = await servers.run_task(project, arguments, limit or _LONGEST, show, ignore_progress)
    finally:
        await servers.close()
    if as_json:
        print(json.dumps(answer, indent=2))
    code = int(answer["exit_code"])
    return code if code >= 0 else 128 - code
