"""Runs of remote projects: the server over there runs the task; this one passes on its answers, and records the run.

A run has the same id for the client and in the record here; the server over there has one of its own for it.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from qk_mcp.errors import QkMcpError, RemoteFailed, RunNotFound, UnknownTask
from qk_mcp.host.remote import RemoteServers
from qk_mcp.interpreters.secrets import find_secrets
from qk_mcp.projects.project import Project
from qk_mcp.redact import redact_json, redact_text
from qk_mcp.runs.gate import Gate, ResolvedTask
from qk_mcp.runs.progress import LiveClient
from qk_mcp.runs.record import Recorder, RunRecord, new_run_id
from qk_mcp.server.admission import TaskCall
from qk_mcp.server.run_fields import log_end
from qk_mcp.tasks.catalog import Catalog
from qk_mcp.text import composed, nearest

__all__ = ["RemoteRuns", "pass_remote_gate"]

_WAIT = 45.0
"""Seconds of each question whether a run in the background has ended."""


@dataclass(slots=True)
class _RemoteRun:
    """A run over there that may outlive its call."""

    project: Project
    record: RunRecord
    began: float


class RemoteRuns:
    """The runs of remote projects that one server has started. Belongs to one event loop."""

    def __init__(self, servers: RemoteServers, recorder: Recorder, environ: Mapping[str, str]) -> None:
        self._servers = servers
        self._recorder = recorder
        self._environ = environ
        self._runs: dict[str, _RemoteRun] = {}
        self._following: set[asyncio.Task[None]] = set()

    async def run(
        self, call: TaskCall, seconds: float, hand_over: float | None, live: LiveClient, *, client: str, principal: str
    ) -> dict[str, Any]:
        """Run a task for at most `seconds`, and return the answer of `run_task`, after `hand_over` seconds in any case.

        Raises RemoteFailed, and RemoteRefused with the error over there. The run is stopped if the call is cancelled.
        """
        run = _RemoteRun(call.project, self._new_record(call, client, principal), time.monotonic())
        self._recorder.write(run.record)

        async def receive_log(level: str, text: str) -> None:
            await live.log("stderr" if level == "warning" else "stdout", text)

        arguments = _arguments(call, seconds)
        try:
            answer = await self._servers.run_task(
                call.project, arguments, seconds, receive_log, live.progress, hand_over
            )
        except BaseException as failure:
            self._end(run, **_failure_fields(failure))
            raise
        if there := str(answer.get("run_id", "")):
            run.record = replace(run.record, there=there)
            self._runs[run.record.run] = run
        if answer.get("state") == "running":
            self._recorder.write(run.record)
            task = asyncio.create_task(self._follow(run))
            self._following.add(task)
            task.add_done_callback(self._following.discard)
        else:
            self._end(run, **_ending_fields(answer))
        return _translated(run, answer)

    def has(self, run_id: str) -> bool:
        """Return whether a server over there can still be asked about the run."""
        run = self._runs.get(run_id)
        return run is not None and self._servers.has_run(run.record.there)

    async def ask(
        self, run_id: str, tool: str, arguments: Mapping[str, Any], within: float, principal: str
    ) -> dict[str, Any]:
        """Return the answer of `get_run` or `stop_run` over there. Raises RunNotFound, and as `run` does."""
        run = self._runs[run_id]
        if run.record.principal != principal:
            raise RunNotFound(run_id)
        answer = await self._servers.ask_about(
            run.record.there, tool, {**arguments, "run_id": run.record.there}, within
        )
        if answer.get("state") != "running":
            self._end(run, **_ending_fields(answer))
        return _translated(run, answer)

    def newest(self, principal: str) -> list[tuple[RunRecord, float]]:
        """Return the runs of `principal` that outlived their calls, each with its seconds, the newest first."""
        return [
            (run.record, time.monotonic() - run.began if run.record.seconds is None else run.record.seconds)
            for run in reversed(self._runs.values())
            if run.record.principal == principal
        ]

    async def close(self) -> None:
        """Record the end of the runs under way: they end with the servers over there."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    async def _follow(self, run: _RemoteRun) -> None:
        """Wait for the end of a run in the background, and record it."""
        answer: Mapping[str, Any] = {"state": "running"}
        arguments = {"run_id": run.record.there, "wait": _WAIT, "lines": 0}
        try:
            while answer.get("state") == "running":
                answer = await self._servers.ask_about(run.record.there, "get_run", arguments, _WAIT)
            self._end(run, **_ending_fields(answer))
        except QkMcpError as failure:
            self._end(run, **_failure_fields(failure))
        except asyncio.CancelledError:
            self._end(run, state="stopped")
            raise

    def _new_record(self, call: TaskCall, client: str, principal: str) -> RunRecord:
        project = call.project
        assert project.remote is not None
        added = {name: value for name, value in project.env.items() if value is not None}
        secrets = find_secrets({**self._environ, **added}, project.rules.redact)
        return RunRecord(
            run=new_run_id(),
            time=time.time(),
            project=project.alias,
            root=f"{project.remote.place}:{project.path}",
            task=redact_text(call.task, secrets),
            args=redact_json([*call.args], secrets) if project.rules.log_args else None,
            client=client,
            server=self._recorder.server,
            principal=principal,
        )

    def _end(self, run: _RemoteRun, **end: Any) -> None:
        """Record the end of a run, once."""
        if run.record.state == "running":
            run.record = replace(run.record, seconds=time.monotonic() - run.began, **end)
            self._recorder.write(run.record)
            log_end(run.record)


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


def _arguments(call: TaskCall, seconds: float) -> dict[str, Any]:
    """Return the arguments of `run_task` for a server that serves the project under the same alias."""
    arguments: dict[str, Any] = {"project": call.project.alias, "task_name": call.task, "args": [*call.args]}
    optional = {"stdin": call.stdin, "timeout": seconds, "background": call.background}
    return arguments | {name: value for name, value in optional.items() if value}


def _ending_fields(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {"state": answer.get("state", "ended"), "exit_code": answer.get("exit_code")}


def _failure_fields(failure: BaseException) -> dict[str, Any]:
    match failure:
        case RemoteFailed():
            return {"state": "lost", "error": failure.what}
        case QkMcpError():
            return {"state": "ended", "error": failure.what}
    return {"state": "cancelled"}


def _translated(run: _RemoteRun, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return `answer` with the run's id here, and with the place in front of each path, which is one over there."""
    assert run.project.remote is not None
    place, here, translated = run.project.remote.place, run.record.run, dict(answer)
    if "run_id" in translated:
        translated["run_id"] = here
    if run.record.there and "note" in translated:
        translated["note"] = translated["note"].replace(run.record.there, here)
    if "files" in translated:
        translated["files"] = {name: f"{place}:{path}" for name, path in translated["files"].items()}
    for name, stream in translated.get("truncated", {}).items():
        if stream.get("file"):
            translated["truncated"] = translated["truncated"] | {name: stream | {"file": f"{place}:{stream['file']}"}}
    return translated
