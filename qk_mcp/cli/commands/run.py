"""`qk-mcp run`: runs one task as `run_task` runs it for an agent, with live output in the terminal."""

import json
import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from qk_mcp.cli.options import ConfigOption, ProjectOption, check_seconds, registry_of
from qk_mcp.cli.project_or_task import project_and_words
from qk_mcp.errors import MisplacedOption, NoSuchTask, QkMcpError, RunTimedOut, TaskNotNamed, UnknownTask, UsageError
from qk_mcp.text import nearest, printable

if TYPE_CHECKING:
    import asyncio

    from qk_mcp.projects.project import Project
    from qk_mcp.runs.streams import Stream

__all__ = ["run_command", "shield_task"]

_GIVE_INPUT = "give its input on stdin, or run it with qk"
_END = 1_000
"""Bytes of the end of a stream in which a prompt is looked for."""
_BROKEN_PIPE = 128 + 13
"""The exit code that a shell shows for a program ended by SIGPIPE."""


def run_command(
    *words: Annotated[str, Parameter(name="TASK")],
    project: ProjectOption = None,
    config: ConfigOption = None,
    timeout: Annotated[float | None, Parameter(metavar="SECONDS")] = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Run a task as an agent would.

    The first word is the project if it is the name of one, or a path in one that begins with . / or ~. Otherwise it is
    a task of the default project: the only one, or the one of the current directory. The task gets your standard
    input if it is a pipe or a file, but not a terminal, because an agent has none.

    Parameters
    ----------
    words
        The task's name or alias, and its arguments. Options of qk-mcp come before the task.
    timeout
        Seconds after which the task and all that it started is stopped; no limit by default.
    as_json
        Print only the JSON that an agent would get, when the task has ended.
    """
    if timeout is not None:
        check_seconds("--timeout", timeout)
    registry = registry_of(project, config)
    if not words:
        raise UsageError("which task?", hint="qk-mcp inspect lists the tasks of your projects")
    chosen, rest = project_and_words(registry, words)
    if not rest:
        raise TaskNotNamed(chosen.alias)
    task, *args = rest

    from qk_mcp.cli.signals import run_until_signal

    if chosen.remote is not None:
        from qk_mcp.cli.remote_run import run_remotely

        return run_until_signal(run_remotely(chosen, task, args, timeout, as_json=as_json))
    try:
        return run_until_signal(_run(chosen, task, args, timeout, as_json=as_json))
    except UnknownTask as failure:
        if len(rest) < len(words) and task.startswith("-"):
            value = args[:1] if task in ("--timeout", "--project", "--config") else []
            raise MisplacedOption(task, shlex.join(["qk-mcp", "run", task, *value, words[0], "TASK"])) from None
        projects = nearest(task, (each.alias for each in registry.projects)) if len(rest) == len(words) else None
        raise NoSuchTask(chosen.alias, task, failure.near, projects) from None
    except RunTimedOut as failure:
        if as_json:
            raise  # with the output so far, which the terminal does not have
        hint = _GIVE_INPUT if failure.why else "give it a larger --timeout"
        raise QkMcpError(failure.what, failure.why, hint) from None


def shield_task(words: Sequence[str], app: App) -> list[str]:
    """Return the words after `run` with `--` before the first one that is not an option of the command, `app`.

    Words after `--` belong to the task, so that its options are not parsed as options of the command.
    """
    arguments = app.assemble_argument_collection()
    with_value = {name for argument in arguments if not argument.is_flag() for name in argument.names}
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] not in ("-", "--"):
        position += 2 if words[position] in with_value else 1
    delimited = words[position : position + 1] == ["--"]
    return [*words[:position], "--", *words[position + delimited :]]


async def _run(project: "Project", task: str, args: Sequence[str], limit: float | None, *, as_json: bool) -> int:
    import anyio

    from qk_mcp.cli.ui.writer import PausableWriter
    from qk_mcp.host.launch import start_guest
    from qk_mcp.interpreters.plan import resolve
    from qk_mcp.runs.control import Control
    from qk_mcp.runs.output_files import output_path, outputs_directory
    from qk_mcp.runs.prompts import unanswered_prompt
    from qk_mcp.runs.record import new_run_id
    from qk_mcp.runs.run import Request, run_in_guest

    output = output_path(outputs_directory(), task, new_run_id())
    request = Request(task=task, args=args, timeout=limit, output=output, owner="qk-mcp run")
    control = Control(limit)
    failures: list[OSError] = []
    ends: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

    def give_up(error: OSError) -> None:
        failures.append(error)
        scope.cancel()  # nobody reads the rest

    def show(stream: "Stream", data: bytes) -> "asyncio.Future[None] | None":
        ends[stream] = (ends[stream] + data)[-_END:]
        return writer.write(1 if stream == "stdout" else 2, data)

    def show_wait(other: str) -> None:
        writer.write(2, printable(f"{task!r} runs one at a time; it waits for {other}\n").encode())

    control.on_wait = show_wait
    with anyio.CancelScope() as scope:
        writer = PausableWriter(give_up)
        in_terminal = os.isatty(0)
        guest = start_guest(resolve(project, os.environ), stdin=None if in_terminal else 0).listen()
        ended = False
        try:
            outcome = await run_in_guest(guest, request, sink=None if as_json else show, control=control)
            if as_json:
                writer.write(1, json.dumps(outcome.answer(), indent=2).encode() + b"\n")
            elif outcome.left:
                left = "".join(f"left running: {each.pid} {each.command}\n" for each in outcome.left)
                writer.write(2, printable(left).encode())
            if in_terminal and (asked := unanswered_prompt(ends["stdout"], ends["stderr"])):
                writer.write(2, f"\nhint: the task {asked}, but has no terminal: {_GIVE_INPUT}\n".encode())
            ended = True
        finally:
            with anyio.CancelScope(shield=not ended):
                await writer.finish(wait=ended)
    for failure in failures:
        if isinstance(failure, BrokenPipeError):
            return _BROKEN_PIPE
        raise failure
    return outcome.exit_code if outcome.exit_code >= 0 else 128 - outcome.exit_code
