"""How this program is started in the user's shell: for lines that are to be copied."""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["head", "is_ours", "program"]


def program() -> list[str]:
    """Return the words before the command: `qk-mcp` only where a shell finds this installation by that name."""
    found = shutil.which("qk-mcp")
    with suppress(OSError):
        if found and is_ours(head(Path(found))):
            return ["qk-mcp"]
    if os.path.basename(sys.argv[0]) == "qk-mcp":
        return [sys.argv[0]]
    return [sys.executable, "-m", "qk_mcp"]


def head(script: Path) -> str:
    """Return the beginning of a console script. Raises OSError."""
    return script.read_bytes()[:4096].decode(errors="replace")


def is_ours(text: str) -> bool:
    """Say whether a console script that begins so starts this program with this Python."""
    return "qk_mcp" in text and os.path.join(os.path.dirname(sys.executable), "") in text
