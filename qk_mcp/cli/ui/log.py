"""Where the log goes: to stderr in the program's voice, and to a file."""

import logging
import os
import select
import sys
from pathlib import Path

from qk_mcp.cli.ui.messages import label
from qk_mcp.errors import LogUnusable
from qk_mcp.projects.project import current_directory, expand
from qk_mcp.text import printable

__all__ = ["configure"]

_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def configure(verbose: int, quiet: int, log_file: Path | None) -> None:
    """Send the log to stderr, from warnings on or as `-v` and `-q` say, and all of it to `log_file`.

    The file is appended to, and private when it is made. From then on logging never fails. Raises LogUnusable.
    """
    logging.raiseExceptions = False  # a closed stderr or a full disk is no reason to fail what is logged
    level = _LEVELS[max(0, min(2 + verbose - quiet, len(_LEVELS) - 1))]
    stderr = _StderrHandler()
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


class _StderrHandler(logging.Handler):
    """Writes to stderr as far as somebody reads it: a client that does not must not hold up what is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            data = f"{self.format(record)}\n".encode(errors="backslashreplace")
            descriptor = sys.stderr.fileno()
            while data and select.select([], [descriptor], [], 0)[1]:
                data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
        except Exception:
            self.handleError(record)


class _StderrFormatter(logging.Formatter):
    """Writes a record in the voice of `tell`; the traceback of an exception only when all is asked for."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{label(record.levelname.lower())}: {printable(record.getMessage())}"
        if record.exc_info and logging.getLogger("qk_mcp").isEnabledFor(logging.DEBUG):
            text += "\n" + printable(self.formatException(record.exc_info))
        return text


class _FileFormatter(logging.Formatter):
    """Indents what follows the first line, so that no message can pass for two records."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", "\n    ")
