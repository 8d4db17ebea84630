"""Edits one key of a JSON text in place: all that is not the key's stays byte for byte.

A new key is written in the style of its surroundings. The outcome is accepted
only if it parses to exactly the expected data, in the expected order.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["CannotEdit", "drop", "put", "read_lenient"]

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_EXTRAS = re.compile(
    r"""
    ("(?:\\.|[^"\\])*")                                    # a text, which is kept
  | //[^\n]* | /\*.*?\*/                                   # comments
  | ,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])                   # a comma behind the last item
    """,
    re.VERBOSE | re.DOTALL,
)


class CannotEdit(Exception):
    """The text is not plain JSON, or is written in a way that only a person should edit."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A key with its value, and where they stand in the text."""

    key: str
    start: int
    value: int
    end: int


def put(text: str, keys: Sequence[str], value: Any) -> str:
    """Return `text` with the value at `keys` set; objects on the way are made. Raises CannotEdit."""
    text = text if text.strip() else "{}\n"
    expected = inner = _load(text)
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise CannotEdit(f"its {key!r} is not an object")
    inner[keys[-1]] = value
    start = _skip(text, 0)
    for depth, key in enumerate(keys):
        members = _members(text, start)
        found = _last(members, key)
        if found is None:
            for outer in reversed(keys[depth + 1 :]):
                value = {outer: value}
            return _accept(_insert(text, start, members, key, value), expected)
        start, end = found.value, found.end
    rendered = _render(text, value, _indent(text, start))
    return _accept(text[:start] + rendered + text[end:], expected)


def drop(text: str, keys: Sequence[str]) -> str:
    """Return `text` without the key at `keys`, which must be there. Raises CannotEdit."""
    expected = inner = _load(text)
    start = _skip(text, 0)
    for key in keys[:-1]:
        inner = inner[key]
        start = _last(_members(text, start), key).value  # type: ignore[union-attr]
    del inner[keys[-1]]
    members = _members(text, start)
    index = max(index for index, member in enumerate(members) if member.key == keys[-1])
    if index + 1 < len(members):
        first, last = members[index].start, members[index + 1].start
    elif index:
        first, last = members[index - 1].end, members[index].end
    else:
        first, last = start + 1, _skip(text, members[index].end)
    return _accept(text[:first] + text[last:], expected)


def read_lenient(text: str) -> Any:
    """Return the data of JSON that may hold comments and commas behind the last item. Raises ValueError."""
    return json.loads(_EXTRAS.sub(lambda match: match[1] or "", text.removeprefix("\ufeff")))


def _load(text: str) -> dict[str, Any]:
    try:
        # Numbers as text, since NaN would not equal itself.
        data = json.loads(text, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        raise CannotEdit("it is not plain JSON") from None
    if not isinstance(data, dict):
        raise CannotEdit("it is not an object")
    return data


def _accept(text: str, expected: dict[str, Any]) -> str:
    if json.dumps(_load(text)) != json.dumps(expected):
        raise CannotEdit("it has a key twice")
    return text


def _members(text: str, start: int) -> list[_Member]:
    """Return what the object at `start` of a valid JSON text holds."""
    members = []
    position = _skip(text, start + 1)
    while text[position] != "}":
        key, end = _DECODER.raw_decode(text, position)
        value = _skip(text, _skip(text, end) + 1)
        _, end = _DECODER.raw_decode(text, value)
        members.append(_Member(key, position, value, end))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return members


def _last(members: list[_Member], key: str) -> _Member | None:
    return next((member for member in reversed(members) if member.key == key), None)


def _insert(text: str, start: int, members: list[_Member], key: str, value: Any) -> str:
    """Return `text` with a new last member in the object at `start`."""
    name = json.dumps(key, ensure_ascii=False)
    if not members:
        base = _indent(text, start)
        inside = base + _unit(text)
        rendered = f"{name}: {_render(text, value, inside)}"
        if not _is_flat(text):
            newline = _newline(text)
            rendered = f"{newline}{inside}{rendered}{newline}{base}"
        return text[: start + 1] + rendered + text[text.index("}", start) :]
    last = members[-1]
    if "\n" in text[start : members[0].start]:
        indent = _indent(text, last.start)
        rendered = f",{_newline(text)}{indent}{name}: {_render(text, value, indent)}"
    else:
        rendered = f", {name}: {json.dumps(value, ensure_ascii=False)}"
    return text[: last.end] + rendered + text[last.end :]


def _render(text: str, value: Any, indent: str) -> str:
    if _is_flat(text):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=_unit(text)).replace("\n", _newline(text) + indent)


def _is_flat(text: str) -> bool:
    """Say whether the whole text is written on one line; an empty object is no example of it."""
    return "\n" not in text.strip() and bool(_members(text, _skip(text, 0)))


def _unit(text: str) -> str:
    """Return by how much the text indents."""
    outer = _members(text, _skip(text, 0))
    return (_indent(text, outer[0].start) if outer else "") or "  "


def _indent(text: str, position: int) -> str:
    """Return the white space that the line of a position begins with."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
