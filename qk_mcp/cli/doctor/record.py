"""The check of the record of runs: where it is, how large, and whether it can be read and written."""

import os
from pathlib import Path

from qk_mcp.cli.doctor.checks import Check
from qk_mcp.runs.output_files import outputs_directory
from qk_mcp.runs.record import read_runs, record_beside

__all__ = ["check_record"]

_UNITS = ("bytes", "kB", "MB", "GB")


def check_record() -> Check:
    """Examine the record of runs and the directory of their outputs."""
    outputs = outputs_directory()
    file = record_beside(outputs)
    try:
        runs = read_runs(file)
        size = file.stat().st_size if runs.records or runs.unreadable else 0
        outputs_size, count = _size_of(outputs)
    except OSError as error:
        remedy = "make it readable for you, or remove it"
        return Check("record", "wrong", f"cannot be read: {error.strerror}\n{error.filename or file}", remedy)
    number = len(runs.records)
    what = f"{number} run{'' if number == 1 else 's'}, {_in_units(size)}\n{file}"
    if count:
        what += f"\ntheir outputs: {_in_units(outputs_size)} in {outputs}"
    if not _is_writable(file):
        return Check("record", "wrong", f"cannot be written: runs are not recorded\n{file}", "make it writable for you")
    if runs.unreadable:
        what += f"\n{runs.unreadable} of its lines are torn or foreign"
        return Check("record", "note", what, "nothing to do: they are skipped, and removed when a server starts")
    return Check("record", "ok", what)


def _size_of(directory: Path) -> tuple[int, int]:
    """Return the bytes and the number of files in a directory."""
    try:
        with os.scandir(directory) as entries:
            sizes = [entry.stat(follow_symlinks=False).st_size for entry in entries]
    except FileNotFoundError:
        return 0, 0
    return sum(sizes), len(sizes)


def _is_writable(file: Path) -> bool:
    """Return whether the file can be written, or made."""
    existing = next(path for path in (file, *file.parents) if path.exists())
    return os.access(existing, os.W_OK)


def _in_units(size: float) -> str:
    unit = 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size /= 1000
        unit += 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size} bytes"
