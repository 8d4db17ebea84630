"""Runs one task as `qk TASK ARGS` would: the same exit codes, the same streams.

Follows quickie's command line (`quickie._cli.main`, 1.0.0) without going through
it, so that nothing but a listed task can be reached and no argument is touched.
"""

import os
import signal
import sys
from typing import Any, NoReturn

from . import load as loading
from .control import Control

__all__ = ["run"]


def run(request: "dict[str, Any]", control: Control, supervisor: int) -> NoReturn:
    """Find and run the task that `request` names, and leave with its exit code.

    Says on `control` what is in the way, `unknown` (with near names) or `broken` (with the
    failure), and closes it, so that the task holds nothing of ours. When there is nothing,
    the process `supervisor` is sent SIGUSR1.
    """
    if not sys.stdout.isatty():
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what is printed is seen while the task runs
    name, args = request["task"], request["args"]
    try:
        tasks = loading.load(request["tasks"], running=True, argv=[name, *args])
        task = tasks.find(name)
    except BaseException as failure:
        control.tell({"event": "broken", "error": loading.explain(failure)})
        _leave(1)
    if task is None:
        control.tell({"event": "unknown", "near": tasks.near(name)})
        _leave(127)
    if control.hung_up():
        _leave(0)  # the run was stopped meanwhile
    control.close()
    if os.getppid() == supervisor:
        os.kill(supervisor, signal.SIGUSR1)
    sys.exit(_outcome(task, args))


def _leave(code: int) -> NoReturn:
    """End without waiting for threads that the module's import may have started."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed or replaced by the module
    os._exit(code)


def _outcome(task: Any, args: "list[str]") -> Any:
    """Run `task` and return what to hand to `sys.exit`."""
    from quickie.errors import QuickieError, Skip, Stop

    try:
        task.parse_and_run(args)
    except Stop as stop:
        return stop.exit_code
    except Skip:
        return 0
    except QuickieError as failure:
        # Printed plainly: quickie takes square brackets in the message for markup.
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
    """Print a traceback with the project's own frames, causes and groups included."""
    import traceback

    report = traceback.TracebackException.from_exception(failure)
    _drop_foreign_frames(report, traceback)
    print("".join(report.format()), end="", file=sys.stderr)


def _drop_foreign_frames(report: Any, traceback: Any) -> None:
    import quickie

    foreign = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(quickie.__file__) + os.sep)
    pending = [report]
    while pending:
        part = pending.pop()
        part.stack = traceback.StackSummary.from_list(
            [frame for frame in part.stack if not os.path.abspath(frame.filename).startswith(foreign)]
        )
        pending += [linked for linked in (part.__cause__, part.__context__) if linked is not None]
        pending += part.exceptions or ()
