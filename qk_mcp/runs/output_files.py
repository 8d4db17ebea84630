"""Keeps every byte of a stream: in memory while they are few, then in a private file."""

import os
import re
import secrets
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["FILES_LIMIT", "FILE_AGE", "FILE_LIMIT", "Spool", "file_name", "outputs_directory", "prune"]

FILE_LIMIT = 1 << 30
"""Bytes of one stream that are kept in a file."""
FILES_LIMIT = 4 << 30
"""Bytes that all kept files may take together; the oldest go first."""
FILE_AGE = 7 * 24 * 3600
"""Seconds that a file is kept."""

_NAME = re.compile(r"\d{8}-\d{6}-.+-[0-9a-f]{8}\.(stdout|stderr)")
"""What `file_name` returns: nothing else is ever removed."""
_MEMORY = 1 << 16
"""Bytes that are held before the file is opened, and between writes to it."""


class Spool:
    """All bytes of one stream; `size` counts them."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._memory = bytearray()
        self._path: Path | None = None
        self._descriptor: int | None = None
        self._written = 0
        self._error = ""
        self.size = 0

    def write(self, data: bytes) -> None:
        """Take `data`; a full disk is told by `close`."""
        self.size += len(data)
        self._memory += data
        if len(self._memory) > _MEMORY:
            self._flush()

    def close(self, *, keep: bool) -> tuple[Path | None, str]:
        """End, and keep the file or remove it; return where it lies, and why it is missing or not complete."""
        if keep:
            self._flush()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if self._path is not None and (not keep or not self._written):
            self._path.unlink(missing_ok=True)
            self._path = None
        if keep:
            prune(self._directory, spare=self._path)
        return (self._path, self._error) if keep else (None, "")

    def _flush(self) -> None:
        data, self._memory = self._memory, bytearray()
        if self._written + len(data) > FILE_LIMIT and not self._error:
            del data[FILE_LIMIT - self._written :]
            self._write(data)
            self._error = self._error or f"only the first {FILE_LIMIT:,} bytes were kept"
        elif not self._error:
            self._write(data)

    def _write(self, data: bytearray) -> None:
        try:
            if self._descriptor is None:
                self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._path = self._directory / self._name
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            while data:
                count = os.write(self._descriptor, data)
                self._written += count
                del data[:count]
        except OSError as error:
            self._error = error.strerror or str(error)


def outputs_directory() -> Path:
    """Where complete outputs are kept: in the user's state directory; without a home, in a temporary one."""
    from platformdirs import user_state_path

    try:
        state = user_state_path("qk-mcp")
    except RuntimeError:  # platformdirs finds no home
        state = _temporary()
    return state / "outputs"


def _temporary() -> Path:
    """Return a private directory where everybody may make some: not one that somebody else has made for us."""
    path = Path(tempfile.gettempdir(), f"qk-mcp-{os.getuid()}")
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return path
    return Path(tempfile.gettempdir(), f"qk-mcp-{os.getuid()}-{secrets.token_hex(8)}")


def file_name(task: str, stream: str) -> str:
    """A fresh file name that tells the time, the task and the stream."""
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", task)[:40].strip("-.") or "task"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{safe}-{secrets.token_hex(4)}.{stream}"


def prune(directory: Path, *, spare: Path | None = None) -> None:
    """Remove kept outputs that are older than `FILE_AGE`, and the oldest while all are larger than `FILES_LIMIT`."""
    now = time.time()
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in filter(lambda entry: _NAME.fullmatch(entry.name), entries):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, Path(entry.path)))
    except OSError:
        return  # nothing is kept yet
    total = sum(size for _, size, _ in found)
    for modified, size, path in sorted(found):
        if path == spare or (now - modified < FILE_AGE and total <= FILES_LIMIT):
            continue
        try:
            path.unlink()
        except OSError:
            continue  # another server was quicker
        total -= size
