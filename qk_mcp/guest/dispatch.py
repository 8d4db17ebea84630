"""Takes the one request that a guest serves: to describe a project's tasks, or to run one of them."""

import gc
import os

from . import fast_exit as leaving
from . import run as running
from . import warmup as warming
from .control import Control

__all__ = ["serve"]


def serve(control: Control, supervisor: int) -> None:
    """Import quickie, wait for a request, do what it asks; an end of file means that nothing is to be done.

    `supervisor` is the process that is told when a task begins.
    """
    collecting = gc.isenabled()
    gc.disable()  # there is nothing to collect while modules are imported
    warming.warm_up()
    leaving.keep()
    if collecting:
        gc.enable()
    request = control.request()
    if request is None:
        os._exit(0)
    os.environ.update(request["environ"])
    if request["do"] == "describe":
        from . import describe as describing

        control.close()
        describing.describe(request)
        os._exit(0)  # neither threads nor exit handlers of the project's module matter any more
    if request.get("warm") and warming.is_outdated():
        control.tell({"event": "outdated"})
        os._exit(0)
    running.run(request, control, supervisor)
