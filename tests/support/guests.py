"""Starts a real guest without the server and describes a project or runs a task with it."""

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qk_mcp.tasks import catalog, listing
from qk_mcp.tasks.report import read_report
from tests.support.environment import BARE_PATH

__all__ = ["Ran", "describe", "listed", "run", "tasks_of"]

_MAIN = Path(catalog.__file__).parents[1] / "guest" / "__main__.py"


def tasks_of(root: Path) -> Path:
    """Return the path of the project's tasks module."""
    return root / "_qk" if (root / "_qk").is_dir() else root / "_qk.py"


def describe(root: Path, python: Path | str = sys.executable, **environ: str) -> dict[str, Any]:
    """Return a guest's report on the project at `root`."""
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory, "result")
        done, _, _ = _ask(
            {"do": "describe", "tasks": str(tasks_of(root)), "result": str(result)}, root, python, environ
        )
        if not result.exists():
            raise AssertionError(f"no report, exit {done.returncode}\n{done.stdout!r}\n{done.stderr!r}")
        report = read_report(result, "was stopped")
        assert report is not None
        return report


def listed(root: Path, python: Path | str = sys.executable, **environ: str) -> dict[str, dict[str, Any]]:
    """Return the project's tasks as `list_tasks` answers them, by name."""
    report = describe(root, python, **environ)
    assert "error" not in report, report["error"]
    tasks = catalog.parse_report(report, root).tasks
    return {task.name: listing.task_entry(task) for task in tasks}


@dataclass(frozen=True)
class Ran:
    """How a task ended, and the event that the guest sent before it began."""

    exit_code: int
    stdout: str
    stderr: str
    event: Mapping[str, Any]
    """Why the task could not run; empty if it did."""
    began: bool


def run(root: Path, name: str, *args: str, python: Path | str = sys.executable, **environ: str) -> Ran:
    """Run one task of the project at `root`."""
    request = {"do": "run", "tasks": str(tasks_of(root)), "task": name, "args": list(args)}
    done, answer, began = _ask(request, root, python, environ)
    event = json.loads(answer or b"{}")
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode(), event, began)


def _ask(
    request: Mapping[str, Any], root: Path, python: Path | str, environ: Mapping[str, str]
) -> tuple[subprocess.CompletedProcess[bytes], bytes, bool]:
    control, theirs = socket.socketpair()
    supervision, watched = socket.socketpair()
    with control, supervision:
        with theirs, watched:
            process = subprocess.Popen(
                [python, "-P", _MAIN, str(theirs.fileno()), str(watched.fileno()), "QK_MCP_RUN_TEST"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(), watched.fileno()),
                cwd=root,
                env={"PATH": BARE_PATH, "HOME": str(root.parent), **environ},
                start_new_session=True,
            )
        control.sendall(json.dumps({**request, "environ": {}}).encode() + b"\n")
        stdout, stderr = process.communicate(timeout=60)
        answer = b"".join(iter(lambda: control.recv(1 << 16), b""))
        lines = b"".join(iter(lambda: supervision.recv(1 << 16), b"")).decode().splitlines()
    [exited] = [line.split()[1] for line in lines if line.startswith("exit ")]
    return subprocess.CompletedProcess([], int(exited), stdout, stderr), answer, "began" in lines
