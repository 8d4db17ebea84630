"""What the program says on stderr, in one voice, and where its log goes."""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from qk_mcp.errors import LogUnusable, QkMcpError
from qk_mcp.project import current_directory, expand
from qk_mcp.text import printable

__all__ = ["configure", "note", "paint", "tell", "warn"]

_COLOURS = {"critical": "1;31", "error": "1;31", "warning": "1;33", "info": "1;36", "debug": "2", "hint": "1;36"}
_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def tell(failure: QkMcpError) -> None:
    """Write to stderr what failed, why, and what to do about it."""
    lines = [f"{_label('error')}: {printable(failure.what)}"]
    lines += [f"  {line}" for line in printable(failure.why).splitlines()]
    if failure.hint:
        lines.append(f"{_label('hint')}: {printable(failure.hint)}")
    if failure.details:
        lines.append(printable(failure.details))
    _write("\n".join(lines))


def warn(text: str) -> None:
    """Write a warning to stderr."""
    _write(f"{_label('warning')}: {printable(text)}")


def note(text: str) -> None:
    """Write to stderr what was done."""
    _write(printable(text))


def paint(text: str, colour: str, stream: TextIO | None) -> str:
    """Return `text` in a colour (the parameters of an SGR sequence) if `stream` is a terminal that wants any.

    NO_COLOR, if it is not empty, turns colours off (no-color.org).
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or stream is None or not stream.isatty()
    return text if plain else f"\033[{colour}m{text}\033[0m"


def configure(verbose: int, quiet: int, log_file: Path | None) -> None:
    """Send the log to stderr, from warnings on or as `-v` and `-q` say, and all of it to `log_file`.

    The file is appended to, and private when it is made. From then on logging never fails. Raises LogUnusable.
    """
    logging.raiseExceptions = False  # a closed stderr or a full disk is no reason to fail what is logged
    level = _LEVELS[max(0, min(2 + verbose - quiet, len(_LEVELS) - 1))]
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setLevel(level)
    stderr.setFormatter(_StderrFormatter())
    logging.basicConfig(handlers=[stderr], force=True)  # on the root: what libraries warn of is heard, too
    log = logging.getLogger("qk_mcp")
    log.setLevel(level)
    if log_file is not None:
        log.setLevel(logging.DEBUG)
        log.addHandler(_file_handler(expand(str(log_file), current_directory(), os.environ)))


def _file_handler(path: Path) -> logging.Handler:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stream = os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError) as error:
        raise LogUnusable(path, f"{getattr(error, 'strerror', None) or error}.") from None
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_FileFormatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    return handler


class _StderrFormatter(logging.Formatter):
    """Writes a record in the voice of `tell`; the traceback of an exception only when all is asked for."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{_label(record.levelname.lower())}: {printable(record.getMessage())}"
        if record.exc_info and logging.getLogger("qk_mcp").isEnabledFor(logging.DEBUG):
            text += "\n" + printable(self.formatException(record.exc_info))
        return text


class _FileFormatter(logging.Formatter):
    """Indents what follows the first line, so that no message can pass for two records."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", "\n    ")


def _label(kind: str) -> str:
    return paint(kind, _COLOURS.get(kind, "1"), sys.stderr)


def _write(text: str) -> None:
    if sys.stderr is not None:  # print would take stdout instead
        with suppress(OSError, ValueError):  # closed: there is nobody to tell
            print(text, file=sys.stderr, flush=True)
