"""Edits one entry of a TOML table in place: every other byte stays.

The text is split into statements, and the entry is written in the form that the
file already uses. The result is accepted only if it parses to exactly the
expected data. The splitter may therefore assume valid TOML and ignore its rarer
rules: a mistake is refused, never written.
"""

import tomllib
from collections.abc import Mapping
from typing import Any

from qk_mcp.editing.files import CannotEdit
from qk_mcp.editing.toml_statements import KeyPath, Statement, flatten, group_sections, has_comment, split_statements

__all__ = [
    "append_entry",
    "drop_entry",
    "drop_setting",
    "render_entry",
    "render_value",
    "set_path",
    "set_setting",
]


def render_entry(table: str, name: str, path: str) -> str:
    """Return the lines that add the entry to a file that has no such table."""
    return _dumps({table: {name: path}})


def set_path(text: str, table: str, name: str, path: str) -> str:
    """Return `text` with the path of an entry set; its other settings stay. Raises CannotEdit.

    An entry is `NAME = "PATH"`, or a table with the key `path`.
    """
    expected = _data(text)
    entries = expected.setdefault(table, {})
    nodes = split_statements(text)
    mine = [node for node in flatten(nodes) if node.path[:2] == (table, name)]
    if not mine:
        text, entries[name] = _insert(text, nodes, table, name, path)
        return _accept(text, expected, table)
    place = next((n for n in mine if n.path[2:] in ((), ("path",)) and not n.header and not n.items), None)
    if place is None:
        raise CannotEdit
    if isinstance(entries[name], dict):
        entries[name]["path"] = path
    else:
        entries[name] = path
    rendered = _dumps({"path": path}).removeprefix("path = ").rstrip("\n")
    return _accept(text[: place.value] + rendered + text[place.end :], expected, table)


def set_setting(text: str, table: str, name: str, key: str, value: Any) -> str:
    """Return `text` with one setting of an existing entry set. Raises CannotEdit.

    An entry that is only a path becomes an inline table. `value` is a boolean, a number, a text or a list of texts. A
    list with comments in it is not replaced.
    """
    expected = _data(text)
    rendered = render_value(value)
    if not isinstance(expected[table][name], dict):
        expected[table][name] = {"path": expected[table][name]}
    expected[table][name][key] = _data(f"value = {rendered}")["value"]
    nodes = split_statements(text)
    mine = [node for node in flatten(nodes) if node.path[:2] == (table, name)]
    whole = next((node for node in mine if len(node.path) == 2 and not node.header), None)
    if old := next((node for node in mine if node.path[2:] == (key,) and not node.header), None):
        if has_comment(text, old.value, old.end):
            raise CannotEdit
        text = text[: old.value] + rendered + text[old.end :]
    elif whole is None:
        text = _add_line(text, nodes, (table, name), f"{key} = {rendered}")
    elif whole.items:
        at = whole.items[-1].end
        text = f"{text[:at]}, {key} = {rendered}{text[at:]}"
    else:
        text = (
            f"{text[: whole.value]}{{ path = {text[whole.value : whole.end]}, {key} = {rendered} }}{text[whole.end :]}"
        )
    return _accept(text, expected, table)


def drop_setting(text: str, table: str, name: str, key: str) -> str:
    """Return `text` without a setting that an entry has. Raises CannotEdit."""
    expected = _data(text)
    del expected[table][name][key]
    while span := _first(text, (table, name, key)):
        text = text[: span[0]] + text[span[1] :]
    return _accept(text, expected, table)


def render_value(value: Any) -> str:
    """Return a boolean, a number, a text or a list of texts as TOML in one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(render_value, value))}]"
    return _dumps({"value": value}).removeprefix("value = ").rstrip("\n")


def append_entry(text: str, table: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return `text` with a new `[table.name]` at its end, where it affects nothing before it. Raises CannotEdit."""
    expected = _data(text)
    expected.setdefault(table, {})[name] = _data(_dumps(dict(entry)))
    newline = "\r\n" if "\r\n" in text else "\n"
    ended = text if not text or text.endswith("\n") else text + newline
    section = _dumps({table: {name: entry}}).replace("\n", newline)
    return _accept(ended + newline * bool(text.strip()) + section, expected, table)


def drop_entry(text: str, table: str, name: str) -> str:
    """Return `text` without an entry. Raises CannotEdit."""
    expected = _data(text)
    del expected[table][name]
    while span := _first(text, (table, name)):
        text = text[: span[0]] + text[span[1] :]
    return _accept(text, expected, table)


