"""Runs of remote projects: the server over there runs the task, and this one passes on its output and its answer."""

from collections.abc import Mapping
from typing import Any

from qk_mcp.errors import UnknownTask
from qk_mcp.host.remote import RemoteServers
from qk_mcp.projects.project import Project
from qk_mcp.runs.gate import Gate, ResolvedTask
from qk_mcp.runs.progress import LiveClient
from qk_mcp.server.admission import TaskCall
from qk_mcp.tasks.catalog import Catalog
from qk_mcp.text import composed, nearest

__all__ = ["mark_files", "pass_remote_gate", "run_on_remote"]


async def run_on_remote(
    servers: RemoteServers, project: Project, arguments: Mapping[str, Any], seconds: float, live: LiveClient
) -> dict[str, Any]:
    """Return the answer of `run_task` over there; `seconds` is the timeout of the run.

    Raises RemoteFailed, and RemoteRefused with the error over there. The run is stopped if the call is cancelled.
    """

    async def receive_log(level: str, text: str) -> None:
        await live.log("stderr" if level == "warning" else "stdout", text)

    answer = await servers.run_task(project, arguments, seconds, receive_log, live.progress)
    return mark_files(answer, project)


async def pass_remote_gate(gate: Gate, catalog: Catalog, call: TaskCall) -> None:
    """Ask `gate` about the task of a call, by its names over there. Raises UnknownTask, and what `gate` raises.

    The server over there resolves names as this one does: only the Unicode normal form does not count.
    """
    wanted = composed(call.task)
    for task in catalog.tasks:
        names = (task.name, *task.aliases)
        if wanted in map(composed, names):
            await gate(ResolvedTask(names, task.location))
            return
    known = [name for task in catalog.tasks for name in (task.name, *task.aliases)]
    raise UnknownTask(call.project.alias, call.task, nearest(call.task, known))


def mark_files(answer: Mapping[str, Any], project: Project) -> dict[str, Any]:
    """Return `answer` with the place in front of each path, which is a path over there."""
    assert project.remote is not None
    place, marked = project.remote.place, dict(answer)
    if "files" in marked:
        marked["files"] = {name: f"{place}:{path}" for name, path in marked["files"].items()}
    for name, stream in marked.get("truncated", {}).items():
        if stream.get("file"):
            marked["truncated"] = marked["truncated"] | {name: stream | {"file": f"{place}:{stream['file']}"}}
    return marked
