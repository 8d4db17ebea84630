"""Describes a project: a guest imports its tasks module and reports the tasks, which become a catalogue.

`start_description` needs no event loop, so that the server can start descriptions before it has one
(`qk_mcp.tasks.prefetch`). `finish_description` waits for the report. `describe` does both.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qk_mcp.errors import OutOfProcesses, ProjectBroken, QkMcpError, TemporaryDirectoryUnusable
from qk_mcp.guest.file_trace import unchanged
from qk_mcp.host.guest import Guest
from qk_mcp.host.launch import start_guest
from qk_mcp.interpreters.plan import Plan
from qk_mcp.redact import Redactor, redact_json
from qk_mcp.tasks.catalog import Catalog, parse_report
from qk_mcp.tasks.report import check_writable, create_report, read_report, remove_report

__all__ = ["Description", "StartedDescription", "describe", "discard_description", "finish_description",
           "start_description"]  # fmt: skip

_OUTPUT = 4_096
"""Bytes kept of what a module prints while it is imported."""
_KILL_LIMIT = 1.0
"""Seconds to wait until the processes that an import left running have ended."""


@dataclass(frozen=True, slots=True)
class StartedDescription:
    """A guest that is describing a project, and the file for its report."""

    guest: Guest
    report: Path


@dataclass(frozen=True, slots=True)
class Description:
    """The result of one guest: a catalogue, or why there is none."""

    plan: Plan
    outcome: Catalog | ProjectBroken
    trace: Mapping[str, Any]
    """The files that the outcome depends on, as the guest reported them; empty if the guest was stopped."""

    def catalog(self) -> Catalog:
        """Return the catalogue, or raise the `ProjectBroken`."""
        if isinstance(self.outcome, ProjectBroken):
            raise self.outcome.with_traceback(None)
        return self.outcome

    def is_current(self) -> bool:
        """Return whether describing the project again would give the same outcome, as far as files can show it."""
        try:
            cacheable = self.trace["uncacheable"] == "" and self.trace["settled"] is True
        except (KeyError, TypeError):
            return False  # there is no trace, or the module has tampered with it
        return cacheable and self.has_same_files()

    def has_same_files(self) -> bool:
        """Return whether the files that the outcome depends on are the same, as far as they are known."""
        try:
            return not self.trace or unchanged(dict(self.trace))
        except (AttributeError, KeyError, TypeError):
            return False  # the module has tampered with the trace


def start_description(plan: Plan) -> StartedDescription:
    """Start a guest and ask it to describe the plan's project. Raises what starting a guest raises, and
    TemporaryDirectoryUnusable.
    """
    try:
        report = create_report()
    except OSError as error:
        raise TemporaryDirectoryUnusable(plan.project.alias, error) from None
    try:
        guest = start_guest(plan)
    except QkMcpError:
        remove_report(report)
        raise
    guest.ask_now({"do": "describe", "tasks": str(plan.location.tasks), "result": str(report)})
    return StartedDescription(guest, report)


async def describe(plan: Plan, seconds: float) -> Description:
    """Describe the plan's project within `seconds`; a failure to load it is an outcome. Raises `GuestFailed`."""
    return await finish_description(start_description(plan), seconds)


async def finish_description(started: StartedDescription, seconds: float) -> Description:
    """Wait at most `seconds` for the report. Ends the guest's whole process tree, also when cancelled.

    The plan's secrets are replaced in the whole outcome.
    """
    from qk_mcp.tasks.load_errors import describe_exit, explain_death, explain_load_error, explain_timeout

    guest = started.guest.listen()
    try:
        in_time, output = await _wait(guest, seconds)
        if in_time and guest.exit_code:
            _check_directory(guest, started.report)
        ending = describe_exit(guest.exit_code) if in_time else f"took longer than {seconds:g} s"
        report = read_report(started.report, ending)
    finally:
        remove_report(started.report)
    plan = guest.plan
    if guest.could_not_fork:
        raise OutOfProcesses("its interpreter cannot fork", plan.project.alias)
    if report is None and in_time:
        return Description(plan, explain_death(plan, guest.exit_code, output), {})
    if report is None:
        return Description(plan, explain_timeout(plan, seconds, output, started=guest.leader is not None), {})
    trace = report.get("trace")
    trace = trace if isinstance(trace, dict) else {}
    report = redact_json({**report, "trace": None}, plan.secrets) | {"trace": trace}
    if isinstance(report.get("error"), dict):
        return Description(plan, explain_load_error(plan, report["error"], output), trace)
    return Description(plan, parse_report(report, plan.location.root, plan.note), trace)


def _check_directory(guest: Guest, report: Path) -> None:
    """Raise TemporaryDirectoryUnusable if the guest could not write its report, and nobody can."""
    from qk_mcp.guest.describe import REPORT_FAILED

    if guest.exit_code == REPORT_FAILED:
        try:
            check_writable(report)
        except OSError as error:
            raise TemporaryDirectoryUnusable(guest.plan.project.alias, error) from None


async def discard_description(started: StartedDescription) -> None:
    """End a guest whose description is not needed."""
    await finish_description(started, 0)


async def _wait(guest: Guest, seconds: float) -> tuple[bool, str]:
    """Return whether the guest ended within `seconds`, and the end of its output. Nothing of its tree is left."""
    import anyio

    from qk_mcp.host.stop import stop_guest

    os.close(guest.stdin)
    output = bytearray()
    secrets = guest.plan.secrets
    tails = [_OutputTail(pipe, Redactor(secrets, guest.redacted), output) for pipe in (guest.stdout, guest.stderr)]
    in_time = False
    try:
        with anyio.move_on_after(seconds):
            await guest.ended.wait()
            in_time = True
    finally:
        with anyio.CancelScope(shield=True):
            if in_time and guest.adopting:
                guest.end_tree()  # what the import left running
                with anyio.move_on_after(_KILL_LIMIT):
                    await guest.alone.wait()
            else:
                await stop_guest(guest)
            for tail in tails:
                tail.close()
            await guest.release()
    return in_time, output.decode("utf-8", "replace")


class _OutputTail:
    """Reads a pipe, so that its writers never wait, and keeps the last bytes."""

    def __init__(self, descriptor: int, redactor: Redactor, output: bytearray) -> None:
        self._descriptor = descriptor
        self._redactor = redactor
        self._output = output
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        """Read what the pipe still holds, and close it."""
        if self._open:
            self._read()
        if self._open:
            self._end()
        self._output += self._redactor.finish()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return
        self._output += self._redactor.feed(data)
        del self._output[:-_OUTPUT]
        if not data:
            self._end()

    def _end(self) -> None:
        self._open = False
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
