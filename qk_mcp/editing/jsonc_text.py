"""The places of the parts of a JSON text that may have comments and trailing commas (JSONC)."""

import json
import re
from dataclasses import dataclass
from typing import Any

from qk_mcp.editing.files import CannotEdit

__all__ = [
    "JsoncText",
    "Member",
    "comments_end",
    "find_items",
    "find_members",
    "last_member",
    "parse_jsonc",
    "read_jsonc",
    "skip_blank",
]

_BLANK = re.compile(r"[ \t\r\n]*")
_SPACES = re.compile(r"[ \t]*")
_VISIBLE = re.compile(r"[^\r\n]")
_DECODER = json.JSONDecoder()
_TOKEN = re.compile(
    r"""
    (?P<string> "(?:[^"\\]++|\\.?)*+"? )       # one without an end takes the rest: that keeps the search linear
  | (?P<comment> //[^\n]* | /\*(?:[^*]++|\*(?!/))*+(?:\*/)? )
  | (?P<mark> [\[\]{}:,] )
  | (?P<bare> [^\s"/\[\]{}:,]++ )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class JsoncText:
    """A JSONC text, and the same text as plain JSON in which every character has kept its place."""

    full: str
    plain: str
    trailing: frozenset[int]
    """The places of trailing commas, which `plain` does not have."""

    def data(self) -> dict[str, Any]:
        """Return the object that the text stands for; its fractions are texts. Raises CannotEdit."""
        try:
            # Numbers as text, since NaN would not equal itself.
            data = json.loads(self.plain, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            raise CannotEdit("it is not JSON") from None
        if not isinstance(data, dict):
            raise CannotEdit("it is not an object")
        return data

    def comma_after(self, position: int) -> int | None:
        """Return the place of the comma after a value that ends at `position`, a trailing one included."""
        place = skip_blank(self.plain, position)
        if self.plain[place] == ",":
            return place
        return next((comma for comma in range(position, place) if comma in self.trailing), None)


@dataclass(frozen=True, slots=True)
class Member:
    """A key with its value, and their places in the text."""

    key: str
    start: int
    value: int
    end: int


def read_jsonc(text: str) -> Any:
    """Return the data of JSON that may have comments and trailing commas. Raises ValueError."""
    return json.loads(parse_jsonc(text.removeprefix("\ufeff")).plain)


def parse_jsonc(text: str) -> JsoncText:
    """Blank the comments and trailing commas of a text, which need not be valid."""
    blanks: list[tuple[int, int]] = []
    trailing: list[int] = []
    comma, last, before = 0, "", ""  # the last two tokens, each by its first character
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        if token.lastgroup == "comment":
            if token[0].startswith("//") or (len(token[0]) > 3 and token[0].endswith("*/")):
                blanks.append((start, end))
            continue
        if text[start] in "]}" and last == "," and before not in ("", "[", "{", ":", ","):
            trailing.append(comma)
        if text[start] == ",":
            comma = start
        before, last = last, text[start]
    blanks += [(comma, comma + 1) for comma in trailing]
    pieces: list[str] = []
    done = 0
    for start, end in sorted(blanks):
        pieces += [text[done:start], _VISIBLE.sub(" ", text[start:end])]
        done = end
    return JsoncText(text, "".join([*pieces, text[done:]]), frozenset(trailing))


def find_members(plain: str, start: int) -> list[Member]:
    """Return the members of the object at `start` of a valid JSON text."""
    members = []
    position = skip_blank(plain, start + 1)
    while plain[position] != "}":
        key, end = _DECODER.raw_decode(plain, position)
        value = skip_blank(plain, skip_blank(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        members.append(Member(key, position, value, end))
        position = skip_blank(plain, end)
        if plain[position] == ",":
            position = skip_blank(plain, position + 1)
    return members


def last_member(members: list[Member], key: str) -> Member | None:
    """Return the member with a key, or None. Of several, the last is the one that counts."""
    return next((member for member in reversed(members) if member.key == key), None)


def find_items(plain: str, start: int) -> list[tuple[int, int]]:
    """Return the places of the items of the list at `start` of a valid JSON text."""
    spans = []
    position = skip_blank(plain, start + 1)
    while plain[position] != "]":
        _, end = _DECODER.raw_decode(plain, position)
        spans.append((position, end))
        position = skip_blank(plain, end)
        if plain[position] == ",":
            position = skip_blank(plain, position + 1)
    return spans


def comments_end(text: str, position: int) -> int:
    """Return where the comments end that begin on the line of `position`, or `position` itself without any."""
    end = position
    while (token := _TOKEN.match(text, _SPACES.match(text, end).end())) and token.lastgroup == "comment":  # type: ignore[union-attr]
        end = token.end() - token[0].endswith("\r")  # the line end is not part of the comment
    return end


def skip_blank(text: str, position: int) -> int:
    """Return the first place from `position` on that is no white space."""
    match = _BLANK.match(text, position)
    return match.end() if match else position
