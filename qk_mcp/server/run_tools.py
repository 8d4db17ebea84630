"""The tools that run tasks. Every run of the server passes through `RunTools.run`."""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from fastmcp.tools import ToolResult

from qk_mcp.errors import (
    InvalidInput,
    QkMcpError,
    RunTimedOut,
    UnknownTask,
)
from qk_mcp.host.remote import RemoteServers
from qk_mcp.host.stop import GRACE
from qk_mcp.host.warm_pool import WarmPool
from qk_mcp.interpreters.plan import resolve
from qk_mcp.projects.project import TASKS
from qk_mcp.projects.registry import note_on_path
from qk_mcp.projects.served import ServedProjects
from qk_mcp.redact import redact_json, redact_text
from qk_mcp.runs.background import ServerRun, ServerRuns
from qk_mcp.runs.control import Control
from qk_mcp.runs.output_files import output_path, stream_file
from qk_mcp.runs.progress import send_live_output
from qk_mcp.runs.pruning import Pruner
from qk_mcp.runs.record import Recorder, RunRecord, new_run_id, record_beside
from qk_mcp.runs.run import Request, Run
from qk_mcp.runs.status import Selection
from qk_mcp.server import schemas
from qk_mcp.server.admission import Admission, Place, TaskCall, limit_timeout
from qk_mcp.server.answers import tool_answer
from qk_mcp.server.arguments import check_names, parse_flag, parse_text, parse_timeout, parse_words
from qk_mcp.server.call_client import CallClient, asked_hand_over, client_name
from qk_mcp.server.consent import ConsentPending, Questions
from qk_mcp.server.hand_over import plan_hand_over
from qk_mcp.server.remote_runs import RemoteRuns, pass_remote_gate
from qk_mcp.server.run_fields import BY_CLIENT, ending_fields, failure_fields, log_end, output_fields
from qk_mcp.server.run_queries import RunQueries, run_status
from qk_mcp.server.settings import Settings
from qk_mcp.server.task_runner import TaskRunner
from qk_mcp.tasks.cache import CatalogCache

__all__ = ["RunTools"]

log = logging.getLogger(__name__)

_STOP_TIME = 5.0
"""Seconds of the default timeout that a handed-over call does not use."""
_DETAILS = 2_000
"""Bytes of the keys that describe a run in the background."""


