"""Makes foreign text safe to show (no escape sequences or invisible characters, bounded), and finds near names."""

import json
import re
from collections.abc import Iterable
from shlex import quote
from typing import Any

__all__ = [
    "CONTROLS",
    "ESCAPES",
    "composed",
    "encodable",
    "encoded_size",
    "nearest",
    "one_line",
    "printable",
    "shell_line",
    "shorten",
]

ESCAPES = re.compile(
    r"""
    \x1b\[[0-?]*[ -/]*[@-~]                          # CSI: colours, cursor movement
  | \x1b[\]PX^_][^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c) # OSC (titles, hyperlinks), DCS, SOS, PM, APC
  | \x1b[ -/]*[0-OQ-WYZ\\`-~]                        # two-character and charset sequences
  | \x9b[0-?]*[ -/]*[@-~]                            # CSI as one C1 character
  | [\x90\x98\x9d-\x9f][^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c) # DCS, SOS, OSC, PM and APC likewise
    """,
    re.VERBOSE,
)
"""Terminal escape sequences of ECMA-48, and xterm's.

A string (OSC, DCS and so on) ends where the next one begins. Without that, unterminated strings take quadratic time.
"""

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""C0 and C1 control characters without tab, newline and carriage return."""

_EMOJI = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_INVISIBLE = re.compile(
    # Not the joiners and variation selectors that belong to an emoji.
    f"(?!(?<=[{_EMOJI}])\ufe0f|(?<=[\ufe0f{_EMOJI}])\u200d(?=[{_EMOJI}])|\ufe0f(?=\u20e3))"
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Zero-width, bidirectional and tag characters: a person does not see them, but a model reads them."""

_SURROGATES = re.compile(r"[\ud800-\udfff]")


def printable(text: str, limit: int | None = None) -> str:
    """Return `text` without escape sequences, control and invisible characters, and lone surrogates.

    `limit` is the largest number of characters; an ellipsis marks a cut.
    """
    text = ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = CONTROLS.sub("", text)
    text = _INVISIBLE.sub("", text)
    text = encodable(text)
    return text if limit is None else shorten(text, limit)


def encodable(text: str) -> str:
    """Return `text` with U+FFFD for each lone surrogate. Paths that are not UTF-8 have them; encoders fail on them."""
    return _SURROGATES.sub("\ufffd", text)


def encoded_size(value: Any) -> int:
    """Return the bytes of `value` as JSON in UTF-8. A lone surrogate counts as the U+FFFD that is sent in its place."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def one_line(text: str, limit: int | None = None) -> str:
    """Return `printable(text)` on one line: each run of white space becomes one space."""
    text = " ".join(printable(text).split())
    return text if limit is None else shorten(text, limit)


def shorten(text: str, limit: int) -> str:
    """Return `text`, cut to `limit` characters, the last of which is then an ellipsis."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def shell_line(words: Iterable[str]) -> str:
    """Return `words` as one line for a shell (bash, zsh), with every control or invisible character escaped."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if word.isprintable() and printable(word) == word:
        return quote(word)
    escaped = "".join(
        f"\\{each}" if each in "\\'" else each if _is_visible(each) else _ESCAPED.get(each) or _code(each)
        for each in word
    )
    return f"$'{escaped}'"


def _is_visible(character: str) -> bool:
    return character.isprintable() and printable(character) == character


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


_ESCAPED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def composed(text: str) -> str:
    """Return `text` in the Unicode normal form NFC; keyboards and file systems differ in the form they write."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return normalize("NFC", text)


def nearest(word: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return the names in `known` that resemble `word`, the nearest first. Ignores case."""
    from difflib import get_close_matches

    folded: dict[str, str] = {}
    for name in known:
        folded.setdefault(composed(name).casefold(), name)
    return [folded[match] for match in get_close_matches(composed(word).casefold(), folded, limit, 0.6)]
