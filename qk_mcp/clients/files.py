"""The files in which MCP clients keep their servers: reading them, and changing one entry.

JSON and TOML are edited, so that all but the entry stays as it is. YAML, and
JSON with comments, are only read.
"""

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from qk_mcp.clients.entries import command_keys, snippet
from qk_mcp.clients.entries import entry as entry_of
from qk_mcp.clients.known import Client
from qk_mcp.editing import json as json_edit
from qk_mcp.editing import toml as toml_edit
from qk_mcp.editing.files import locked, replace
from qk_mcp.errors import ClientFileKept, ClientFileUnreadable

__all__ = ["add", "is_editable", "remove", "servers"]

_BOM = "\ufeff"


def servers(client: Client, file: Path) -> dict[str, Any]:
    """Return the servers that a client's file names, as they are written; none when there is no file.

    Raises ClientFileUnreadable.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise ClientFileUnreadable(client.title, file, "it is not UTF-8") from None
    except OSError as error:
        raise ClientFileUnreadable(client.title, file, error.strerror or str(error)) from None
    try:
        match client.format:
            case "json":
                data = json_edit.read_lenient(text) if text.strip() else {}
            case "toml":
                data = tomllib.loads(text)
            case "yaml":
                return _yaml_servers(text, client.table)
    except (ValueError, RecursionError) as error:
        raise ClientFileUnreadable(client.title, file, f"it is broken: {error}") from None
    table = data.get(client.table) if isinstance(data, dict) else None
    return dict(table) if isinstance(table, dict) else {}


def is_editable(client: Client, file: Path) -> bool:
    """Say whether `add` would edit the client's file: YAML, and JSON with comments, it would not."""
    if client.format != "json":
        return client.format == "toml"
    try:
        text = file.read_bytes().decode("utf-8-sig")
        return not text.strip() or isinstance(json.loads(text), dict)
    except (OSError, ValueError, RecursionError):
        return False


def add(client: Client, file: Path, name: str, launch: Sequence[str]) -> Path | None:
    """Write into a client's file that `launch` starts the server `name`; return where the old file is kept.

    An entry of that name keeps its other settings. The file and its directory are made. Raises ClientFileKept.
    """
    entry = entry_of(client, name, launch)
    command = command_keys(client)

    def change_json(text: str) -> str:
        written = _loads(text).get(client.table)
        if not (isinstance(written, dict) and isinstance(written.get(name), dict)):
            return json_edit.put(text, (client.table, name), entry)
        for key, value in entry.items():
            if key in command or key not in written[name]:
                text = json_edit.put(text, (client.table, name, key), value)
        return text

    def change_toml(text: str) -> str:
        old = tomllib.loads(text).get(client.table, {}).get(name, {})
        if old:
            text = _without(text, client.table, name)
        chosen = {key: value for key, value in entry.items() if key in command or key not in old}
        return _append(text, client.table, name, {**old, **chosen})

    by_hand = f"write this by hand:\n\n{snippet(client, name, launch)}"
    return _edit(client, file, change_toml if client.format == "toml" else change_json, by_hand)


def remove(client: Client, file: Path, name: str) -> Path | None:
    """Take the server `name`, which must be there, out of a client's file; return as `add` does.

    Raises ClientFileKept.
    """

    def change(text: str) -> str:
        if client.format == "toml":
            return _without(text, client.table, name)
        return json_edit.drop(text, (client.table, name))

    return _edit(client, file, change, f"take {name!r} out of its {client.table!r} by hand")


def _loads(text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}  # the edit will say so
    return data if isinstance(data, dict) else {}


def _edit(client: Client, path: Path, change: Callable[[str], str], by_hand: str) -> Path | None:
    if client.format == "yaml":
        raise ClientFileKept(client.title, path, "YAML is better edited by a person", by_hand)
    file = Path(os.path.realpath(path))  # a link stays a link
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(file):
            exists = file.exists()
            if exists and not (os.access(file, os.W_OK) and stat.S_ISREG(file.stat().st_mode)):
                raise PermissionError("it may not be written")
            data = file.read_bytes() if exists else b""
            text = data.decode()
            mark, body = _BOM * text.startswith(_BOM), text.removeprefix(_BOM)
            new = (mark + change(body)).encode()
            backup = _keep(path, data) if exists else None
            replace(file, new)
            return backup
    except (json_edit.CannotEdit, toml_edit.CannotSplice) as refusal:
        why = str(refusal) or "it is written in a way that only you should change"
        raise ClientFileKept(client.title, path, why, by_hand) from None
    except UnicodeDecodeError:
        raise ClientFileKept(client.title, path, "it is not UTF-8", by_hand) from None
    except UnicodeEncodeError:
        raise ClientFileKept(client.title, path, "the command is not UTF-8", by_hand) from None
    except OSError as error:
        raise ClientFileKept(client.title, path, error.strerror or str(error), by_hand) from None


def _keep(path: Path, data: bytes) -> Path:
    """Write what the file at `path` held beside it, over nothing else; return where."""
    for number in count(1):
        backup = path.with_name(f"{path.name}.qk-mcp-backup{f'-{number}' if number > 1 else ''}")
        if not os.path.lexists(backup):
            replace(backup, data)
            break
        if backup.is_file() and backup.read_bytes() == data:
            break
    return backup


def _without(text: str, table: str, name: str) -> str:
    """Return a TOML text without a server, and without the empty line that `_append` put before it."""
    rest = toml_edit.drop(text, name, table)
    newline = "\r\n" if "\r\n" in text else "\n"
    was_last = text.startswith(rest) and (rest == newline or rest.endswith(newline * 2))
    return rest.removesuffix(newline) if was_last else rest


def _append(text: str, table: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return a TOML text with a new table at its end, where nothing that stands before can be affected."""
    import tomli_w

    expected = tomllib.loads(text)
    expected.setdefault(table, {})[name] = entry
    newline = "\r\n" if "\r\n" in text else "\n"
    ended = text if not text or text.endswith("\n") else text + newline
    section = tomli_w.dumps({table: {name: entry}}).replace("\n", newline)
    new = ended + newline * bool(text.strip()) + section
    with suppress(ValueError):  # not if the other servers are written inline
        if tomllib.loads(new) == expected:
            return new
    raise toml_edit.CannotSplice


def _yaml_servers(text: str, table: str) -> dict[str, Any]:
    """Return the servers of a YAML file with the command that each starts, read as far as Goose's own style goes."""
    section = re.search(rf"^{table}:[ \t]*\n((?:[ \t].*\n|[ \t]*\n)*)", text + "\n", re.MULTILINE)
    body = section[1] if section else ""
    indent = re.match(r"\s*?( *)\S", body)
    if not indent:
        return {}
    _, *parts = re.split(rf"^{indent[1]}([\w.-]+):[ \t]*\n", body, flags=re.MULTILINE)
    found = {}
    for name, block in zip(parts[::2], parts[1::2], strict=True):
        command = re.search(r"^ +cmd:(.*)", block, re.MULTILINE)
        flow = re.search(r"^ +args: *(\[[^\]]*\])", block, re.MULTILINE)
        items = re.search(r"^ +args:[ \t]*\n((?: *- .*\n)*)", block, re.MULTILINE)
        args = _scalar(flow[1]) if flow else []
        args = [_scalar(item) for item in re.findall(r"- (.*)", items[1])] if items else args
        found[name] = {"cmd": _scalar(command[1]) if command else "", "args": args}
    return found


def _scalar(text: str) -> Any:
    text = text.strip()
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'")
