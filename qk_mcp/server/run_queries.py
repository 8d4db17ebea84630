"""The tools for runs that outlive their call: `get_run` and `stop_run`."""

import json
import os
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from fastmcp.tools import ToolResult

from qk_mcp.errors import InvalidInput, OutputUnreadable, QkMcpError, RunElsewhere, RunNotFound
from qk_mcp.host.threads import call_in_thread
from qk_mcp.runs.background import ServerRun, ServerRuns
from qk_mcp.runs.lines import Lines, count_newlines
from qk_mcp.runs.progress import send_live_output
from qk_mcp.runs.record import Recorder, RunRecord, read_runs
from qk_mcp.runs.run import Run
from qk_mcp.runs.search import LineSearch, line_search
from qk_mcp.runs.status import (
    STREAMS,
    RunStatus,
    Selection,
    read_pages,
    recent_page,
    search_pages,
    status_answer,
)
from qk_mcp.runs.streams import Stream
from qk_mcp.server import schemas
from qk_mcp.server.answers import tool_answer
from qk_mcp.server.arguments import check_names, parse_count, parse_line_numbers, parse_seconds, parse_text
from qk_mcp.server.call_client import CallClient, client_name
from qk_mcp.server.hand_over import plan_hand_over
from qk_mcp.server.remote_runs import RemoteRuns
from qk_mcp.server.settings import Settings
from qk_mcp.text import shorten

__all__ = ["RunQueries"]

_LISTED = 20
_MOST_LINES = 5_000
_LONGEST_WAIT = 3_600.0
_WAIT_FOR_LINE = 45.0
"""Seconds that a call with `until` waits if it does not say how long."""
_PAUSE = 0.05
"""Seconds between two searches of new lines."""
_LOOK = 0.3
"""Seconds between two looks at the record, while a run of another server is waited for."""
_STOP_LINES = 20
_BY_AGENT = "by stop_run"


