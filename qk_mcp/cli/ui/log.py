"""The log, without secrets: to stderr, where it looks like all messages of the program, and to a file."""

import logging
import os
import select
import sys
from pathlib import Path

from qk_mcp.cli.ui.messages import label
from qk_mcp.errors import LogUnusable
from qk_mcp.interpreters.secrets import redact_for_log
from qk_mcp.projects.project import current_directory, expand
from qk_mcp.text import printable

__all__ = ["configure_log"]

_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def configure_log(verbose: int, quiet: int, log_file: Path | None) -> None:
    """Send the log to stderr (warnings and errors, shifted by `-v` and `-q`) and completely to `log_file`.

    Appends to the file, and creates it private. Logging itself never fails afterwards. Raises LogUnusable.
    """
    logging.raiseExceptions = False  # a closed stderr or a full disk must not fail the caller
    level = _LEVELS[max(0, min(2 + verbose - quiet, len(_LEVELS) - 1))]
    stderr = _StderrHandler()
    stderr.setLevel(level)
    stderr.setFormatter(_StderrFormatter())
    logging.basicConfig(handlers=[stderr], force=True)  # on the root logger, for the warnings of libraries
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
    """Writes to stderr without waiting: a client that does not read it must not block the caller."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            data = f"{self.format(record)}\n".encode(errors="backslashreplace")
            descriptor = sys.stderr.fileno()
            while data and select.select([], [descriptor], [], 0)[1]:
                data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
        except Exception:
            self.handleError(record)


class _StderrFormatter(logging.Formatter):
    """Formats a record like the messages of `ui.messages`; a traceback appears only at level DEBUG."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{label(record.levelname.lower())}: {printable(redact_for_log(record.getMessage()))}"
        if record.exc_info and logging.getLogger("qk_mcp").isEnabledFor(logging.DEBUG):
            text += "\n" + printable(redact_for_log(self.formatException(record.exc_info)))
        return text


class _FileFormatter(logging.Formatter):
    """Indents all lines but the first, so that no message looks like two records."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(redact_for_log(super().format(record))).replace("\n", "\n    ")
