"""Clean environments for the programs under test."""

import os
import shlex
import sys
from pathlib import Path

__all__ = ["BARE_PATH", "MARK", "PROGRAM", "QK_MCP", "scrubbed"]

BARE_PATH = "/usr/local/bin:/usr/bin:/bin"
"""The PATH that graphical clients give to servers: without `qk` or a virtual environment."""

MARK = "TESTS_SERVER"
"""A variable whose value is unique to one server, to find the processes that it leaves."""

QK_MCP = [sys.executable, "-m", "qk_mcp"]
"""The command line under test."""

PROGRAM = shlex.join(QK_MCP)
"""The same for a shell: there is no `qk-mcp` on a clean PATH."""

_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "USER", "LOGNAME", "SHELL", "TERM", "TZ")


def scrubbed(home: Path, **extra: str) -> dict[str, str]:
    """Return an environment whose directories are in `home`, which is created; `extra` is added to it.

    It has no variables of the person who runs the tests, such as PYTHONUNBUFFERED, which would hide output that is
    held back, or VIRTUAL_ENV and QK_*, which would choose the interpreter.
    """
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environ |= {"PATH": BARE_PATH, "HOME": str(home)}
    for name, part in {
        "XDG_CONFIG_HOME": ".config",
        "XDG_DATA_HOME": ".local/share",
        "XDG_STATE_HOME": ".local/state",
        "XDG_CACHE_HOME": ".cache",
        "XDG_RUNTIME_DIR": ".run",
    }.items():
        directory = home / part
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        environ[name] = str(directory)
    return environ | extra
