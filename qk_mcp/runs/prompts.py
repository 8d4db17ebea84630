"""Recognizes a task that waits for a person: it printed a prompt or opened a full-screen program, then fell silent."""

import re
import time
from collections.abc import Collection

from qk_mcp.runs.output import Capture
from qk_mcp.runs.terminal import redraw
from qk_mcp.text import printable

__all__ = ["missing_terminal", "unanswered_prompt"]

_SILENCE = 1.0
"""Seconds without output after which a task may be waiting."""
_LENGTH = 200
"""Characters of the end of a prompt."""
_PROMPT = re.compile(r"[?:>]\Z|[\[(][A-Za-z][^\[\]()]{0,30}[\])]\Z")
"""The end of a prompt: `Name:`, `Continue?`, `>>>`, `[y/N]`, `(Pdb)`; not that of a progress bar."""
_END_OF_INPUT = b"EOFError: EOF when reading a line"


def unanswered_prompt(stdout: bytes, stderr: bytes) -> str:
    """Return how a task that had no input and has ended asked for some, or an empty string.

    The end of a stream is a prompt, or the error that Python's `input` raises.
    """
    for data in (stdout, stderr):
        text = printable(redraw(data.decode("utf-8", "replace")))
        prompt = text.rpartition("\n")[2][-_LENGTH:].strip()
        if _PROMPT.search(prompt):
            return f"asked {prompt!r}"
    return "asked for input" if stderr.rstrip().endswith(_END_OF_INPUT) else ""


def missing_terminal(streams: Collection[Capture]) -> str:
    """Return what a running task did before it began to wait for a person, or an empty string."""
    if time.monotonic() - max(stream.fed_at for stream in streams) < _SILENCE:
        return ""
    if any(stream.full_screen for stream in streams):
        return "opened a full-screen program (an editor or pager)"
    for stream in streams:
        prompt = redraw(stream.open_line)[-_LENGTH:].strip()
        if _PROMPT.search(prompt):
            return f"asked {prompt!r}"
    return ""
