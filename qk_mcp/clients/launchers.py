"""The commands with which a client can start the server.

`this` starts this very installation, from any directory and with any PATH. The
others name no path, so that a file with them can be shared: `uvx` needs only uv,
and installs qk-mcp with quickie where the server starts; `python` takes the first
Python on PATH, in which qk-mcp must be installed.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

__all__ = ["Launcher", "cache_of", "default_launcher", "is_under_uvx", "launch_words"]

Launcher = Literal["this", "uvx", "python"]

# -P: modules in the directory where the client starts it must not replace ours.
# -E: PYTHONHOME or PYTHONPATH of an application that starts the client must not break it; tasks still see them.
_SERVE = ["-E", "-P", "-m", "qk_mcp", "serve"]

# Without --python, uv fails if the first Python that it finds is too old. The module, not the script `qk-mcp`:
# quickie has a script of that name too, and uv starts the one that it installed last.
_UVX = ["--python", ">=3.12", "--from", "qk-mcp[quickie]", "python"]


def launch_words(launcher: Launcher, *, shared: bool) -> list[str]:
    """Return the words that start the server; `shared` ones name no path of this machine."""
    match launcher:
        case "this":
            return [sys.executable, *_SERVE]
        case "python":
            return ["python", *_SERVE]
        case "uvx":  # a graphical client may have a PATH without it
            return [("uvx" if shared else shutil.which("uvx")) or "uvx", *_UVX, *_SERVE]


def default_launcher(environ: Mapping[str, str], *, shared: bool) -> Launcher:
    """Return the launcher for who names none: `uvx` for a shared file, and if uvx runs this program."""
    return "uvx" if shared or is_under_uvx(environ) else "this"


def is_under_uvx(environ: Mapping[str, str]) -> bool:
    """Return whether uvx runs this program, from an environment in its cache."""
    return "UV" in environ and cache_of(Path(sys.prefix)) is not None


def cache_of(prefix: Path) -> Path | None:
    """Return the cache that a directory is in, if any; what is there may be deleted at any time."""
    marked = (each for each in prefix.parents if each.name == ".cache" or os.path.exists(each / "CACHEDIR.TAG"))
    return next(marked, None)
