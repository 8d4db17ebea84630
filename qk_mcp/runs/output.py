"""Turns the bytes of a stream into text for an agent: decoded, cleaned, bounded.

As on a terminal, the text has no escape sequences, and only the last state of a line that is redrawn. If readable
text does not fit, a file has the complete output, byte for byte.
"""

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from qk_mcp.runs.output_files import OutputFile
from qk_mcp.text import ESCAPES

__all__ = ["MAX_OUTPUT", "Capture", "Captured", "redraw"]

MAX_OUTPUT = 30_000
"""Characters of a stream that an answer holds by default."""
_LINE_LIMIT = 1 << 14
"""Characters of an unfinished line that is still redrawn from its beginning."""
_ESCAPE_LIMIT = 4096
_SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_REDRAWS = re.compile(r"[\r\b]")
_CUT_ESCAPE = re.compile(r"(?:\x1b(?:[\]PX^_][^\x07\x1b\x9c]*\x1b?|\[[0-?]*[ -/]*|[ -/]*)|\x9b[0-?]*[ -/]*|\r)\Z")
"""The beginning of an escape sequence or line end whose rest has not arrived yet."""
_INNER_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Captured:
    """A stream in an answer."""

    text: str
    """The cleaned text: at most `limit` characters, and one line that says how much was left out."""
    characters: int
    """Characters of the complete cleaned text."""
    size: int
    """Bytes that the task wrote."""
    complete: bool
    """Whether `text` is complete, apart from colours."""
    file: Path | None
    """The file with the complete output if `complete` is false; None if it could not be written."""
    file_error: str = ""
    """Why the file is missing or incomplete."""


class Capture:
    """Takes the bytes of one stream as they come. Keeps at most `limit` characters and one line in memory."""

    def __init__(self, limit: int, directory: Path, name: str) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        self.open_line = ""
        """The unfinished last line."""
        self._redrawn = False
        self._head_limit = limit // 2  # so that the tail is never empty: text[-0:] is the whole text
        self._tail_limit = limit - self._head_limit
        self._head = ""
        self._tail = ""
        self._characters = 0
        self._file = OutputFile(directory, name)

    def feed(self, data: bytes) -> str:
        """Append `data`. Returns the text of the lines that are now complete."""
        self._file.write(data)
        return self._commit(self._clean(self._decode(data)))

    def finish(self, *, keep: bool = True) -> tuple[str, Captured]:
        """End the stream. Returns the rest of its text, and the whole stream. Without `keep` its file is removed."""
        text = self._clean(self._decode(b"", final=True))
        held, self._held = self._held, ""
        text += self._redraw(self.open_line + _INNER_CONTROLS.sub("", held))
        self.open_line = ""
        rest = self._commit(text)
        self._tail = self._tail[-self._tail_limit :]
        left_out = self._characters - len(self._head) - len(self._tail)
        complete = not (left_out or self._redrawn)
        file, error = self._file.close(keep=keep and not complete)
        text = self._head + self._tail
        if left_out:
            text = self._join(left_out, file, error)
        return rest, Captured(text, self._characters, self._file.size, complete, file, error)

    def _clean(self, text: str) -> str:
        """Return the lines that `text` completes; the rest becomes `open_line`."""
        if self._held:
            text, self._held = self._held + text, ""
        if _SPECIAL.search(text):
            cut = _CUT_ESCAPE.search(text, max(0, len(text) - _ESCAPE_LIMIT))
            if cut:
                text, self._held = text[: cut.start()], text[cut.start() :]
            text = _INNER_CONTROLS.sub("", ESCAPES.sub("", text.replace("\r\n", "\n")))
        line_end = text.rfind("\n") + 1
        if not line_end:
            self.open_line += text
            lines = ""
        else:
            lines, self.open_line = self.open_line + text[:line_end], text[line_end:]
            if _REDRAWS.search(lines):
                lines = "".join(self._redraw(line) + "\n" for line in lines[:-1].split("\n"))
        if len(self.open_line) > _LINE_LIMIT:
            self.open_line = self._redraw(self.open_line)
            if len(self.open_line) > _LINE_LIMIT:
                lines, self.open_line = lines + self.open_line, ""
        return lines

    def _redraw(self, line: str) -> str:
        shown = redraw(line)
        self._redrawn = self._redrawn or shown is not line
        return shown

    def _commit(self, text: str) -> str:
        self._characters += len(text)
        rest = text
        if len(self._head) < self._head_limit:
            room = self._head_limit - len(self._head)
            self._head += text[:room]
            rest = text[room:]
        self._tail += rest
        if len(self._tail) > 2 * self._tail_limit:
            self._tail = self._tail[-self._tail_limit :]
        return text

    def _join(self, left_out: int, file: Path | None, error: str) -> str:
        head, tail = self._head, self._tail
        end = head.rfind("\n", len(head) * 3 // 4) + 1  # whole lines, unless lines are long
        start = tail.find("\n", 0, len(tail) // 4) + 1
        if end:
            left_out += len(head) - end
            head = head[:end]
        left_out += start
        where = f"; complete in {file}" if file else ""
        if error:
            where = f"; {'the first part in ' + str(file) if file else 'not kept'}: {error}"
        gap = "" if not head or head.endswith("\n") else "\n"
        return f"{head}{gap}[… {left_out:,} characters left out here{where} …]\n{tail[start:]}"


def redraw(line: str) -> str:
    """Return the last state of a line with carriage returns and backspaces, roughly as a terminal shows it."""
    if not _REDRAWS.search(line):
        return line
    line = next((part for part in reversed(line.split("\r")) if part), "")
    shown: list[str] = []
    for character in line:
        if character != "\b":
            shown.append(character)
        elif shown:
            shown.pop()
    return "".join(shown)