class RunTools:
    """Answers the tools that run tasks, for the projects of a registry."""

    def __init__(
        self, served: ServedProjects, settings: Settings, remote_servers: RemoteServers, catalogs: CatalogCache
    ) -> None:
        self._served = served
        self._catalogs = catalogs
        self._settings = settings
        self._recorder = Recorder(record_beside(settings.outputs))
        self._runner = TaskRunner(WarmPool(size=settings.warm_guests), self._recorder)
        self.runs = ServerRuns()
        self.remote_runs = RemoteRuns(remote_servers, self._recorder, settings.environ)
        self.queries = RunQueries(self.runs, self.remote_runs, self._recorder, settings)
        self.pruner = Pruner(settings.outputs)
        self._questions = Questions()

    async def run_task(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Answer the tool of that name."""
        note = check_names(arguments, schemas.run_input(background=self._settings.background)["properties"])
        task = parse_text(arguments, "task_name")
        if task is None:
            raise InvalidInput("task_name", "it is required; list_tasks shows the names")
        name = parse_text(arguments, "project")
        project = self._served.find(name)
        note = "\n".join(filter(None, (note, note_on_path(name, project))))
        call = TaskCall(
            project=project,
            task=task,
            args=parse_words(arguments, "args"),
            stdin=parse_text(arguments, "stdin"),
            timeout=parse_timeout(arguments, "timeout"),
            background=self._settings.background and parse_flag(arguments, "background"),
        )
        return await self.run(call, note)

    async def run(self, call: TaskCall, note: str = "") -> ToolResult:
        """Run a task, and return the answer of `run_task` with `note`.

        Raises what `TaskRunner.run_task` raises, and `TooManyRuns`. If the call is cancelled, the run is stopped.
        """
        self._served.check_rules()
        if call.background:
            self.runs.check_room(self._settings.principal())
        if call.project.remote is not None:
            return await self._run_remotely(call, note)
        run_id = new_run_id()
        timeout, patience = self._times(call)
        timeout, limited = limit_timeout(timeout, call.project.rules)
        if call.timeout is not None or timeout < schemas.DEFAULT_TIMEOUT:
            note = "\n".join(filter(None, (note, limited)))
        request = Request(
            task=call.task,
            args=call.args,
            stdin=call.stdin,
            timeout=timeout,
            bounds_call=not call.background,
            max_output=self._settings.max_output - len(json.dumps(note)) - (_DETAILS if call.background else 0),
            output=output_path(self._settings.outputs, call.task, run_id),
            keeps_output=True,
            grace=GRACE if call.project.grace is None else call.project.grace,
        )
        run = self._start(call, run_id, request)
        if call.background:
            run.keep_output()
        answer: ToolResult | None = None
        try:
            async with send_live_output(CallClient(call.task)) as observe:
                with run.watched(observe), anyio.move_on_after(patience):
                    await (run.settle() if call.background else run.ended.wait())
                with run.watched(observe):
                    await run.decided()
            if not run.ended.is_set():
                answer = await self._hand_over(run, call, note)
        finally:
            if answer is None and not run.ended.is_set():
                run.control.stop(BY_CLIENT)
                with anyio.CancelScope(shield=True):
                    await run.ended.wait()
        if isinstance(run.outcome, RunTimedOut):
            if limited:
                run.outcome.hint = limited  # not to pass a larger one
            elif run.outcome.slow and self._settings.background:
                run.outcome.hint += ", or run it with background=true"
        return answer or _answer(run, note)

    async def _run_remotely(self, call: TaskCall, note: str) -> ToolResult:
        """Run a task of a remote project, if the rules here let it run."""
        timeout, patience = self._times(call)
        timeout, limited = limit_timeout(timeout, call.project.rules)
        if call.timeout is not None or timeout < schemas.DEFAULT_TIMEOUT:
            note = "\n".join(filter(None, (note, limited)))
        place = Place(call.project.path, has_qk=False)
        admission = Admission(self._served, call, place, Control(None), self._questions)
        if gate := admission.find_gate():
            try:
                await pass_remote_gate(gate, await self._catalogs.get(call.project), call)
            except ConsentPending as pending:
                return pending.result
            except UnknownTask as failure:
                raise admission.without_denied(failure) from None
        answer = await self.remote_runs.run(
            call,
            timeout,
            patience,
            CallClient(call.task),
            client=client_name(),
            principal=self._settings.principal(),
        )
        return tool_answer(_with_note(answer, note))

    def _times(self, call: TaskCall) -> tuple[float, float | None]:
        """Return the seconds that the run may take, and those until the call is answered in any case."""
        if call.background:
            return call.timeout or schemas.LONG_TIMEOUT, None
        if self._settings.background and (seconds := asked_hand_over()) is not None:
            return call.timeout or schemas.DEFAULT_TIMEOUT, seconds
        hand_over = plan_hand_over(self._settings.hand_over, client_name()) if self._settings.background else None
        if hand_over is None:
            return call.timeout or schemas.DEFAULT_TIMEOUT, None
        if call.timeout is None:
            return schemas.LONG_TIMEOUT, min(hand_over.after, schemas.DEFAULT_TIMEOUT - _STOP_TIME)
        return call.timeout, hand_over.after if call.timeout >= hand_over.patience else None

    async def _hand_over(self, run: ServerRun, call: TaskCall, note: str) -> ToolResult:
        """Answer the call while the run goes on."""
        notes = [note] if note else []
        if not call.background:
            run.keep_output()
            notes.append(
                "the task is still running: this client would not have waited longer for the answer of this call. "
                f"Wait for it with get_run(run_id={run.record.run!r}, wait=50)"
            )
        return await self.queries.answer(run_status(run), Selection(count=schemas.DEFAULT_LINES), notes, run)

    def _start(self, call: TaskCall, run_id: str, request: Request) -> ServerRun:
        project = call.project
        plan = resolve(project, self._settings.environ)
        record = RunRecord(
            run=run_id,
            time=time.time(),
            project=project.alias,
            root=str(plan.location.root),
            task=redact_text(request.task, plan.secrets),
            args=redact_json([*request.args], plan.secrets) if project.rules.log_args else None,
            client=client_name(),
            files={stream: str(stream_file(request.output, stream)) for stream in ("stdout", "stderr")},
            server=self._recorder.server,
            principal=self._settings.principal(),
        )
        request = replace(request, owner=f"run {record.run} of {record.client or 'an unnamed client'}")

        async def running(run: ServerRun) -> Run:
            end: dict[str, Any] = {"state": "lost"}
            place = Place(plan.location.root, has_qk=plan.location.tasks.stem == TASKS)
            admission = Admission(self._served, call, place, run.control, self._questions)
            run.control.find_gate = admission.find_gate
            run.control.on_wait = partial(log.info, "wait project=%s run=%s for=%s", project.alias, record.run)
            try:
                outcome = await self._runner.run_task(plan, request, run.observe, run.control, record)
                end = ending_fields(outcome)
            except QkMcpError as failure:
                end = redact_json(failure_fields(failure), plan.secrets)
                if isinstance(failure, UnknownTask):
                    raise admission.without_denied(failure) from None
                raise
            finally:
                run.record = replace(record, seconds=run.seconds, **output_fields(run.control), **end)
                self._recorder.write(run.record)
                self.pruner.request()
                log_end(run.record)
                self._runner.prepare_next(plan)
            return outcome

        return self.runs.start(record, request, running)


def _answer(run: ServerRun, note: str) -> ToolResult:
    if isinstance(run.outcome, ConsentPending):
        return run.outcome.result
    if isinstance(run.outcome, QkMcpError):
        raise run.outcome
    if run.outcome is None:
        raise RuntimeError("the run has failed; the log says why")
    answer = run.outcome.answer()
    if run.background:
        answer |= {"run_id": run.record.run, "state": run.record.state, "seconds": round(run.seconds, 1)}
        if files := {stream: str(source.file) for stream, source in run.sources.items()}:
            answer["files"] = files
    return tool_answer(_with_note(answer, note))


def _with_note(answer: dict[str, Any], note: str) -> dict[str, Any]:
    return answer | {"note": "\n".join(filter(None, (note, answer.get("note"))))} if note else answer