def _accept(text: str, expected: dict[str, Any], table: str) -> str:
    try:
        found = _data(text)
    except ValueError:
        raise CannotEdit from None
    found.setdefault(table, {})  # an empty table and a missing one are the same to us
    if found != expected:
        raise CannotEdit
    return text


def _data(text: str) -> dict[str, Any]:
    return tomllib.loads(text, parse_float=str)  # as text, since NaN would not equal itself


def _dumps(data: dict[str, Any]) -> str:
    import tomli_w

    return tomli_w.dumps(data)


def _insert(text: str, nodes: list[Statement], table: str, name: str, path: str) -> tuple[str, str | dict[str, str]]:
    """Return `text` with a new entry in the form that the others have, and the data of that entry."""
    entry: str | dict[str, str] = path
    pair = _dumps({name: path}).rstrip("\n")
    head, *sections = group_sections(nodes)
    head = [node for node in head if node.path[0] == table]
    sections = [section for section in sections if section[0].path[0] == table]
    if head and (inline := head[0]).path == (table,):  # projects = { … }
        at, pair = (inline.items[-1].end, f", {pair}") if inline.items else (inline.value + 1, f" {pair} ")
        return text[:at] + pair + text[at:], entry
    if section := next((section for section in sections if section[0].path == (table,)), None):  # [projects]
        last, lines = section[-1], [pair]
    elif head:  # projects.name = …
        last, lines = head[-1], [f"{table}.{pair}"]
    elif sections:  # [projects.name]
        entry = {"path": path}
        last, lines = sections[-1][-1], ["", *_dumps({table: {name: entry}}).rstrip("\n").split("\n")]
    else:
        apart = not text or text.endswith(("\n\n", "\n\r\n"))
        last, lines = None, [""] * (not apart) + render_entry(table, name, path).rstrip("\n").split("\n")
    at = _line_end(text, last.end) if last else len(text)
    indent = _indent(text, last) if last and len(lines) == 1 else ""
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    new = indent + newline.join(lines)
    ended = not at or text[at - 1] == "\n"  # a file without a final newline stays without one
    return text[:at] + (new + newline if ended else newline + new) + text[at:], entry


def _add_line(text: str, nodes: list[Statement], entry: KeyPath, pair: str) -> str:
    """Return `text` with `pair` after the last statement of the section of an entry, or after its last dotted key."""
    for header, *statements in filter(None, group_sections(nodes)):
        if header.header and header.path == entry:
            return _after(text, (header, *statements)[-1], pair)
    for section in group_sections(nodes):
        mine = [node for node in section if not node.header and node.path[:2] == entry]
        if mine:
            start = section[0].path if section[0].header else ()
            prefix = "".join(f"{_dumps({part: 0}).partition(' = ')[0]}." for part in entry[len(start) :])
            return _after(text, mine[-1], prefix + pair)
    raise CannotEdit


def _after(text: str, node: Statement, line: str) -> str:
    at, newline = _line_end(text, node.end), "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    line = _indent(text, node) + line
    return text[:at] + (line + newline if text[at - 1] == "\n" else newline + line) + text[at:]


def _first(text: str, path: KeyPath) -> tuple[int, int] | None:
    """Return the span of the first section, statement or inline item below `path`."""
    for section in filter(None, group_sections(split_statements(text))):
        if section[0].header and section[0].path[: len(path)] == path:
            return _lines(text, section[0].start, section[-1].end)
        for node in section:
            if not node.header and node.path[: len(path)] == path:
                return _lines(text, node.start, node.end)
            if span := _first_item(node.items, path):
                return span
    return None


def _first_item(items: list[Statement], path: KeyPath) -> tuple[int, int] | None:
    """Return the span of the first item below `path` in an inline table, with the comma next to it."""
    for index, item in enumerate(items):
        if item.path[: len(path)] == path:
            if index + 1 < len(items):
                return item.start, items[index + 1].start
            return (items[index - 1].end if index else item.start), item.end
        if span := _first_item(item.items, path):
            return span
    return None


def _lines(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the whole lines from `start` to `end`.

    If the last line has no newline, the newline before the first one is included instead.
    """
    start, end = text.rfind("\n", 0, start) + 1, _line_end(text, end)
    if end == len(text) and not text.endswith("\n"):
        start = len(text[:start].removesuffix("\n").removesuffix("\r"))
    return start, end


def _line_end(text: str, position: int) -> int:
    return text.find("\n", position) + 1 or len(text)


def _indent(text: str, node: Statement) -> str:
    return text[text.rfind("\n", 0, node.start) + 1 : node.start]
