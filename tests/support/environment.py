"""Environments for the programs under test: nothing of the developer's own, and nothing that hides a fault."""

import os
import shlex
import sys
from pathlib import Path

__all__ = ["BARE_PATH", "MARK", "PROGRAM", "QK_MCP", "scrubbed"]

BARE_PATH = "/usr/local/bin:/usr/bin:/bin"
"""What a graphical client hands to the servers it starts: no `qk`, no virtual environment."""

MARK = "TESTS_SERVER"
"""The variable whose value is unique to one server, so that what it left running can be found."""

QK_MCP = [sys.executable, "-m", "qk_mcp"]
"""The command line under test."""

PROGRAM = shlex.join(QK_MCP)
"""The same for a shell: in a clean environment no `qk-mcp` is on PATH."""

_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "USER", "LOGNAME", "SHELL", "TERM", "TZ")


def scrubbed(home: Path, **extra: str) -> dict[str, str]:
    """Return an environment whose every directory lies in `home`, which is made; `extra` is added to it.

    Left out on purpose: PYTHONUNBUFFERED (it would hide output that is held back), PYTHONDONTWRITEBYTECODE,
    VIRTUAL_ENV and QK_* (they would choose the interpreter), and everything else of the person who runs the tests.
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
