"""Runs one task with the exit codes and streams of `qk TASK ARGS`.

Reimplements quickie's command line (`quickie._cli.main`, 1.0.0) instead of calling
it, so that only listed tasks can run and no argument is interpreted.
"""

import os
import signal
import sys
from typing import Any, NoReturn

from .control import Control
from .exceptions import explain_exception
from .identity import definition_of, names_of
from .load import Tasks, load_tasks

__all__ = ["run_task"]


def run_task(request: "dict[str, Any]", control: Control, supervisor: int) -> NoReturn:
    """Find and run the task that `request` names, and exit with its exit code.

    If that is impossible, sends the event `unknown` (with near names) or `broken` (with the exception) on
    `control`. With `gate` in the request, sends `resolved` (with all names of the task and the place of its definition)
    and waits for the server's word. Then sends `began`, closes `control`, and sends SIGUSR1 to the process `supervisor`
    before the task starts.
    """
    if not sys.stdout.isatty():
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # so that output appears while the task runs
    name, args = request["task"], request["args"]
    try:
        tasks = load_tasks(request["tasks"], running=True, argv=[name, *args])
        task = tasks.find(name)
        resolved = _resolved(task, tasks) if task is not None and request.get("gate") else None
    except BaseException as failure:
        control.send({"event": "broken", "error": explain_exception(failure)})
        _exit(1)
    if task is None:
        control.send({"event": "unknown", "near": tasks.near(name)})
        _exit(127)
    if resolved:
        control.send(resolved)
        if not control.is_allowed():
            _exit(1)
    if control.hung_up():
        _exit(0)  # the server has stopped the run
    control.send({"event": "began"})  # the supervisor may be killed before it passes the signal on
    control.close()
    if os.getppid() == supervisor:
        try:
            os.kill(supervisor, signal.SIGUSR1)
        except PermissionError:
            pass  # the project's module has given up root privileges; the server has the event
    sys.exit(_run(task, args))


def _resolved(task: Any, tasks: Tasks) -> "dict[str, Any]":
    names = names_of(task, tasks.by_name())
    try:
        file, line = definition_of(task)
    except Exception:  # the task is an object of the project's own making
        file, line = None, None
    return {"event": "resolved", "names": names, "file": file, "line": line}


def _exit(code: int) -> NoReturn:
    """Exit without waiting for threads that the module's import may have started."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed or replaced by the module
    os._exit(code)


def _run(task: Any, args: "list[str]") -> Any:
    """Run `task` and return what to hand to `sys.exit`."""
    from quickie.errors import QuickieError, Skip, Stop

    try:
        task.parse_and_run(args)
    except Stop as stop:
        return stop.exit_code
    except Skip:
        return 0
    except QuickieError as failure:
        # Not through quickie, which interprets square brackets in the message as markup.
        print(f"ERROR    {failure}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        print("Exiting due to KeyboardInterrupt.")
        return 1
    except SystemExit:
        raise
    except BaseException as failure:
        _print_failure(failure)
        return 1
    return 0


def _print_failure(failure: BaseException) -> None:
    """Print the traceback, with causes and groups, but without frames of quickie and this package."""
    import traceback

    report = traceback.TracebackException.from_exception(failure)
    _keep_own_frames(report, traceback)
    print("".join(report.format()), end="", file=sys.stderr)


def _keep_own_frames(report: Any, traceback: Any) -> None:
    import quickie

    hidden = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(quickie.__file__) + os.sep)
    pending = [report]
    while pending:
        part = pending.pop()
        part.stack = traceback.StackSummary.from_list(
            [frame for frame in part.stack if not os.path.abspath(frame.filename).startswith(hidden)]
        )
        pending += [linked for linked in (part.__cause__, part.__context__) if linked is not None]
        pending += part.exceptions or ()
