"""The record of all runs: one line of JSON when a run begins and one when it ends, in a private file.

Each line is a complete `RunRecord`, so the last line of a run is its state. Any number of servers append to the file at
the same time. Whoever replaces the file (see `append_run`) holds an exclusive lock while it does so.
"""

import fcntl
import json
import logging
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from qk_mcp.editing.files import read_regular
from qk_mcp.host.identity import ProcessIdentity, identify_process
from qk_mcp.text import shorten

__all__ = [
    "Recorder",
    "RunRecord",
    "RunState",
    "Runs",
    "append_run",
    "new_run_id",
    "parse_runs",
    "read_runs",
    "record_beside",
    "record_line",
]

log = logging.getLogger(__name__)

type RunState = Literal["running", "ended", "stopped", "timed_out", "cancelled", "lost"]

_STATES = get_args(RunState.__value__)
_LINE_LIMIT = 8192
"""Bytes of a line. Longer arguments are cut."""
_ARG_LENGTH = 200
"""Characters of an argument in a line that would be too long."""
_TEXT_LENGTH = 300
"""Characters of a name or an error."""
_LOCK_LIMIT = 0.2
"""Seconds to wait for a lock on the record: the event loop waits, too."""
_LATEST = 1e11
"""Seconds since 1970, about the year 5000: more cannot be shown as a date."""
_START = b'{"run": "'
"""The beginning of each line. Inside a line, JSON escapes its quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is known about a run. Without an end it has the state `running`."""

    run: str
    """The run's id."""
    time: float
    """When it began, in seconds since 1970."""
    project: str
    root: str
    task: str
    args: Sequence[str] | None
    """None if the project's `log_args` is false."""
    client: str
    """The name of the MCP client."""
    server: ProcessIdentity
    principal: str = ""
    """Who started it over HTTP; empty for a client on stdio."""
    there: str = ""
    """Its id on the other machine, if its project is on one and the run has outlived its call."""
    supervisor: ProcessIdentity | None = None
    """The process that `qk-mcp runs stop` signals."""
    state: RunState = "running"
    exit_code: int | None = None
    """Negative for a signal. None unless the task has ended by itself."""
    seconds: float | None = None
    bytes: Mapping[str, int] = field(default_factory=dict)
    """The bytes of each stream."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The path of the complete output of each stream that is kept."""
    error: str = ""
    """Why the task did not begin or did not end by itself."""

    @property
    def succeeded(self) -> bool:
        """Whether the task has ended by itself with exit code 0."""
        return self.state == "ended" and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Runs:
    """The recorded runs, oldest first, and the number of lines that are no records."""

    records: Sequence[RunRecord]
    unreadable: int


