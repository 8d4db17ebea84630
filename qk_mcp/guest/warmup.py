"""Makes a guest ready for whatever it will be asked: imports quickie, and nothing of the project."""

import os
import re
import sys
import time

__all__ = ["OldPython", "OldQuickie", "check", "is_outdated", "warm_up"]

_OLDEST_PYTHON = (3, 12)
_OLDEST_QUICKIE = (0, 6)
_GRAIN = 100_000_000
"""Nanoseconds by which the time of a change may lag behind the clock, with those that Python took to start."""

began = 0
"""When `warm_up` began, in nanoseconds: what changed later may have been read before."""

_unusable: "BaseException | None" = None


class OldPython(Exception):
    """This interpreter is older than quickie needs."""


class OldQuickie(Exception):
    """This interpreter's quickie is older than 0.6, the first that can be asked for tasks in this way."""


def warm_up() -> None:
    """Import quickie, and nothing of the project; a failure is kept for `check` to raise."""
    global _unusable, began
    began = time.time_ns()
    # quickie takes its program name from here, once, when it is imported.
    sys.argv[:] = [os.path.join(os.path.dirname(sys.executable), "qk")]
    # Set where the server was itself started by `qk`: a nested `qk` would not look for its own project.
    os.environ.pop("QK_LAUNCHER_RUNNING", None)
    try:
        _import_quickie()
    except BaseException as failure:
        _unusable = failure


def _import_quickie() -> None:
    if sys.version_info < _OLDEST_PYTHON:
        raise OldPython(".".join(map(str, sys.version_info[:3])))
    from quickie._meta import __version__

    version = re.match(r"(\d+)\.(\d+)", __version__)
    if version and (int(version[1]), int(version[2])) < _OLDEST_QUICKIE:
        raise OldQuickie(__version__)
    import quickie.config
    import quickie.factories
    import quickie.tasks  # noqa: F401
    from quickie.utils import argparser

    # Each argument gets a default completer, for which argcomplete is imported (8 ms); nothing is completed here.
    argparser._get_default_completer = lambda _: None


def check() -> None:
    """Raise what `warm_up` failed with, OldPython and OldQuickie among it."""
    if _unusable is not None:
        raise _unusable


def is_outdated() -> bool:
    """Say whether a Python that is started now would import something else: one may have waited for long."""
    files = [getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())]
    files += [os.path.join(sys.prefix, "pyvenv.cfg")]
    for path in sys.path:
        files += [os.path.join(path, name) for name in ("sitecustomize.py", "usercustomize.py")]
        if os.path.basename(path) in ("site-packages", "dist-packages"):
            try:
                files += [os.path.join(path, name) for name in os.listdir(path) if name.endswith(".pth")]
            except OSError:
                continue
    for file in files:
        try:
            if isinstance(file, str) and os.stat(file).st_ctime_ns > began - _GRAIN:
                return True
        except (OSError, ValueError):
            continue  # never there, or gone, which an import would not notice either
    return False
