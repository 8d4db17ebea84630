"""Runs a client's own command that edits its file, and says what changed."""

import os
import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from qk_mcp.cli.ui.messages import note
from qk_mcp.errors import ClientCommandFailed

__all__ = ["report_edit", "run_client_command"]

_PATIENCE = 60.0
"""The time limit of the command, in seconds."""


def run_client_command(own: str, words: Sequence[str], by_hand: str) -> None:
    """Run a client's own command. Raises ClientCommandFailed."""
    import subprocess

    command = shlex.join([Path(own).name, *words])
    try:
        process = subprocess.Popen(
            [own, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children can be killed with it
        )
    except OSError as error:
        raise ClientCommandFailed(command, "could not be started", error.strerror or "", by_hand) from None
    with process:
        try:
            output, _ = process.communicate(timeout=_PATIENCE)
        except BaseException as failure:
            with suppress(ProcessLookupError, PermissionError):  # macOS raises the second for a process that just ended
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(failure, subprocess.TimeoutExpired):
                raise
            raise ClientCommandFailed(command, f"did not end within {_PATIENCE:g} s", "", by_hand) from None
    if process.returncode:
        text = output.decode(errors="replace").strip()
        raise ClientCommandFailed(command, f"failed with exit code {process.returncode}", text, by_hand)
    note(f"ran: {command}")


def report_edit(change: str, file: Path, backup: Path | None) -> None:
    """Say that a file was changed, and where the old bytes are."""
    gone = "" if file.exists() else ", which had nothing else"
    note(f"{change} {file}{gone}" + (f" (backup: {backup})" if backup else ""))
