"""Answers the one request of a guest: describe a project's tasks, or run one of them."""

import gc
import os

from .control import Control
from .fast_exit import skip_final_collection
from .run import run_task
from .staleness import is_outdated, remember_files
from .warmup import import_quickie

__all__ = ["answer_request"]


def answer_request(control: Control, supervisor: int) -> None:
    """Import quickie, wait for a request and carry it out; exit if the server closes the socket instead.

    `supervisor` is the process id that is signalled when a task starts.
    """
    collecting = gc.isenabled()
    gc.disable()  # imports leave next to no garbage
    remember_files()
    import_quickie()
    skip_final_collection()
    if collecting:
        gc.enable()
    if not control.has_request():
        remember_files()  # a warm guest
    request = control.request()
    if request is None:
        os._exit(0)
    os.environ.update(request["environ"])
    if not request.get("stdin"):
        _read_from_null()
    if request["do"] == "describe":
        from .describe import describe_tasks

        control.close()
        describe_tasks(request)
        os._exit(0)  # do not wait for threads and exit handlers of the project's module
    if request.get("warm") and is_outdated(request["started"]):
        control.send({"event": "outdated"})
        os._exit(0)
    run_task(request, control, supervisor)


def _read_from_null() -> None:
    """Replace the pipe on stdin by /dev/null: `rg` and `ag` would search the pipe instead of the directory."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if null:
        os.close(null)
