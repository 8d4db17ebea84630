"""Edits one entry of a TOML table in place: every other byte stays.

The text is split into statements, and the entry is written in the form that the
file already uses. The result is accepted only if it parses to exactly the
expected data. The splitter may therefore assume valid TOML and ignore its rarer
rules: a mistake is refused, never written.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qk_mcp.editing.files import CannotEdit

__all__ = [
    "append_entry",
    "drop_entry",
    "drop_setting",
    "line_numbers",
    "render_entry",
    "render_value",
    "set_path",
    "set_setting",
]

type KeyPath = tuple[str, ...]

_TOKEN = re.compile(
    r"""
    (?P<string> \"{3}(?:\\.?|[^\\])*?(?:\"{3}\"{0,2}|\Z) | '{3}.*?(?:'{3}'{0,2}|\Z)
      | "(?:\\.?|[^"\\\n])*+"? | '[^'\n]*+'? )  # an unterminated one ends with the text: that keeps the search linear
  | (?P<blank> [ \t]+ | \r?\n | \#[^\n]* )
  | (?P<mark> [\[\]{}=,] )
  | (?P<bare> [^\s"'\#\[\]{}=,]+ )
    """,
    re.VERBOSE | re.DOTALL,
)


def render_entry(table: str, name: str, path: str) -> str:
    """Return the lines that add the entry to a file that has no such table."""
    return _dumps({table: {name: path}})


def line_numbers(text: str) -> dict[KeyPath, int]:
    """Return the line, counted from 1, on which each key of a valid TOML text is first written."""
    lines: dict[KeyPath, int] = {}
    line, position = 1, 0
    for node in _flat(_scan(text)):
        line, position = line + text.count("\n", position, node.start), node.start
        for length in range(1, len(node.path) + 1):
            lines.setdefault(node.path[:length], line)
    return lines


def set_path(text: str, table: str, name: str, path: str) -> str:
    """Return `text` with the path of an entry set; its other settings stay. Raises CannotEdit.

    An entry is `NAME = "PATH"`, or a table with the key `path`.
    """
    expected = _data(text)
    entries = expected.setdefault(table, {})
    nodes = _scan(text)
    mine = [node for node in _flat(nodes) if node.path[:2] == (table, name)]
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
    nodes = _scan(text)
    mine = [node for node in _flat(nodes) if node.path[:2] == (table, name)]
    whole = next((node for node in mine if len(node.path) == 2 and not node.header), None)
    if old := next((node for node in mine if node.path[2:] == (key,) and not node.header), None):
        if any(token[0].startswith("#") for token in _TOKEN.finditer(text, old.value, old.end)):
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


def _insert(text: str, nodes: list["_Node"], table: str, name: str, path: str) -> tuple[str, str | dict[str, str]]:
    """Return `text` with a new entry in the form that the others have, and the data of that entry."""
    entry: str | dict[str, str] = path
    pair = _dumps({name: path}).rstrip("\n")
    head, *sections = _sections(nodes)
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


def _add_line(text: str, nodes: list["_Node"], entry: KeyPath, pair: str) -> str:
    """Return `text` with `pair` after the last statement of the section of an entry, or after its last dotted key."""
    for header, *statements in filter(None, _sections(nodes)):
        if header.header and header.path == entry:
            return _after(text, (header, *statements)[-1], pair)
    for section in _sections(nodes):
        mine = [node for node in section if not node.header and node.path[:2] == entry]
        if mine:
            start = section[0].path if section[0].header else ()
            prefix = "".join(f"{_dumps({part: 0}).partition(' = ')[0]}." for part in entry[len(start) :])
            return _after(text, mine[-1], prefix + pair)
    raise CannotEdit


def _after(text: str, node: "_Node", line: str) -> str:
    at, newline = _line_end(text, node.end), "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    line = _indent(text, node) + line
    return text[:at] + (line + newline if text[at - 1] == "\n" else newline + line) + text[at:]


def _first(text: str, path: KeyPath) -> tuple[int, int] | None:
    """Return the span of the first section, statement or inline item below `path`."""
    for section in filter(None, _sections(_scan(text))):
        if section[0].header and section[0].path[: len(path)] == path:
            return _lines(text, section[0].start, section[-1].end)
        for node in section:
            if not node.header and node.path[: len(path)] == path:
                return _lines(text, node.start, node.end)
            if span := _first_item(node.items, path):
                return span
    return None


def _first_item(items: list["_Node"], path: KeyPath) -> tuple[int, int] | None:
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


def _indent(text: str, node: "_Node") -> str:
    return text[text.rfind("\n", 0, node.start) + 1 : node.start]


@dataclass(frozen=True, slots=True)
class _Node:
    """A `key = value` or a header, and its place in the text."""

    path: KeyPath
    start: int
    value: int
    """Where the value starts; for a header, its end."""
    end: int
    header: bool = False
    items: list["_Node"] = field(default_factory=list)
    """The statements of an inline table."""


def _flat(nodes: list[_Node]) -> Iterator[_Node]:
    for node in nodes:
        yield node
        yield from _flat(node.items)


def _sections(nodes: list[_Node]) -> list[list[_Node]]:
    """Return the statements by section: those before any header, then each header with its statements."""
    sections: list[list[_Node]] = [[]]
    for node in nodes:
        if node.header:
            sections.append([])
        sections[-1].append(node)
    return sections


def _scan(text: str) -> list[_Node]:
    """Split a valid TOML text into its statements."""
    tokens = list(_TOKEN.finditer(text))
    nodes: list[_Node] = []
    section: KeyPath = ()
    index = 0
    while index < len(tokens):
        if tokens[index].lastgroup == "blank":
            index += 1
        elif tokens[index][0] == "[":
            start = index
            while tokens[index][0] != "]":
                index += 1
            section = _key(text[tokens[start].end() : tokens[index].start()].lstrip("["))
            index += 1 + text.startswith("]", tokens[index].end())
            end = tokens[index - 1].end()
            nodes.append(_Node(section, tokens[start].start(), end, end, header=True))
        else:
            node, index = _statement(text, tokens, index, section)
            nodes.append(node)
    return nodes


def _statement(text: str, tokens: list[re.Match[str]], index: int, table: KeyPath) -> tuple[_Node, int]:
    """Return the `key = value` that starts at a token, and the index of the token after it."""
    start = tokens[index].start()
    while tokens[index][0] != "=":
        index += 1
    path = table + _key(text[start : tokens[index].start()])
    index += 1
    while tokens[index].lastgroup == "blank":
        index += 1
    value = tokens[index].start()
    if tokens[index][0] == "{":
        items: list[_Node] = []
        index += 1
        while tokens[index][0] != "}":
            if tokens[index].lastgroup == "blank" or tokens[index][0] == ",":
                index += 1
            else:
                item, index = _statement(text, tokens, index, path)
                items.append(item)
        return _Node(path, start, value, tokens[index].end(), items=items), index + 1
    depth, end = 0, value
    while index < len(tokens):
        token = tokens[index]
        if depth == 0 and (token[0] in (",", "}") or token[0][0] in "\r\n#"):
            break
        depth += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
        if token.lastgroup != "blank":
            end = token.end()
        index += 1
    return _Node(path, start, value, end), index


def _key(text: str) -> KeyPath:
    """Return the parts of a key as TOML reads them: bare, quoted, dotted."""
    parts: list[str] = []
    table: Any = tomllib.loads(f"{text.strip()} = 0")
    while isinstance(table, dict):
        [(part, table)] = table.items()
        parts.append(part)
    return tuple(parts)
