"""Messages on stderr: failures, warnings and notes, coloured on a terminal."""

import os
import sys
from contextlib import suppress
from typing import TextIO

from qk_mcp.errors import QkMcpError
from qk_mcp.text import printable

__all__ = ["label", "note", "paint", "print_failure", "warn"]

_COLOURS = {"critical": "1;31", "error": "1;31", "warning": "1;33", "info": "1;36", "debug": "2", "hint": "1;36"}


def print_failure(failure: QkMcpError, *, as_json: bool = False) -> None:
    """Write what failed, why, and what to do next: to stderr, or as a JSON object to stdout."""
    if as_json:
        import json

        report = {"error": failure.what, "why": failure.why, "hint": failure.hint, "details": failure.details}
        with suppress(OSError, ValueError):  # closed: nobody reads it
            print(json.dumps({key: printable(text) for key, text in report.items() if text}, indent=2), flush=True)
        return
    lines = [f"{label('error')}: {printable(failure.what)}"]
    lines += [f"  {line}" for line in printable(failure.why).splitlines()]
    if failure.hint:
        lines.append(f"{label('hint')}: {printable(failure.hint)}")
    if failure.details:
        lines.append(printable(failure.details))
    _write("\n".join(lines))


def warn(text: str) -> None:
    """Write a warning to stderr."""
    first, *more = printable(text).splitlines() or [""]
    _write("\n  ".join([f"{label('warning')}: {first}", *more]))


def note(text: str) -> None:
    """Write to stderr what has been done."""
    _write(printable(text))


def paint(text: str, colour: str, stream: TextIO | None) -> str:
    """Return `text` in a colour (the parameters of an SGR sequence) if `stream` is a terminal with colours.

    A non-empty NO_COLOR turns colours off (no-color.org).
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or stream is None or not stream.isatty()
    return text if plain else f"\033[{colour}m{text}\033[0m"


def label(kind: str) -> str:
    """Return the first word of a message, in its colour on stderr."""
    return paint(kind, _COLOURS.get(kind, "1"), sys.stderr)


def _write(text: str) -> None:
    if sys.stderr is not None:  # otherwise print would use stdout
        with suppress(OSError, ValueError):  # closed: nobody reads it
            print(text, file=sys.stderr, flush=True)
