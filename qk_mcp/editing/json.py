"""Edits one key, or one item of a list, of a JSON text in place: every other byte stays, comments included.

The text may have comments and trailing commas (JSONC). A new key is written in
the style of its surroundings. The result is accepted only if it parses to exactly
the expected data, in the expected order.
"""

import json
from collections.abc import Sequence
from typing import Any

from qk_mcp.editing.files import CannotEdit
from qk_mcp.editing.jsonc_text import (
    JsoncText,
    Member,
    comments_end,
    find_items,
    find_members,
    last_member,
    parse_jsonc,
    skip_blank,
)

__all__ = ["add_item", "drop_item", "drop_key", "set_key"]


def set_key(text: str, keys: Sequence[str], value: Any) -> str:
    """Return `text` with the value at `keys` set; missing objects are added. Raises CannotEdit."""
    source = parse_jsonc(text if text.strip() else "{}\n")
    expected = inner = source.data()
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise CannotEdit(f"its {key!r} is not an object")
    inner[keys[-1]] = json.loads(json.dumps(value), parse_float=str, parse_constant=str)
    start = skip_blank(source.plain, 0)
    for depth, key in enumerate(keys):
        members = find_members(source.plain, start)
        found = last_member(members, key)
        if found is None:
            for outer in reversed(keys[depth + 1 :]):
                value = {outer: value}
            return _accept(_insert(source, start, members, key, value), expected)
        start, end = found.value, found.end
    rendered = _render(source.plain, value, _indent(source.plain, start))
    return _accept(source.full[:start] + rendered + source.full[end:], expected)


def drop_key(text: str, keys: Sequence[str]) -> str:
    """Return `text` without the key at `keys`, which must exist. Raises CannotEdit."""
    source = parse_jsonc(text)
    expected = inner = source.data()
    start = skip_blank(source.plain, 0)
    for key in keys[:-1]:
        inner = inner[key]
        start = last_member(find_members(source.plain, start), key).value  # type: ignore[union-attr]
    del inner[keys[-1]]
    members = find_members(source.plain, start)
    index = max(index for index, member in enumerate(members) if member.key == keys[-1])
    return _accept(_without(source, [(member.start, member.end) for member in members], index), expected)


def add_item(text: str, keys: Sequence[str], item: str) -> str:
    """Return `text` with `item` at the end of the list of strings at `keys`, which is added. Raises CannotEdit."""
    source = parse_jsonc(text if text.strip() else "{}\n")
    expected = source.data()
    items, start = _list_at(source, expected, keys)
    if not items:
        return set_key(text, keys, [item])
    items.append(item)
    spans = find_items(source.plain, start)
    end, comma = spans[-1][1], source.comma_after(spans[-1][1])
    place = end if comma is None else comma + 1
    rendered = json.dumps(item, ensure_ascii=False)
    if "\n" in source.plain[start : spans[0][0]]:
        place = comments_end(text, place)
        rendered = _newline(source.plain) + _indent(source.plain, spans[-1][0]) + rendered
    else:
        rendered = f" {rendered}"
    if comma is None:
        return _accept(text[:end] + "," + text[end:place] + rendered + text[place:], expected)
    return _accept(text[:place] + rendered + "," + text[place:], expected)


def drop_item(text: str, keys: Sequence[str], item: str) -> str:
    """Return `text` without `item` in the list at `keys`, which must have it. Raises CannotEdit."""
    source = parse_jsonc(text)
    expected = source.data()
    items, start = _list_at(source, expected, keys)
    index = items.index(item)
    del items[index]
    return _accept(_without(source, find_items(source.plain, start), index), expected)


def _list_at(source: JsoncText, data: dict[str, Any], keys: Sequence[str]) -> tuple[list[Any], int]:
    """Return the list at `keys` of `data`, and its place in the text; an empty list if there is none."""
    inner: Any = data
    start = skip_blank(source.plain, 0)
    for key in keys:
        if not isinstance(inner, dict):
            raise CannotEdit(f"the parent of its {key!r} is not an object")
        member = last_member(find_members(source.plain, start), key)
        if member is None:
            return [], start
        inner, start = inner[key], member.value
    if not isinstance(inner, list):
        raise CannotEdit(f"its {keys[-1]!r} is not a list")
    if not inner and source.full[start + 1 : source.plain.index("]", start)].strip():
        raise CannotEdit(f"its {keys[-1]!r} has comments alone")
    return inner, start


def _without(source: JsoncText, spans: Sequence[tuple[int, int]], index: int) -> str:
    """Return the text without one member of an object or one item of a list; `spans` are the places of all."""
    text = source.full
    first, comma = spans[index][0], source.comma_after(spans[index][1])
    last = spans[index][1] if comma is None else comma + 1
    if index + 1 < len(spans):
        last = skip_blank(text, last)  # up to the next one, or the comment before it
    else:
        first = len(text[:first].rstrip(" \t\r\n"))
        if not index:
            last = skip_blank(text, last) if text[first - 1] in "{[" else last
        elif comma is None:  # the one before must lose its comma
            before = source.comma_after(spans[index - 1][1]) or 0
            return text[:before] + text[before + 1 : first] + text[last:]
    return text[:first] + text[last:]


def _accept(text: str, expected: dict[str, Any]) -> str:
    if json.dumps(parse_jsonc(text).data()) != json.dumps(expected):
        raise CannotEdit("it has a key twice")
    return text


def _insert(source: JsoncText, start: int, members: list[Member], key: str, value: Any) -> str:
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
        place = comments_end(text, last.end if comma is None else comma + 1)
        indent = _indent(plain, last.start)
        rendered = f"{newline}{indent}{name}: {_render(plain, value, indent)}"
    else:
        place = last.end if comma is None else comma + 1
        rendered = f" {name}: {json.dumps(value, ensure_ascii=False)}"
    if comma is None:
        return text[: last.end] + "," + text[last.end : place] + rendered + text[place:]
    return text[:place] + rendered + "," + text[place:]


def _render(plain: str, value: Any, indent: str) -> str:
    if _is_flat(plain):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=_unit(plain)).replace("\n", _newline(plain) + indent)


def _is_flat(plain: str) -> bool:
    """Say whether the whole text is on one line; an empty object does not count."""
    return "\n" not in plain.strip() and bool(find_members(plain, skip_blank(plain, 0)))


def _unit(plain: str) -> str:
    """Return the text's unit of indentation."""
    outer = find_members(plain, skip_blank(plain, 0))
    return (_indent(plain, outer[0].start) if outer else "") or "  "


def _indent(plain: str, position: int) -> str:
    """Return the white space at the beginning of the line of `position`."""
    line = plain[plain.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _newline(plain: str) -> str:
    return "\r\n" if "\r\n" in plain else "\n"
