"""Runs of projects on other machines: `qk-mcp` over there shows and stops them."""

import subprocess
from collections.abc import Sequence

from qk_mcp.cli.options import registry_of
from qk_mcp.errors import QkMcpError, RunOnOtherMachine
from qk_mcp.runs.record import RunRecord

__all__ = ["run_there"]


def run_there(record: RunRecord, words: Sequence[str]) -> int:
    """Run `qk-mcp runs WORDS... RUN` where the run of `record` is, with the streams of this process.

    Returns its exit code. Raises RunOnOtherMachine if the way to it is not known.
    """
    if not record.there:
        raise RunOnOtherMachine(record.run, record.root)
    try:
        project = registry_of(None, None).find(record.project)
    except QkMcpError:
        project = None
    if project is None or project.remote is None or not record.root.startswith(f"{project.remote.place}:"):
        raise RunOnOtherMachine(record.run, record.root, record.there)
    try:
        return subprocess.run(project.remote.argv(["runs", *words, record.there])).returncode
    except OSError:
        raise RunOnOtherMachine(record.run, record.root, record.there) from None
