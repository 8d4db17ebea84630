"""Splits a TOML text into its statements, with their places in the text.

It assumes valid TOML and ignores the rarer rules: who edits by these places must check the result with a parser.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["KeyPath", "Statement", "flatten", "group_sections", "has_comment", "line_numbers", "split_statements"]

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


@dataclass(frozen=True, slots=True)
class Statement:
    """A `key = value` or a header, and its place in the text."""

    path: KeyPath
    start: int
    value: int
    """Where the value starts; for a header, its end."""
    end: int
    header: bool = False
    items: list["Statement"] = field(default_factory=list)
    """The statements of an inline table."""


def flatten(nodes: list[Statement]) -> Iterator[Statement]:
    """Yield the statements, those of inline tables too."""
    for node in nodes:
        yield node
        yield from flatten(node.items)


def group_sections(nodes: list[Statement]) -> list[list[Statement]]:
    """Return the statements by section: those before any header, then each header with its statements."""
    sections: list[list[Statement]] = [[]]
    for node in nodes:
        if node.header:
            sections.append([])
        sections[-1].append(node)
    return sections


def split_statements(text: str) -> list[Statement]:
    """Split a valid TOML text into its statements."""
    tokens = list(_TOKEN.finditer(text))
    nodes: list[Statement] = []
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
            nodes.append(Statement(section, tokens[start].start(), end, end, header=True))
        else:
            node, index = _statement(text, tokens, index, section)
            nodes.append(node)
    return nodes


def _statement(text: str, tokens: list[re.Match[str]], index: int, table: KeyPath) -> tuple[Statement, int]:
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
        items: list[Statement] = []
        index += 1
        while tokens[index][0] != "}":
            if tokens[index].lastgroup == "blank" or tokens[index][0] == ",":
                index += 1
            else:
                item, index = _statement(text, tokens, index, path)
                items.append(item)
        return Statement(path, start, value, tokens[index].end(), items=items), index + 1
    depth, end = 0, value
    while index < len(tokens):
        token = tokens[index]
        if depth == 0 and (token[0] in (",", "}") or token[0][0] in "\r\n#"):
            break
        depth += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
        if token.lastgroup != "blank":
            end = token.end()
        index += 1
    return Statement(path, start, value, end), index


def _key(text: str) -> KeyPath:
    """Return the parts of a key as TOML reads them: bare, quoted, dotted."""
    parts: list[str] = []
    table: Any = tomllib.loads(f"{text.strip()} = 0")
    while isinstance(table, dict):
        [(part, table)] = table.items()
        parts.append(part)
    return tuple(parts)


def has_comment(text: str, start: int, end: int) -> bool:
    """Return whether there is a comment between two places, the first of which is not inside a string."""
    return any(token[0].startswith("#") for token in _TOKEN.finditer(text, start, end))


def line_numbers(text: str) -> dict[KeyPath, int]:
    """Return the line, counted from 1, on which each key of a valid TOML text is first written."""
    lines: dict[KeyPath, int] = {}
    line, position = 1, 0
    for node in flatten(split_statements(text)):
        line, position = line + text.count("\n", position, node.start), node.start
        for length in range(1, len(node.path) + 1):
            lines.setdefault(node.path[:length], line)
    return lines
