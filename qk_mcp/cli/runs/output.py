"""Prints the complete output of a run, also while it grows."""

import codecs
import re
import sys
import time
from pathlib import Path
from typing import BinaryIO

from qk_mcp.cli.runs.select import find_run, recorded_runs
from qk_mcp.cli.runs.table import summarize_run
from qk_mcp.cli.ui.messages import note
from qk_mcp.runs.record import RunRecord
from qk_mcp.text import ESCAPES

__all__ = ["print_output"]

_PAUSE = 0.1
"""Seconds between two looks at the files."""
_CHUNK = 1 << 16
_UNWANTED = re.compile(rf"(\x1b\[[\d;:]*m) | {ESCAPES.pattern} | [\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]", re.VERBOSE)
"""Escape sequences and control characters; the first group has those that only set colours."""
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)\Z")
"""The beginning of an escape sequence whose end has not arrived."""
_RESET = b"\x1b[0m"


def print_output(record: RunRecord, *, follow: bool) -> None:
    """Print what a run wrote to stdout and stderr, to the same streams of this process, and on stderr how it ended.

    A terminal gets no escape sequences but colours; a pipe or a file gets every byte. With `follow`, waits for the
    end of a running task.
    """
    copies = [_Copy(record, "stdout", sys.stdout.buffer), _Copy(record, "stderr", sys.stderr.buffer)]
    following = follow and record.state == "running"
    while following:
        record = find_run(recorded_runs(), record.run)
        following = record.state == "running"  # what it wrote before its end is read below
        for copy in copies:
            copy.advance()
        if following:
            time.sleep(_PAUSE)
    for copy in copies:
        copy.advance()
        copy.finish()
    for missing in _missing(record, copies):
        note(missing)
    note(f"{record.run}: {summarize_run(record)}")


class _Copy:
    """Copies the file of a stream to a stream of this process, as far as it has been written."""

    def __init__(self, record: RunRecord, name: str, target: BinaryIO) -> None:
        self.name = name
        self.copied = 0
        self._path = Path(record.files[name]) if name in record.files else None
        self._file: BinaryIO | None = None
        self._target = target
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if target.isatty() else None
        self._held = ""

    def advance(self) -> None:
        """Copy what has been written since the last time."""
        if self._file is None and self._path is not None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return  # it has not been written yet, or was removed
        while self._file is not None and (data := self._file.read(_CHUNK)):
            self.copied += len(data)
            self._write(data)
        self._target.flush()

    def finish(self) -> None:
        """Write what was held back, and end colours."""
        if self._file is not None:
            self._file.close()
        if self._decoder is not None and self.copied:
            self._write(b"", final=True)
            self._target.write(_RESET)
            self._target.flush()

    def _write(self, data: bytes, *, final: bool = False) -> None:
        if self._decoder is not None:
            text = self._held + self._decoder.decode(data, final)
            self._held = ""
            if not final and (unfinished := _UNFINISHED.search(text)):
                text, self._held = text[: unfinished.start()], unfinished[0]
            data = _UNWANTED.sub(r"\1", text).encode(errors="replace")
        self._target.write(data)


def _missing(record: RunRecord, copies: list[_Copy]) -> list[str]:
    """Return what is missing of the output: files may have been removed, or could not be written."""
    if not record.files and not record.bytes:
        return ["no output was kept here"]
    lines = []
    for copy in copies:
        size = record.bytes.get(copy.name, 0)
        if copy.copied < size:
            what = f"only {copy.copied:,} of its {size:,} bytes" if copy.copied else f"none of its {size:,} bytes"
            lines.append(f"{copy.name}: {what} were kept")
    return lines