class RunQueries:
    """Answers the tools about the runs of a server."""

    def __init__(self, runs: ServerRuns, remote_runs: RemoteRuns, recorder: Recorder, settings: Settings) -> None:
        self._runs = runs
        self._remote_runs = remote_runs
        self._recorder = recorder
        self._settings = settings

    async def get_run(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Answer the tool of that name."""
        note = check_names(arguments, schemas.GET_RUN_INPUT["properties"])
        run_id = parse_text(arguments, "run_id")
        until, grep = parse_text(arguments, "until"), parse_text(arguments, "grep")
        wait = parse_seconds(arguments, "wait", _WAIT_FOR_LINE if until else 0.0, zero=True)
        wait = min(wait, self._longest_wait())
        after = parse_line_numbers(arguments, "after", len(STREAMS))
        selection = Selection(
            count=parse_count(arguments, "lines", schemas.DEFAULT_LINES, _MOST_LINES),
            after=None if after is None else dict(zip(STREAMS, after, strict=True)),
        )
        if run_id is None:
            return self._list(note)
        if self._remote_runs.has(run_id):
            return await self._ask_remote(run_id, "get_run", {**arguments, "wait": wait}, wait)
        run = self._runs.find(run_id, self._settings.principal())
        async with AsyncExitStack() as stack:
            searches = [
                await stack.enter_async_context(line_search(name, pattern)) if pattern else None
                for name, pattern in (("until", until), ("grep", grep))
            ]
            notes = [note] if note else []
            if run is None:
                status = await self._wait_for_other(run_id, wait)
                if until and status.record.state == "running":
                    notes.append("another server runs it: `until` is not watched for, only its end")
            else:
                run.control.write_through()
                notes += await self._wait(run, wait, searches[0], selection.after)
                status = run_status(run)
            return await self.answer(status, selection, notes, run, searches[1])

    async def stop_run(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Answer the tool of that name."""
        note = check_names(arguments, schemas.STOP_RUN_INPUT["properties"])
        run_id = parse_text(arguments, "run_id")
        if run_id is None:
            raise InvalidInput("run_id", "it is required; get_run lists the runs")
        if self._remote_runs.has(run_id):
            return await self._ask_remote(run_id, "stop_run", arguments, 0.0)
        notes = [note] if note else []
        run = self._runs.find(run_id, self._settings.principal())
        if run is not None and not run.ended.is_set():
            run.control.write_through()
            run.control.stop(_BY_AGENT)
            await run.ended.wait()
        else:
            notes.append("it had ended before")
        status = await self._recorded(run_id) if run is None else run_status(run)
        if status.record.state == "running":
            raise RunElsewhere(run_id)
        return await self.answer(status, Selection(count=_STOP_LINES), notes, run)

    async def answer(
        self,
        status: RunStatus,
        selection: Selection,
        notes: list[str],
        run: ServerRun | None = None,
        search: LineSearch | None = None,
    ) -> ToolResult:
        """Return the answer about a run with the selected lines. Raises `SearchFailed` and `OutputUnreadable`."""
        try:
            if search is not None:
                pages = await search_pages(status, selection, search)
            elif selection.after is None:
                pages = read_pages(status, selection)  # reads a MiB at most
            else:
                pages = await call_in_thread(read_pages, status, selection)
        except OSError as error:
            raise OutputUnreadable(status.record.run, error) from error
        if run is not None and not run.ended.is_set() and run.problem:
            notes.append(f"the output file is incomplete ({run.problem}); these are the last lines")
            captures = run.control.captures.items()
            pages |= {stream: recent_page(capture.recent, selection.count) for stream, capture in captures}
        answer = status_answer(status, pages, selection, self._settings.max_output, notes)
        if run is not None and isinstance(run.outcome, Run) and not status.sources:
            answer |= run.outcome.answer()  # it ended within its call, and its output was not kept in files
        return tool_answer(answer)

    async def _ask_remote(self, run_id: str, tool: str, arguments: Mapping[str, Any], within: float) -> ToolResult:
        """Pass a call on to the server over there that has the run. Raises RemoteFailed and RemoteRefused."""
        return tool_answer(await self._remote_runs.ask(run_id, tool, arguments, within, self._settings.principal()))

    def _longest_wait(self) -> float:
        """Return the seconds for which a call may wait: shorter than the client's patience."""
        hand_over = plan_hand_over(self._settings.hand_over, client_name())
        return min(_LONGEST_WAIT, hand_over.after) if hand_over else _LONGEST_WAIT

    async def _wait(
        self, run: ServerRun, wait: float, until: LineSearch | None, after: Mapping[Stream, int] | None
    ) -> list[str]:
        """Wait until the run has ended, a line matches, or the time is over. Returns notes about that."""
        deadline = time.monotonic() + wait
        if not wait:
            return await self._look(run, deadline, until, after)
        async with send_live_output(CallClient(run.record.task)) as observe:
            with run.watched(observe):
                return await self._look(run, deadline, until, after)

    async def _look(
        self, run: ServerRun, deadline: float, until: LineSearch | None, after: Mapping[Stream, int] | None
    ) -> list[str]:
        while True:
            news, ended = run.news(), run.ended.is_set()
            if until is not None:
                for stream, source in run.sources.items():
                    line = await until.search_new(source, after=after[stream] if after else 0)
                    if line is not None:
                        return [f"matches `until`: {stream} {line.number}: {shorten(line.text, 300)}"]
            left = deadline - time.monotonic()
            if ended or left <= 0:
                return ["no line matches `until`"] if until is not None else []
            with anyio.move_on_after(left):
                if until is None:
                    await run.ended.wait()
                else:
                    await news.wait()
                    await anyio.sleep(_PAUSE)

    async def _wait_for_other(self, run_id: str, wait: float) -> RunStatus:
        """Return the status of a run that is not in memory when it has ended, or the time is over."""
        deadline = time.monotonic() + wait
        while True:
            status = await self._recorded(run_id)
            left = deadline - time.monotonic()
            if status.record.state != "running" or left <= 0:
                return status
            await anyio.sleep(min(_LOOK, left))

    async def _recorded(self, run_id: str) -> RunStatus:
        """Return the status of a run that is not in memory."""
        try:
            runs = await call_in_thread(read_runs, self._recorder.file)
        except OSError as error:
            raise OutputUnreadable(run_id, error) from error
        record = next((record for record in reversed(runs.records) if record.run == run_id), None)
        if record is None or record.principal != self._settings.principal():
            raise RunNotFound(run_id)
        return await call_in_thread(_recorded_status, record)

    def _list(self, note: str) -> ToolResult:
        entries = []
        principal = self._settings.principal()
        local = [(run.record, run.seconds) for run in self._runs.newest(_LISTED, principal)]
        runs = sorted(local + self._remote_runs.newest(principal), key=lambda each: each[0].time, reverse=True)
        for record, seconds in runs[:_LISTED]:
            entry: dict[str, Any] = {"run_id": record.run, "project": record.project, "task": shorten(record.task, 100)}
            if record.args:
                entry["args"] = shorten(json.dumps([*record.args], ensure_ascii=False), 200)
            entry |= {"state": record.state, "exit_code": record.exit_code, "seconds": round(seconds, 1)}
            entries.append(entry)
        return tool_answer({"runs": entries} | ({"note": note} if note else {}))


def run_status(run: ServerRun) -> RunStatus:
    """Return the status of a run in memory."""
    outcome = run.outcome
    extras: dict[str, Any] = {}
    if isinstance(outcome, Run):
        extras = {key: value for key, value in outcome.answer().items() if key not in ("exit_code", *_TEXTS)}
    elif isinstance(outcome, QkMcpError):
        extras = {"note": "\n".join(filter(None, (outcome.what, outcome.why)))}
    elif guest := run.control.guest:
        if guest.redacted:
            extras["redacted"] = sorted(guest.redacted)
        if run.control.waits_for and not guest.began:
            extras["note"] = f"the task has not begun: it waits for {run.control.waits_for}"
    return RunStatus(
        record=run.record, seconds=run.seconds, last_output=run.last_output, sources=run.sources, extras=extras
    )


_TEXTS = ("stdout", "stderr", "truncated")


def _recorded_status(record: RunRecord) -> RunStatus:
    sources: dict[Stream, Lines] = {}
    notes = [record.error] if record.error else []
    for stream in STREAMS:
        if file := record.files.get(stream):
            try:
                sources[stream] = count_newlines(Path(file))
            except OSError as error:
                notes.append(f"{stream}: {file} cannot be read: {error.strerror}")
    extras = {"note": "\n".join(notes)} if notes else {}
    seconds = record.seconds
    if seconds is None:  # a lost run lasted at least until its last output
        seconds = (time.time() if record.state == "running" else _last_change(record)) - record.time
    return RunStatus(record=record, seconds=seconds, sources=sources, extras=extras)


def _last_change(record: RunRecord) -> float:
    times = [record.time]
    for file in record.files.values():
        try:
            times.append(os.stat(file).st_mtime)
        except OSError:
            continue  # it was removed, which a note says
    return max(times)
