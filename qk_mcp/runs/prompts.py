"""Recognizes a task that waits for a person: it printed a prompt or opened a full-screen program, then fell silent."""

import re

from qk_mcp.runs.output import Captured

__all__ = ["missing_terminal"]

_SILENCE = 1.0
"""Seconds without output after which a task may be waiting."""
_LENGTH = 200
"""Characters of the end of a prompt."""
_PROMPT = re.compile(r"[?:>]\Z|[\[(][A-Za-z][^\[\]()]{0,30}[\])]\Z")
"""The end of a prompt: `Name:`, `Continue?`, `>>>`, `[y/N]`, `(Pdb)`; not that of a progress bar."""


def missing_terminal(stdout: Captured, stderr: Captured, stopped: float) -> str:
    """Return what a task did before it waited for a person, or an empty string. `stopped` is a monotonic time."""
    if stopped - max(stdout.silent_since, stderr.silent_since) < _SILENCE:
        return ""
    if stdout.full_screen or stderr.full_screen:
        return "opened a full-screen program (an editor or pager)"
    for stream in (stdout, stderr):
        prompt = stream.open_line[-_LENGTH:].strip()
        if _PROMPT.search(prompt):
            return f"asked {prompt!r}"
    return ""
