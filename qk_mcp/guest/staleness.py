"""Detects that a warm guest is out of date: a Python started now would import something else."""

import os
import stat
import sys
from importlib.machinery import all_suffixes
from typing import Any

__all__ = ["is_outdated", "remember_files"]

_RESOLUTION = 100_000_000
"""Nanoseconds by which a file's ctime may lag behind the clock."""
_CUSTOMIZERS = ("sitecustomize", "usercustomize")

_remembered: "dict[str, tuple[int, ...] | None]" = {}


def remember_files() -> None:
    """Record the files and directories that this Python has read, and those that it would have read.

    Called before and after the import of quickie: of two states, the first counts.
    """
    for path, state in _states().items():
        _remembered.setdefault(path, state)


def is_outdated(started: int) -> bool:
    """Return whether one of them has changed, appeared or disappeared since; `started` is in nanoseconds."""
    now = _states()
    # A file that changed while Python started may have been read before.
    if any(state is not None and state[-1] > started - _RESOLUTION for state in now.values()):
        return True
    return any(now.get(path) != state for path, state in _remembered.items())


def _states() -> "dict[str, tuple[int, ...] | None]":
    site: Any = sys.modules.get("site")
    site_directories = [] if site is None else [*site.getsitepackages(), site.USER_SITE]
    paths = [os.path.join(sys.prefix, "pyvenv.cfg"), *site_directories, *sys.path]
    paths += [getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())]
    for directory in sys.path:
        for name in _CUSTOMIZERS:
            base = os.path.join(directory, name)
            paths += [base, os.path.join(base, "__init__.py"), *(base + suffix for suffix in all_suffixes())]
        if os.path.basename(directory) in ("site-packages", "dist-packages"):
            try:
                paths += [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".pth")]
            except OSError:
                continue  # not a directory; its own state is recorded
    return {path: _state(path) for path in paths if isinstance(path, str)}


def _state(path: str) -> "tuple[int, ...] | None":
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode):  # its times change with every unrelated file in it
        return status.st_dev, status.st_ino, 0
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
