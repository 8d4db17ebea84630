"""How an MCP client writes a server down: filling the templates of `clients`, and reading them back.

They hold `{name}`, `{program}`, `{args}`, `{launch}` (program and arguments) and,
in a command, `{json}`, the entry with its name.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qk_mcp.clients.known import Client

__all__ = ["command_keys", "entry", "is_ours", "launch_of", "snippet", "words"]


def entry(client: Client, name: str, launch: Sequence[str]) -> dict[str, Any]:
    """Return what the client's file holds for a server that `launch` starts."""
    given = _given(name, launch)
    return {key: given.get(value, value) if isinstance(value, str) else value for key, value in client.entry.items()}


def words(client: Client, template: Sequence[str], name: str, launch: Sequence[str]) -> list[str]:
    """Return the words of the client's own command, without its program."""
    given = _given(name, launch)
    given["{json}"] = json.dumps({"name": name, **entry(client, name, launch)}, ensure_ascii=False)
    filled = [given.get(word, word) for word in template]
    return [word for value in filled for word in ([value] if isinstance(value, str) else value)]


def _given(name: str, launch: Sequence[str]) -> dict[str, Any]:
    program, *args = launch
    return {"{name}": name, "{program}": program, "{args}": args, "{launch}": [program, *args]}


def command_keys(client: Client) -> set[str]:
    """Return the keys of an entry that hold the command."""
    return {key for key, value in client.entry.items() if value in ("{program}", "{args}", "{launch}")}


def launch_of(client: Client, written: object) -> list[str]:
    """Return the command that a written entry starts; empty when it starts none, as a remote server's."""
    if not isinstance(written, Mapping):
        return []
    launch: list[str] = []
    for key, value in client.entry.items():
        match value, written.get(key):
            case "{program}", str(program):
                launch.append(program)
            case "{program}", _:
                return []
            case (("{args}" | "{launch}"), list(parts)):
                launch += map(str, parts)
    return launch


def is_ours(launch: Sequence[str]) -> bool:
    """Say whether a command starts qk-mcp, of whatever installation."""
    return any(Path(word).name in ("qk-mcp", "qk_mcp") for word in launch[:6])


def snippet(client: Client, name: str, launch: Sequence[str]) -> str:
    """Return what to write into the client's file, with the keys around it, without a final newline."""
    written = entry(client, name, launch)
    match client.format:
        case "json":
            return json.dumps({client.table: {name: written}}, indent=2, ensure_ascii=False)
        case "toml":
            import tomli_w

            return tomli_w.dumps({client.table: {name: written}}).rstrip()
        case "yaml":  # in which JSON's texts and lists mean the same
            lines = [f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in written.items()]
            return "\n".join((f"{client.table}:", f"  {name}:", *lines))
