"""The words that start this program in the user's shell, for commands that the user copies."""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from qk_mcp.clients.launchers import is_under_uvx, launch_words

__all__ = ["own_command", "read_script_head", "starts_this_program"]


def own_command() -> list[str]:
    """Return the words that start this program: `qk-mcp` if a shell finds this installation by that name."""
    if is_under_uvx(os.environ):  # whose environment is on PATH only for this process
        return launch_words("uvx", shared=True)[:-1]
    found = shutil.which("qk-mcp")
    with suppress(OSError):  # a script that cannot be read is not ours
        if found and starts_this_program(read_script_head(Path(found))):
            return ["qk-mcp"]
    if os.path.basename(sys.argv[0]) == "qk-mcp":
        return [sys.argv[0]]
    return [sys.executable, "-m", "qk_mcp"]


def read_script_head(script: Path) -> str:
    """Return the first 4,096 bytes of a console script as text. Raises OSError."""
    return script.read_bytes()[:4096].decode(errors="replace")


def starts_this_program(text: str) -> bool:
    """Return whether a console script with this beginning starts this program with this Python."""
    return "qk_mcp" in text and os.path.join(os.path.dirname(sys.executable), "") in text
