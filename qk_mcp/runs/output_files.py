"""Keeps the complete output of a stream: small outputs in memory, larger ones in a private file."""

import fcntl
import os
import re
import secrets
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["FILE_LIMIT", "OutputFile", "output_path", "outputs_directory", "stream_file"]

FILE_LIMIT = 1 << 30
"""Bytes of one stream that are kept in a file."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_MEMORY = 1 << 16
"""Bytes kept in memory before the file is created, and between writes to it."""


class OutputFile:
    """The complete output of one stream. `size` counts its bytes, `newlines` its line ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        """Where the file is, once it exists."""
        self._memory = bytearray()
        self._exists = False
        self._live = False
        self._kept = False
        self._descriptor: int | None = None
        self._written = 0
        self._error = ""
        self.size = 0
        self.newlines = 0

    def write(self, data: bytes) -> None:
        """Append `data`. `keep` reports a failure, such as a full disk."""
        self.size += len(data)
        self.newlines += data.count(b"\n")
        self._memory += data
        if self._live or len(self._memory) > _MEMORY:
            self._flush()

    def write_through(self) -> None:
        """Create the file now, and write to it at once from now on, so that others can read along."""
        self._live = True
        self._flush()

    def keep(self) -> tuple[Path | None, str]:
        """Keep the file. Returns its path, and why it is missing or incomplete."""
        if not self._kept:
            self._kept = True
            self._flush()
            self._close()
            if self._exists and not self._written and not self._live:
                self._remove()
        return (self.path if self._exists else None), self._error

    def discard(self) -> None:
        """Remove the file, unless it is kept."""
        self._close()
        if self._exists and not self._kept:
            self._remove()

    @property
    def readable(self) -> Path | None:
        """The file, if it has every byte so far: it is written through or kept, and no write has failed."""
        return self.path if self._exists and not self._error and (self._live or self._kept) else None

    @property
    def error(self) -> str:
        """Why the file is missing or incomplete."""
        return self._error

    def _remove(self) -> None:
        self._exists = False
        self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

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
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                self._exists = True
                with suppress(OSError):  # some network file systems have no locks
                    fcntl.flock(self._descriptor, fcntl.LOCK_SH)  # whoever prunes leaves it alone
            while data:
                count = os.write(self._descriptor, data)
                self._written += count
                del data[:count]
        except OSError as error:
            self._error = error.strerror or str(error)


def outputs_directory() -> Path:
    """Return the directory of kept outputs: in the user's state directory, or a temporary one without a home."""
    from platformdirs import user_state_path

    try:
        state = user_state_path("qk-mcp")
    except RuntimeError:  # platformdirs finds no home
        state = _temporary()
    return state / "outputs"


def _temporary() -> Path:
    """Return a private directory in the shared temporary directory, never one that another user has created."""
    path = Path(tempfile.gettempdir(), f"qk-mcp-{os.getuid()}")
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return path
    return Path(tempfile.gettempdir(), f"qk-mcp-{os.getuid()}-{secrets.token_hex(8)}")


def output_path(outputs: Path, task: str, run: str) -> Path:
    """Return the path of a run's output, without a stream: the time, the task and the run's id."""
    safe = _UNSAFE.sub("-", task)[:40].strip("-.") or "task"
    return outputs / f"{time.strftime('%Y%m%d-%H%M%S')}-{safe}-{run}"


def stream_file(output: Path, stream: str) -> Path:
    """Return the file of one stream of a run."""
    return output.with_name(f"{output.name}.{stream}")
