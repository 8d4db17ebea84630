"""Edits one entry of a TOML file's `[projects]` in place: all that is not the entry stays byte for byte.

The text is cut into its statements, the entry is spliced in the form that the
file already uses, and the outcome is accepted only if it parses to exactly the
expected data. So the cutting may assume valid TOML and need not know every
rule of it: what it gets wrong is refused, never written.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from qk_mcp.projects.project import TABLE

__all__ = ["CannotSplice", "drop", "line_numbers", "put", "render"]

type KeyPath = tuple[str, ...]

_TOKEN = re.compile(
    r"""
    (?P<string> \"{3}(?:\\.|[^\\])*?\"{3}\"{0,2} | '{3}.*?'{3}'{0,2} | "(?:\\.|[^"\\\n])*" | '[^'\n]*' )
  | (?P<blank> [ \t]+ | \r?\n | \#[^\n]* )
  | (?P<mark> [\[\]{}=,] )
  | (?P<bare> [^\s"'\#\[\]{}=,]+ )
    """,
    re.VERBOSE | re.DOTALL,
)


class CannotSplice(Exception):
    """The entry is written in a form that only a person should edit."""


def render(alias: str, path: str) -> str:
    """Return the lines that add the entry to a file that has no projects."""
    return _dumps({TABLE: {alias: path}})


def line_numbers(text: str) -> dict[KeyPath, int]:
    """Return the line, counted from 1, on which each key of a valid TOML text is first written."""
    lines: dict[KeyPath, int] = {}
    for node in _flat(_scan(text)):
        for length in range(1, len(node.path) + 1):
            lines.setdefault(node.path[:length], text.count("\n", 0, node.start) + 1)
    return lines


def put(text: str, alias: str, path: str) -> str:
    """Return `text` with the path of `alias` set, other settings of an existing entry kept. Raises CannotSplice."""
    expected = _data(text)
    entries = expected.setdefault(TABLE, {})
    nodes = _scan(text)
    mine = [node for node in _flat(nodes) if node.path[:2] == (TABLE, alias)]
    if not mine:
        text, entries[alias] = _insert(text, nodes, alias, path)
        return _accept(text, expected)
    place = next((n for n in mine if n.path[2:] in ((), ("path",)) and not n.header and not n.items), None)
    if place is None:
        raise CannotSplice
    if isinstance(entries[alias], dict):
        entries[alias]["path"] = path
    else:
        entries[alias] = path
    rendered = _dumps({"path": path}).removeprefix("path = ").rstrip("\n")
    return _accept(text[: place.value] + rendered + text[place.end :], expected)


def drop(text: str, alias: str, table: str = TABLE) -> str:
    """Return `text` without the entry of `alias`. Raises CannotSplice."""
    expected = _data(text)
    del expected[table][alias]
    while span := _first(text, (table, alias)):
        text = text[: span[0]] + text[span[1] :]
    return _accept(text, expected, table)


def _accept(text: str, expected: dict[str, Any], table: str = TABLE) -> str:
    try:
        found = _data(text)
    except ValueError:
        raise CannotSplice from None
    found.setdefault(table, {})  # an empty table and none at all are the same to us
    if found != expected:
        raise CannotSplice
    return text


def _data(text: str) -> dict[str, Any]:
    return tomllib.loads(text, parse_float=str)  # as text, since NaN would not equal itself


def _dumps(data: dict[str, Any]) -> str:
    import tomli_w

    return tomli_w.dumps(data)


def _insert(text: str, nodes: list["_Node"], alias: str, path: str) -> tuple[str, str | dict[str, str]]:
    """Return `text` with a new entry in the form that the others have, and the data of that entry."""
    entry: str | dict[str, str] = path
    pair = _dumps({alias: path}).rstrip("\n")
    head, *sections = _sections(nodes)
    head = [node for node in head if node.path[0] == TABLE]
    sections = [section for section in sections if section[0].path[0] == TABLE]
    if head and (table := head[0]).path == (TABLE,):  # projects = { … }
        at, pair = (table.items[-1].end, f", {pair}") if table.items else (table.value + 1, f" {pair} ")
        return text[:at] + pair + text[at:], entry
    if section := next((section for section in sections if section[0].path == (TABLE,)), None):  # [projects]
        last, lines = section[-1], [pair]
    elif head:  # projects.name = …
        last, lines = head[-1], [f"{TABLE}.{pair}"]
    elif sections:  # [projects.name]
        entry = {"path": path}
        last, lines = sections[-1][-1], ["", *_dumps({TABLE: {alias: entry}}).rstrip("\n").split("\n")]
    else:
        apart = not text or text.endswith(("\n\n", "\n\r\n"))
        last, lines = None, [""] * (not apart) + render(alias, path).rstrip("\n").split("\n")
    at = _line_end(text, last.end) if last else len(text)
    indent = _indent(text, last) if last and len(lines) == 1 else ""
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    new = indent + newline.join(lines)
    ended = not at or text[at - 1] == "\n"  # a last line that has no end leaves it to be the last one's
    return text[:at] + (new + newline if ended else newline + new) + text[at:], entry


def _first(text: str, path: KeyPath) -> tuple[int, int] | None:
    """Return the span of the first section, statement or inline item that lies under `path`."""
    for section in filter(None, _sections(_scan(text))):
        if section[0].header and section[0].path[: len(path)] == path:
            return _lines(text, section[0].start, section[-1].end)
        for node in section:
            if not node.header and node.path[: len(path)] == path:
                return _lines(text, node.start, node.end)
            for index, item in enumerate(node.items):
                if item.path[: len(path)] == path:
                    if index + 1 < len(node.items):
                        return item.start, node.items[index + 1].start
                    return (node.items[index - 1].end if index else item.start), item.end
    return None


def _lines(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the whole lines from `start` to `end`; a last line that has no end takes the one before."""
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
    """A `key = value`, or a header, and where it stands in the text."""

    path: KeyPath
    start: int
    value: int
    """Where the value starts; of a header, its end."""
    end: int
    header: bool = False
    items: list["_Node"] = field(default_factory=list)
    """What an inline table holds."""


def _flat(nodes: list[_Node]) -> Iterator[_Node]:
    for node in nodes:
        yield node
        yield from _flat(node.items)


def _sections(nodes: list[_Node]) -> list[list[_Node]]:
    """Return the statements by section: first those before any header, then each header with what follows it."""
    sections: list[list[_Node]] = [[]]
    for node in nodes:
        if node.header:
            sections.append([])
        sections[-1].append(node)
    return sections


def _scan(text: str) -> list[_Node]:
    """Cut a valid TOML text into its statements."""
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
            index += 1 + (text[tokens[index].end() :][:1] == "]")
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
