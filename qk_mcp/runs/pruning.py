"""Removes old outputs and records, never those of a run that is under way in any server.

A writer holds a shared lock (`flock`) on its output file; the two files of a run are removed together, and only if
nobody holds such a lock. Only one process prunes at a time.
"""

import asyncio
import fcntl
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import anyio

from qk_mcp.editing.files import read_regular
from qk_mcp.runs.record import parse_runs, record_beside, record_line

__all__ = ["FILES_LIMIT", "KEPT_AGE", "Pruner", "prune_runs"]

log = logging.getLogger(__name__)

FILES_LIMIT = 4 << 30
"""Bytes of all kept outputs. Those of the oldest runs are removed first."""
KEPT_AGE = 7 * 24 * 3600
"""Seconds for which outputs and records are kept."""

_NAME = re.compile(r"(\d{8}-\d{6}-[\w.-]{1,40}-r[0-9a-f]{10})\.(?:stdout|stderr)", re.ASCII)
"""The names that `output_path` makes. No other file is ever removed."""
_PAUSE = 60.0
"""Seconds between two prunings, at least."""
_IDLE_PAUSE = 3600.0
"""Seconds after which a server prunes although none of its runs has ended."""


class Pruner:
    """Prunes for one server: at the start, after runs, and once in a while."""

    def __init__(self, outputs: Path) -> None:
        self._outputs = outputs
        self._wanted = asyncio.Event()

    def request(self) -> None:
        """Prune within a minute: a run has ended."""
        self._wanted.set()

    async def keep_pruning(self) -> NoReturn:
        """Prune until this is cancelled, in a thread, because a directory may have ten thousand files."""
        while True:
            self._wanted.clear()
            try:
                await anyio.to_thread.run_sync(prune_runs, self._outputs, abandon_on_cancel=True)
            except RuntimeError as error:  # no thread can be started
                log.debug("cannot prune: %s", error)
            await anyio.sleep(_PAUSE)
            with anyio.move_on_after(_IDLE_PAUSE):
                await self._wanted.wait()


@dataclass(slots=True)
class _Kept:
    """The outputs of one run."""

    files: list[Path] = field(default_factory=list)
    size: int = 0
    modified: float = 0.0


def prune_runs(outputs: Path) -> None:
    """Remove outputs and records older than `KEPT_AGE`, and the oldest outputs until `FILES_LIMIT` holds.

    Does nothing if another process prunes now. A failure is logged.
    """
    try:
        with _only_pruner(outputs.parent) as alone:
            if alone:
                _prune_outputs(outputs)
                _prune_record(record_beside(outputs), time.time() - KEPT_AGE)
    except FileNotFoundError:
        return  # nothing has been kept yet
    except OSError as error:
        log.debug("cannot prune: %s", error)


@contextmanager
def _only_pruner(directory: Path) -> Iterator[bool]:
    """Lock a directory; yields False if another process has locked it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _locks(descriptor)
    finally:
        os.close(descriptor)


def _locks(descriptor: int) -> bool:
    """Lock a file exclusively; return False if somebody else has a lock on it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        return True
    return True


def _prune_outputs(outputs: Path) -> None:
    runs: dict[str, _Kept] = {}
    with os.scandir(outputs) as entries:
        for entry in entries:
            if match := _NAME.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    kept = runs.setdefault(match[1], _Kept())
                    kept.files.append(Path(entry.path))
                    kept.size += status.st_size
                    kept.modified = max(kept.modified, status.st_mtime)
    total = sum(kept.size for kept in runs.values())
    oldest = time.time() - KEPT_AGE
    for kept in sorted(runs.values(), key=lambda kept: kept.modified):
        if kept.modified > oldest and total <= FILES_LIMIT:
            return
        if _remove_unused(kept.files):
            total -= kept.size


def _remove_unused(files: list[Path]) -> bool:
    """Remove the files of a run, unless a writer has locked one of them; return whether they were removed."""
    with ExitStack() as stack:
        for file in files:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            stack.callback(os.close, descriptor)
            if not _locks(descriptor):
                return False
        for file in files:
            file.unlink(missing_ok=True)
    return True


def _prune_record(file: Path, oldest: float) -> None:
    """Drop the runs that have ended before `oldest`, and lines that are no records.

    No line is lost that a server appends meanwhile. The new file is written first. Then the old one is locked, so that
    nobody appends to it; what was appended since is copied, and the new file replaces it. Whoever waits for the lock
    then opens the new file.
    """
    data = read_regular(file)
    data = data[: data.rfind(b"\n") + 1]
    runs = parse_runs(data)
    kept = [
        record
        for record in runs.records
        if record.time + (record.seconds or 0) > oldest or (record.state == "running" and record.server.is_running())
    ]
    if len(kept) == len(runs.records) and not runs.unreadable:
        return
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    new = file.with_name(f".{file.name}.new")  # a fixed name, so that one of a killed process does not stay
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as stream:
            stream.writelines(map(record_line, kept))
            stream.flush()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.lseek(descriptor, len(data), os.SEEK_SET)
            while appended := os.read(descriptor, 1 << 20):
                stream.write(appended)
        os.replace(new, file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
