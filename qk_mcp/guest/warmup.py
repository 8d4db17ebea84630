"""Prepares a guest before its request arrives: imports quickie, and nothing of the project."""

import os
import re
import sys
import time

__all__ = ["OldPython", "OldQuickie", "import_quickie", "require_quickie"]

_OLDEST_PYTHON = (3, 12)
_OLDEST_QUICKIE = (0, 6)

began = time.time_ns()
"""When this module was imported, in nanoseconds since the epoch; files changed later may have been read before."""

_unusable: "BaseException | None" = None


class OldPython(Exception):
    """This Python is older than 3.12, which quickie needs."""


class OldQuickie(Exception):
    """This quickie is older than 0.6, the first with the API that this package uses."""


def import_quickie() -> None:
    """Import quickie, and nothing of the project; `require_quickie` raises the error if this fails."""
    global _unusable
    # quickie reads its program name from here when it is imported.
    sys.argv[:] = [os.path.join(os.path.dirname(sys.executable), "qk")]
    # Set if the server was itself started by `qk`; with it, a nested `qk` would not look for its own project.
    os.environ.pop("QK_LAUNCHER_RUNNING", None)
    try:
        _import()
    except BaseException as failure:
        _unusable = failure


def _import() -> None:
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

    # quickie imports argcomplete (8 ms) for the default completer of each argument; nothing is completed here.
    argparser._get_default_completer = lambda _: None


def require_quickie() -> None:
    """Raise the error of `import_quickie`, if any: OldPython, OldQuickie or what the import raised."""
    if _unusable is not None:
        raise _unusable