class Recorder:
    """Appends the runs of this process to the record. A failure is logged once and never fails the run."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.server = identify_process(os.getpid()) or ProcessIdentity(os.getpid(), "")
        self._warned = False

    def write(self, record: RunRecord) -> None:
        """Append the present state of a run."""
        try:
            append_run(self.file, record)
        except OSError as error:
            if not self._warned:
                self._warned = True
                log.warning("cannot record runs in %s: %s", self.file, error.strerror or error)


def record_beside(outputs: Path) -> Path:
    """Return the file of the record, which is next to the directory of complete outputs."""
    return outputs.with_name("runs.jsonl")


def new_run_id() -> str:
    """Return the id of a new run. It begins with a letter, so that nobody takes it for a number."""
    return f"r{secrets.token_hex(5)}"


def append_run(file: Path, record: RunRecord) -> None:
    """Append the line of a run, in one write. Raises OSError.

    The shared lock keeps the file from being replaced between opening and writing.
    """
    line = record_line(record)
    while True:
        descriptor = _open(file)
        try:
            _lock_shared(descriptor)
            if not _is_file(descriptor, file):
                continue  # it was replaced while this process waited
            if os.write(descriptor, line) < len(line):
                raise OSError("the disk is full")
            return
        finally:
            os.close(descriptor)


def _lock_shared(descriptor: int) -> None:
    """Lock the record against its replacement, which takes less than a millisecond. Raises OSError."""
    deadline = time.monotonic() + _LOCK_LIMIT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError("another process has locked it") from None
            time.sleep(0.001)
        except OSError:  # some network file systems have no locks
            return
        else:
            return


def _open(file: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO must not block
    try:
        return os.open(file, flags, 0o600)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(file, flags, 0o600)


def _is_file(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def record_line(record: RunRecord) -> bytes:
    """Return the line of a run, with long texts and arguments cut."""
    texts = {name: shorten(getattr(record, name), _TEXT_LENGTH) for name in ("project", "task", "client", "error")}
    record = replace(record, **texts)  # type: ignore[arg-type]
    line = _line(record)
    if len(line) > _LINE_LIMIT and record.args:
        line = _line(replace(record, args=_cut_args(record.args, _LINE_LIMIT - len(_line(replace(record, args=()))))))
    return line


def _cut_args(args: Sequence[str], room: int) -> list[str]:
    """Return shortened arguments that have at most `room` bytes of JSON, and the number of the others."""
    kept: list[str] = []
    room -= 40  # for the number of the others
    for arg in args:
        short = shorten(arg, _ARG_LENGTH)
        room -= len(json.dumps(short)) + 2
        if room < 0:
            return [*kept, f"(and {len(args) - len(kept)} more)"]
        kept.append(short)
    return kept


def _line(record: RunRecord) -> bytes:
    return json.dumps(asdict(record)).encode() + b"\n"  # ASCII; lone surrogates are escaped


def read_runs(file: Path) -> Runs:
    """Return all recorded runs; those whose server is gone are `lost`. A missing file has none. Raises OSError."""
    try:
        data = read_regular(file)
    except FileNotFoundError:
        return Runs([], 0)
    runs = parse_runs(data)
    alive: dict[ProcessIdentity, bool] = {}
    for record in runs.records:
        if record.state == "running" and record.server not in alive:
            alive[record.server] = record.server.is_running()
    lost = [
        replace(record, state="lost") if record.state == "running" and not alive[record.server] else record
        for record in runs.records
    ]
    return Runs(lost, runs.unreadable)


def parse_runs(data: bytes) -> Runs:
    """Return the last state of each run in lines of the record. What is no record is counted and skipped."""
    records: dict[str, RunRecord] = {}
    unreadable = 0
    for line in data.splitlines():
        # A torn line has no end, so that the next one follows it immediately.
        torn, start, rest = line.rpartition(_START)
        unreadable += bool(torn)
        try:
            record = _decode(json.loads(start + rest))
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
            unreadable += 1
        else:
            records[record.run] = record
    return Runs(list(records.values()), unreadable)


def _decode(fields: dict[str, Any]) -> RunRecord:
    supervisor = fields["supervisor"]
    began, seconds = float(fields["time"]), float(fields["seconds"] or 0)
    if fields["state"] not in _STATES or not (0 <= began < _LATEST and 0 <= seconds < _LATEST):
        raise ValueError
    return RunRecord(
        run=str(fields["run"]),
        time=began,
        project=str(fields["project"]),
        root=str(fields["root"]),
        task=str(fields["task"]),
        args=None if fields["args"] is None else [str(arg) for arg in fields["args"]],
        client=str(fields["client"]),
        server=_identity(fields["server"]),
        principal=str(fields.get("principal", "")),
        there=str(fields.get("there", "")),
        supervisor=None if supervisor is None else _identity(supervisor),
        state=fields["state"],
        exit_code=None if fields["exit_code"] is None else int(fields["exit_code"]),
        seconds=None if fields["seconds"] is None else seconds,
        bytes={str(name): int(count) for name, count in fields["bytes"].items()},
        files={str(name): str(path) for name, path in fields["files"].items()},
        error=str(fields["error"]),
    )


def _identity(pair: Sequence[Any]) -> ProcessIdentity:
    pid, started = pair
    return ProcessIdentity(int(pid), str(started))
