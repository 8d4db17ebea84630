"""Reads Goose's `config.yaml`, as far as Goose's own style of YAML goes."""

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["read_goose_servers"]


def read_goose_servers(text: str, table: str) -> dict[str, Any]:
    """Return the `cmd`, `args` and `enabled` of the servers in the block mapping `table`, by name."""
    found: dict[str, Any] = {}
    entry: dict[str, Any] = {}
    indent = inner = -1
    items: list[Any] | None = None
    for level, line in _block(text, table):
        indent = level if indent < 0 else indent
        key, colon, value = line.partition(":")
        if level == indent:
            inner, items = -1, None
            entry = {"cmd": "", "args": []}
            if colon and not value.strip():
                found[str(_scalar(key))] = entry
            continue
        if items is not None and (line == "-" or line.startswith("- ")):
            items.append(_scalar(line[1:]))
            continue
        inner = level if inner < 0 else inner
        items = None
        if level != inner or not colon:
            continue
        match key:
            case "cmd":
                entry["cmd"] = str(_scalar(value))
            case "enabled":
                entry["enabled"] = _scalar(value)
            case "args" if value.strip():
                flow = _scalar(value)
                entry["args"] = flow if isinstance(flow, list) else []
            case "args":
                items = entry["args"]
    return found


def _block(text: str, table: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a block mapping at the top level, each with its indentation; empty lines are left out."""
    inside = False
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        level = len(line) - len(line.lstrip(" "))
        if level == 0:
            inside = stripped == f"{table}:"
        elif inside:
            yield level, stripped


def _scalar(text: str) -> Any:
    text = text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip("'")
