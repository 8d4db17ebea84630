"""Takes the one request that a guest serves: to describe a project's tasks, or to run one of them."""

import gc
import os
from typing import Any

from . import leaving, loading

__all__ = ["serve"]


def serve(control: int, supervisor: int) -> None:
    """Import quickie, wait for a request line on `control`, do what it asks; end of file means that nothing is."""
    gc.disable()  # there is nothing to collect while modules are imported
    loading.warm_up()
    leaving.keep()
    gc.enable()
    request = _read(control)
    if request is None:
        os._exit(0)
    os.environ.update(request["environ"])
    if request["do"] == "describe":
        from . import describing

        os.close(control)
        _write(request["result"], describing.describe(request))
        os._exit(0)  # neither threads nor exit handlers of the project's module matter any more
    from . import running

    running.run(request, control, supervisor)


def _read(control: int) -> "dict[str, Any] | None":
    import json

    data = bytearray()
    while not data.endswith(b"\n"):
        part = os.read(control, 1 << 16)
        if not part:
            return None
        data += part
    request: dict[str, Any] = json.loads(data)
    return request


def _write(path: str, result: "dict[str, Any]") -> None:
    """Write to a path, not to a descriptor: a module may have closed every one of them."""
    import json

    part = path + ".part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(part, path)
