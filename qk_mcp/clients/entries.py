"""The entry of a server in a client's file: filling the templates of `known`, and reading them back.

Their placeholders are `{name}`, `{program}`, `{args}`, `{launch}` (program and
arguments) and, in a command, `{json}`, the entry with its name.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from qk_mcp.clients.known import Client

__all__ = [
    "command_keys",
    "describe_entry",
    "fill_command",
    "fill_link",
    "launch_of",
    "make_entry",
    "snippet",
    "starts_qk_mcp",
]

_PACKAGE = re.compile(r"qk-mcp(\[[\w,-]*\])?([=<>~!@ ].*)?")
"""The requirement that uvx installs."""


def make_entry(client: Client, name: str, launch: Sequence[str]) -> dict[str, Any]:
    """Return the client's entry for a server that the command `launch` starts."""
    given = _placeholders(name, launch)
    return {key: given.get(value, value) if isinstance(value, str) else value for key, value in client.entry.items()}


def fill_command(client: Client, template: Sequence[str], name: str, launch: Sequence[str]) -> list[str]:
    """Return the words of the client's own command, without its program."""
    given = _placeholders(name, launch)
    given["{json}"] = json.dumps({"name": name, **make_entry(client, name, launch)}, ensure_ascii=False)
    filled = [given.get(word, word) for word in template]
    return [word for value in filled for word in ([value] if isinstance(value, str) else value)]


def fill_link(client: Client, name: str, launch: Sequence[str]) -> str:
    """Return the link that asks the client to add the server."""
    import base64
    from urllib.parse import quote

    entry = base64.b64encode(json.dumps(make_entry(client, name, launch)).encode()).decode()
    return client.link.format(name=quote(name), entry=quote(entry, safe=""))


def _placeholders(name: str, launch: Sequence[str]) -> dict[str, Any]:
    program, *args = launch
    return {"{name}": name, "{program}": program, "{args}": args, "{launch}": [program, *args]}


def command_keys(client: Client) -> set[str]:
    """Return the keys of an entry that hold the command."""
    return {key for key, value in client.entry.items() if value in ("{program}", "{args}", "{launch}")}


def launch_of(client: Client, entry: object) -> list[str]:
    """Return the command that an entry starts; empty if it starts none, like that of a remote server."""
    if not isinstance(entry, Mapping):
        return []
    launch: list[str] = []
    for key, value in client.entry.items():
        match value, entry.get(key):
            case "{program}", str(program):
                launch.append(program)
            case "{program}", _:
                return []
            case (("{args}" | "{launch}"), list(parts)):
                launch += map(str, parts)
    return launch


def starts_qk_mcp(launch: Sequence[str]) -> bool:
    """Return whether a command has one of the forms in which `install` or the README writes it.

    They are `PYTHON [-E] [-P] -m qk_mcp`, `qk-mcp` and both after `uvx [OPTION VALUE]... --from qk-mcp...`, each
    followed by `serve`, options or nothing, or one of them as the last word of `ssh`. A foreign server that has the
    word among its arguments is none.
    """
    words = list(launch)
    if len(words) > 1 and os.path.basename(words[0]) == "ssh":
        import shlex

        words = shlex.split(words[-1])  # for the shell of another machine
    if words and os.path.basename(words[0]) == "uvx":
        words = _without_uvx(words)
    match [os.path.basename(word) for word in words[:1]] + words[1:]:
        case ["qk-mcp", *rest]:
            pass
        case [_, *words] if "-m" in words and set(words[: (split := words.index("-m"))]) <= {"-E", "-P"}:
            module, rest = words[split + 1 : split + 2], words[split + 2 :]
            if module != ["qk_mcp"]:
                return False
        case _:
            return False
    return not rest or rest[0] == "serve" or rest[0].startswith("-")


def _without_uvx(words: Sequence[str]) -> list[str]:
    """Return the command that uvx starts, or an empty one if it does not come from our package."""
    match words:
        case [_, "qk-mcp", *_]:
            return list(words[1:])
        case [_, "--from", package, *command] if _PACKAGE.fullmatch(package):
            return list(command)
        case [uvx, "--python", _, *rest]:
            return _without_uvx([uvx, *rest])
        case _:
            return []


def snippet(client: Client, name: str, launch: Sequence[str]) -> str:
    """Return the text to write into the client's file, with the surrounding keys, without a final newline."""
    entry = make_entry(client, name, launch)
    match client.format:
        case "json":
            return json.dumps({client.table: {name: entry}}, indent=2, ensure_ascii=False)
        case "toml":
            import tomli_w

            return tomli_w.dumps({client.table: {name: entry}}).rstrip()
        case "yaml":  # JSON's strings and lists are YAML, too
            lines = [f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
            return "\n".join((f"{client.table}:", f"  {name}:", *lines))


def describe_entry(to: Client, entry: Any) -> str:
    """Return what an entry starts or connects to, in a few words for people."""
    if launch := launch_of(to, entry):
        return shlex.join(launch)
    if not isinstance(entry, Mapping):
        return repr(entry)
    return str(entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl") or dict(entry))
