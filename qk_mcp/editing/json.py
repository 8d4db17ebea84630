"""Edits one key, or one item of a list, of a JSON text in place: every other byte stays, comments included.

The text may have comments and trailing commas (JSONC). A new key is written in
the style of its surroundings. The result is accepted only if it parses to exactly
the expected data, in the expected order.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qk_mcp.editing.files import CannotEdit

__all__ = ["add_item", "drop_item", "drop_key", "read_jsonc", "set_key"]

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
class _Text:
    """A JSONC text, and the same text as plain JSON in which every character has kept its place."""

    full: str
    plain: str
    trailing: frozenset[int]
    """The places of trailing commas, which `plain` does not have."""

    def data(self) -> dict[str, Any]:
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
        place = _skip(self.plain, position)
        if self.plain[place] == ",":
            return place
        return next((comma for comma in range(position, place) if comma in self.trailing), None)


@dataclass(frozen=True, slots=True)
class _Member:
    """A key with its value, and their places in the text."""

    key: str
    start: int
    value: int
    end: int


def read_jsonc(text: str) -> Any:
    """Return the data of JSON that may have comments and trailing commas. Raises ValueError."""
    return json.loads(_parse(text.removeprefix("\ufeff")).plain)


def set_key(text: str, keys: Sequence[str], value: Any) -> str:
    """Return `text` with the value at `keys` set; missing objects are added. Raises CannotEdit."""
    source = _parse(text if text.strip() else "{}\n")
    expected = inner = source.data()
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise CannotEdit(f"its {key!r} is not an object")
    inner[keys[-1]] = json.loads(json.dumps(value), parse_float=str, parse_constant=str)
    start = _skip(source.plain, 0)
    for depth, key in enumerate(keys):
        members = _members(source.plain, start)
        found = _last(members, key)
        if found is None:
            for outer in reversed(keys[depth + 1 :]):
                value = {outer: value}
            return _accept(_insert(source, start, members, key, value), expected)
        start, end = found.value, found.end
    rendered = _render(source.plain, value, _indent(source.plain, start))
    return _accept(source.full[:start] + rendered + source.full[end:], expected)


def drop_key(text: str, keys: Sequence[str]) -> str:
    """Return `text` without the key at `keys`, which must exist. Raises CannotEdit."""
    source = _parse(text)
    expected = inner = source.data()
    start = _skip(source.plain, 0)
    for key in keys[:-1]:
        inner = inner[key]
        start = _last(_members(source.plain, start), key).value  # type: ignore[union-attr]
    del inner[keys[-1]]
    members = _members(source.plain, start)
    index = max(index for index, member in enumerate(members) if member.key == keys[-1])
    return _accept(_without(source, [(member.start, member.end) for member in members], index), expected)


def add_item(text: str, keys: Sequence[str], item: str) -> str:
    """Return `text` with `item` at the end of the list of strings at `keys`, which is added. Raises CannotEdit."""
    source = _parse(text if text.strip() else "{}\n")
    expected = source.data()
    items, start = _list_at(source, expected, keys)
    if not items:
        return set_key(text, keys, [item])
    items.append(item)
    spans = _items(source.plain, start)
    end, comma = spans[-1][1], source.comma_after(spans[-1][1])
    place = end if comma is None else comma + 1
    rendered = json.dumps(item, ensure_ascii=False)
    if "\n" in source.plain[start : spans[0][0]]:
        place = _line_end(text, place)
        rendered = _newline(source.plain) + _indent(source.plain, spans[-1][0]) + rendered
    else:
        rendered = f" {rendered}"
    if comma is None:
        return _accept(text[:end] + "," + text[end:place] + rendered + text[place:], expected)
    return _accept(text[:place] + rendered + "," + text[place:], expected)


def drop_item(text: str, keys: Sequence[str], item: str) -> str:
    """Return `text` without `item` in the list at `keys`, which must have it. Raises CannotEdit."""
    source = _parse(text)
    expected = source.data()
    items, start = _list_at(source, expected, keys)
    index = items.index(item)
    del items[index]
    return _accept(_without(source, _items(source.plain, start), index), expected)


def _list_at(source: _Text, data: dict[str, Any], keys: Sequence[str]) -> tuple[list[Any], int]:
    """Return the list at `keys` of `data`, and its place in the text; an empty list if there is none."""
    inner: Any = data
    start = _skip(source.plain, 0)
    for key in keys:
        if not isinstance(inner, dict):
            raise CannotEdit(f"the parent of its {key!r} is not an object")
        member = _last(_members(source.plain, start), key)
        if member is None:
            return [], start
        inner, start = inner[key], member.value
    if not isinstance(inner, list):
        raise CannotEdit(f"its {keys[-1]!r} is not a list")
    if not inner and source.full[start + 1 : source.plain.index("]", start)].strip():
        raise CannotEdit(f"its {keys[-1]!r} has comments alone")
    return inner, start


def _items(plain: str, start: int) -> list[tuple[int, int]]:
    """Return the places of the items of the list at `start` of a valid JSON text."""
    spans = []
    position = _skip(plain, start + 1)
    while plain[position] != "]":
        _, end = _DECODER.raw_decode(plain, position)
        spans.append((position, end))
        position = _skip(plain, end)
        if plain[position] == ",":
            position = _skip(plain, position + 1)
    return spans


def _without(source: _Text, spans: Sequence[tuple[int, int]], index: int) -> str:
    """Return the text without one member of an object or one item of a list; `spans` are the places of all."""
    text = source.full
    first, comma = spans[index][0], source.comma_after(spans[index][1])
    last = spans[index][1] if comma is None else comma + 1
    if index + 1 < len(spans):
        last = _skip(text, last)  # up to the next one, or the comment before it
    else:
        first = len(text[:first].rstrip(" \t\r\n"))
        if not index:
            last = _skip(text, last) if text[first - 1] in "{[" else last
        elif comma is None:  # the one before must lose its comma
            before = source.comma_after(spans[index - 1][1]) or 0
            return text[:before] + text[before + 1 : first] + text[last:]
    return text[:first] + text[last:]


def _parse(text: str) -> _Text:
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
    return _Text(text, "".join([*pieces, text[done:]]), frozenset(trailing))


def _accept(text: str, expected: dict[str, Any]) -> str:
    if json.dumps(_parse(text).data()) != json.dumps(expected):
        raise CannotEdit("it has a key twice")
    return text


def _members(plain: str, start: int) -> list[_Member]:
    """Return the members of the object at `start` of a valid JSON text."""
    members = []
    position = _skip(plain, start + 1)
    while plain[position] != "}":
        key, end = _DECODER.raw_decode(plain, position)
        value = _skip(plain, _skip(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, value)
        members.append(_Member(key, position, value, end))
        position = _skip(plain, end)
        if plain[position] == ",":
            position = _skip(plain, position + 1)
    return members


def _last(members: list[_Member], key: str) -> _Member | None:
    return next((member for member in reversed(members) if member.key == key), None)


def _insert(source: _Text, start: int, members: list[_Member], key: str, value: Any) -> str:
    """Return the text with a new last member in the object at `start`."""
    text, plain = source.full, source.plain
    name = json.dumps(key, ensure_ascii=False)
    newline = _newline(plain)
    if not members:
        base = _indent(plain, start)
        inside = base + _unit(plain)
        rendered = f"{name}: {_render(plain, value, inside)}"
        end = plain.index("}", start)
        kept = text[start + 1 : end].rstrip()  # comments
        if kept or not _is_flat(plain):
            rendered = f"{kept}{newline}{inside}{rendered}{newline}{base}"
        return text[: start + 1] + rendered + text[end:]
    last = members[-1]
    comma = source.comma_after(last.end)
    if "\n" in plain[start : members[0].start]:
        place = _line_end(text, last.end if comma is None else comma + 1)
        indent = _indent(plain, last.start)
        rendered = f"{newline}{indent}{name}: {_render(plain, value, indent)}"
    else:
        place = last.end if comma is None else comma + 1
        rendered = f" {name}: {json.dumps(value, ensure_ascii=False)}"
    if comma is None:
        return text[: last.end] + "," + text[last.end : place] + rendered + text[place:]
    return text[:place] + rendered + "," + text[place:]


def _line_end(text: str, position: int) -> int:
    """Return where the comments end that begin on the line of `position`, or `position` itself without any."""
    end = position
    while (token := _TOKEN.match(text, _SPACES.match(text, end).end())) and token.lastgroup == "comment":  # type: ignore[union-attr]
        end = token.end() - token[0].endswith("\r")  # the line end is not part of the comment
    return end


def _render(plain: str, value: Any, indent: str) -> str:
    if _is_flat(plain):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=_unit(plain)).replace("\n", _newline(plain) + indent)


def _is_flat(plain: str) -> bool:
    """Say whether the whole text is on one line; an empty object does not count."""
    return "\n" not in plain.strip() and bool(_members(plain, _skip(plain, 0)))


def _unit(plain: str) -> str:
    """Return the text's unit of indentation."""
    outer = _members(plain, _skip(plain, 0))
    return (_indent(plain, outer[0].start) if outer else "") or "  "


def _indent(plain: str, position: int) -> str:
    """Return the white space at the beginning of the line of `position`."""
    line = plain[plain.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _newline(plain: str) -> str:
    return "\r\n" if "\r\n" in plain else "\n"


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
