"""Turns the bytes of a stream into text for an agent: decoded, cleaned, and bounded in memory.

As on a terminal, the text has no escape sequences, and only the last state of a line that is redrawn.
"""

import codecs
import re
import time
from dataclasses import dataclass
from pathlib import Path

from qk_mcp.runs.output_files import OutputFile
from qk_mcp.runs.terminal import CONTROLS_IN_LINES, REDRAWS, SPECIAL, redraw, split_cut_escape
from qk_mcp.text import ESCAPES

__all__ = ["Capture", "Captured"]

_LINE_LIMIT = 1 << 14
"""Characters of an unfinished line that is still redrawn from its beginning."""
_SCREEN = re.compile(r"\x1b\[\?(?:1049|1047|47)([hl])")
"""Enters (h) or leaves (l) the alternate screen of xterm, as full-screen programs do."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A stream that has ended: the beginning and the end of its text, and its sizes."""

    head: str
    tail: str
    """The text after `head`, or as much of its end as was kept."""
    characters: int
    """Characters of the complete text."""
    file: OutputFile

    @property
    def whole(self) -> str | None:
        """The complete text, unless it was too long to keep."""
        text = self.head + self.tail
        return text if len(text) == self.characters else None

    @property
    def end(self) -> str:
        """The complete text, or its end."""
        whole = self.whole
        return self.tail if whole is None else whole


class Capture:
    """Takes the bytes of one stream as they come. Keeps at most about `limit` characters and one line in memory."""

    def __init__(self, limit: int, file: Path) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        self.open_line = ""
        """The unfinished last line."""
        self._head_limit = limit // 2  # so that the tail is never empty: text[-0:] is the whole text
        self._tail_limit = limit - self._head_limit
        self._head = ""
        self._tail = ""
        self._characters = 0
        self.full_screen = False
        """Whether a full-screen program shows."""
        self.fed_at = time.monotonic()
        """The monotonic time of the last output, or of the start."""
        self.file = OutputFile(file)

    def feed(self, data: bytes) -> str:
        """Append `data`. Returns the text of the lines that are now complete."""
        self.fed_at = time.monotonic()
        self.file.write(data)
        return self._commit(self._clean(self._decode(data)))

    @property
    def recent(self) -> str:
        """The end of the text so far, with the unfinished line."""
        return (self._head + self._tail)[-self._tail_limit :] + redraw(self.open_line)

    def finish(self) -> tuple[str, Captured]:
        """End the stream. Returns the rest of its text, and the stream, whose file the caller keeps or discards."""
        text = self._clean(self._decode(b"", final=True))
        held, self._held = self._held, ""
        text += redraw(self.open_line + CONTROLS_IN_LINES.sub("", held))
        self.open_line = ""
        rest = self._commit(text)
        self._tail = self._tail[-self._tail_limit :]
        return rest, Captured(self._head, self._tail, self._characters, self.file)

    def _clean(self, text: str) -> str:
        """Return the lines that `text` completes; the rest becomes `open_line`."""
        if self._held:
            text, self._held = self._held + text, ""
        if SPECIAL.search(text):
            text, self._held = split_cut_escape(text)
            for screen in _SCREEN.finditer(text):
                self.full_screen = screen[1] == "h"
            text = CONTROLS_IN_LINES.sub("", ESCAPES.sub("", text.replace("\r\n", "\n")))
        line_end = text.rfind("\n") + 1
        if not line_end:
            self.open_line += text
            lines = ""
        else:
            lines, self.open_line = self.open_line + text[:line_end], text[line_end:]
            if REDRAWS.search(lines):
                lines = "".join(redraw(line) + "\n" for line in lines[:-1].split("\n"))
        if len(self.open_line) > _LINE_LIMIT:
            self.open_line = redraw(self.open_line)
            if len(self.open_line) > _LINE_LIMIT:
                lines, self.open_line = lines + self.open_line, ""
        return lines

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
