"""The text of output as a terminal shows it: without escape sequences, and only the last state of a redrawn line."""

import codecs
import re

from qk_mcp.text import ESCAPES

__all__ = ["CONTROLS_IN_LINES", "REDRAWS", "SPECIAL", "readable_line", "redraw", "split_cut_escape", "unfinished_line"]

SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Text without such characters is shown as it is."""
REDRAWS = re.compile(r"[\r\b]")
_CUT_ESCAPE = re.compile(r"(?:\x1b(?:[\]PX^_][^\x07\x1b\x9c]*\x1b?|\[[0-?]*[ -/]*|[ -/]*)|\x9b[0-?]*[ -/]*|\r)\Z")
"""The beginning of an escape sequence or line end whose rest has not arrived yet."""
CONTROLS_IN_LINES = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Control characters that are removed, unlike those that redraw a line."""
_ESCAPE_LIMIT = 4096


def redraw(line: str) -> str:
    """Return the last state of a line with carriage returns and backspaces, roughly as a terminal shows it."""
    if not REDRAWS.search(line):
        return line
    line = next((part for part in reversed(line.split("\r")) if part), "")
    shown: list[str] = []
    for character in line:
        if character != "\b":
            shown.append(character)
        elif shown:
            shown.pop()
    return "".join(shown)


def split_cut_escape(text: str) -> tuple[str, str]:
    """Return `text` without the beginning of an escape sequence or line end at its end, and that beginning."""
    cut = _CUT_ESCAPE.search(text, max(0, len(text) - _ESCAPE_LIMIT))
    return (text[: cut.start()], text[cut.start() :]) if cut else (text, "")


def readable_line(line: bytes) -> str:
    """Return the text of a line without its newline."""
    return _clean(line.decode("utf-8", "replace"))


def unfinished_line(line: bytes) -> str:
    """Return the text of a line whose rest has not arrived, so that it may end within a character or a sequence."""
    text, _ = split_cut_escape(codecs.getincrementaldecoder("utf-8")("replace").decode(line))
    return _clean(text)


def _clean(text: str) -> str:
    if not SPECIAL.search(text):
        return text
    return redraw(CONTROLS_IN_LINES.sub("", ESCAPES.sub("", text.removesuffix("\r"))))
