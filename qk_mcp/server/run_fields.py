"""What the record and the log have of a run that has ended."""

import logging
from typing import Any

from qk_mcp.errors import QkMcpError, RunLost, RunStopped, RunTimedOut
from qk_mcp.runs.control import Control
from qk_mcp.runs.record import RunRecord
from qk_mcp.runs.run import Run
from qk_mcp.text import one_line

__all__ = ["BY_CLIENT", "ending_fields", "failure_fields", "log_end", "output_fields"]

log = logging.getLogger(__name__)

BY_CLIENT = "the client has cancelled the call"
"""What `RunStopped` says about a run whose call was cancelled."""
_LOGGED = 100
"""Characters of a task's name in the log."""


def ending_fields(run: Run) -> dict[str, Any]:
    """Return the fields of a record that the end of a task sets."""
    return {"state": "ended", "exit_code": run.exit_code}


def output_fields(control: Control) -> dict[str, Any]:
    """Return the fields of a record about the output of a run that has ended."""
    files = {stream: capture.file for stream, capture in control.captures.items()}
    return {
        "bytes": {stream: file.size for stream, file in files.items()},
        "files": {stream: str(file.path) for stream, file in files.items() if file.path.exists()},
    }


def failure_fields(failure: QkMcpError) -> dict[str, Any]:
    """Return the fields of a record that a failure sets."""
    match failure:
        case RunTimedOut():
            return {"state": "timed_out"}
        case RunLost():
            return {"state": "lost"}
        case RunStopped(by=by):
            return {"state": "cancelled" if by == BY_CLIENT else "stopped"}
    return {"state": "ended", "error": failure.what}


def log_end(record: RunRecord) -> None:
    """Log how a run ended, without its arguments."""
    line = "run project=%s task=%s state=%s exit=%s seconds=%.3f"
    state = "refused" if record.error else record.state
    exit_code = "-" if record.exit_code is None else record.exit_code
    log.info(line, record.project, one_line(record.task, _LOGGED), state, exit_code, record.seconds)
