"""The files in which MCP clients keep their servers: reading them, and changing one entry.

JSON and TOML are edited in place, YAML is only read.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from qk_mcp.clients.entries import command_keys, make_entry, snippet
from qk_mcp.clients.goose import read_goose_servers
from qk_mcp.clients.known import Client
from qk_mcp.editing.files import CannotEdit, backups_of, edit_locked, read_regular
from qk_mcp.editing.json import drop_key, set_key
from qk_mcp.editing.jsonc_text import read_jsonc
from qk_mcp.editing.toml import append_entry, drop_entry
from qk_mcp.errors import ClientFileKept, ClientFileUnreadable

__all__ = ["is_editable", "put_server", "read_servers", "remove_server", "set_option"]

_BACKUP = ".qk-mcp-backup"


def read_servers(client: Client, file: Path) -> dict[str, Any]:
    """Return the entries of a client's file by name; none if there is no file. Raises ClientFileUnreadable."""
    try:
        return _entries(client, read_regular(file).decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise ClientFileUnreadable(client.title, file, "it is not UTF-8") from None
    except OSError as error:
        raise ClientFileUnreadable(client.title, file, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise ClientFileUnreadable(client.title, file, f"it is broken: {error}") from None


def _entries(client: Client, text: str) -> dict[str, Any]:
    match client.format:
        case "json":
            data = read_jsonc(text) if text.strip() else {}
        case "toml":
            data = tomllib.loads(text)
        case "yaml":
            return read_goose_servers(text, client.table)
    table = data.get(client.table) if isinstance(data, dict) else None
    return dict(table) if isinstance(table, dict) else {}


def is_editable(client: Client) -> bool:
    """Return whether `put_server` can edit the client's file."""
    return client.format != "yaml"


def put_server(client: Client, file: Path, name: str, launch: Sequence[str], *, shared: bool = False) -> Path | None:
    """Write into a client's file that `launch` starts the server `name`; return the backup, if any.

    An existing entry keeps its other settings. A missing file and its directory are created. A `shared` file, which
    belongs to a project, gets no backup and is not private. Raises ClientFileKept.
    """
    entry = make_entry(client, name, launch)
    command = command_keys(client)

    def change(text: str) -> str:
        old = _entries(client, text).get(name)
        if old is None:
            return _put(client, text, name, entry)
        if not isinstance(old, dict):
            raise CannotEdit(f"its {name!r} is not a table")
        chosen = {key: value for key, value in entry.items() if key in command or key not in old}
        if client.format == "toml":
            return _put(client, _drop(client, text, name), name, old | chosen)
        for key, value in chosen.items():
            text = set_key(text, (client.table, name, key), value)
        return text

    return _edit(client, file, change, f"write this by hand:\n\n{snippet(client, name, launch)}", shared=shared)


def set_option(client: Client, file: Path, name: str, key: str, value: str) -> Path | None:
    """Set one key of the server `name`, which must exist, in a client's TOML file; return the backup, if any.

    Raises ClientFileKept.
    """

    def change(text: str) -> str:
        entry = _entries(client, text)[name]
        return _put(client, _drop(client, text, name), name, {**entry, key: value})

    return _edit(client, file, change, f'write {key} = "{value}" into its {name!r} by hand', shared=False)


def remove_server(client: Client, file: Path, name: str, *, shared: bool = False) -> Path | None:
    """Remove the server `name`, which must exist, from a client's file; return the backup. Raises ClientFileKept.

    If nothing but the entry was added since a backup, the file gets exactly its old text. A file that `put_server`
    created and that has nothing else is removed, without a backup.
    """

    def change(text: str) -> str | None:
        entry = _entries(client, text)[name]
        for original in _backup_texts(file):
            if _with_entry(client, original, name, entry) == text:
                return original
        created = _with_entry(client, "", name, entry) == text
        return None if created else _drop(client, text, name)

    return _edit(client, file, change, f"remove {name!r} from its {client.table!r} by hand", shared=shared)


def _backup_texts(file: Path) -> Iterator[str]:
    for backup in backups_of(file, _BACKUP):
        try:
            text = read_regular(backup).decode("utf-8-sig")
        except (OSError, UnicodeError):
            continue  # not a backup of ours
        yield text


def _with_entry(client: Client, text: str, name: str, entry: Any) -> str | None:
    """Return the text with a new entry, or None if it cannot be added."""
    with suppress(ValueError, RecursionError, CannotEdit):
        if isinstance(entry, dict):
            return _put(client, text, name, entry)
    return None


def _put(client: Client, text: str, name: str, entry: Mapping[str, Any]) -> str:
    if client.format == "json":
        return set_key(text, (client.table, name), entry)
    if not isinstance(tomllib.loads(text).get(client.table, {}), dict):
        raise CannotEdit(f"its {client.table!r} is not a table")
    return append_entry(text, client.table, name, entry)


def _drop(client: Client, text: str, name: str) -> str:
    if client.format == "json":
        return drop_key(text, (client.table, name))
    rest = drop_entry(text, client.table, name)
    newline = "\r\n" if "\r\n" in text else "\n"
    was_last = text.startswith(rest) and (rest == newline or rest.endswith(newline * 2))
    return rest.removesuffix(newline) if was_last else rest  # the empty line that `append_entry` wrote


def _edit(
    client: Client, path: Path, change: Callable[[str], str | None], by_hand: str, *, shared: bool
) -> Path | None:
    if not is_editable(client):
        raise ClientFileKept(client.title, path, "qk-mcp does not edit YAML", by_hand)
    try:
        return edit_locked(path, change, backup="" if shared else _BACKUP, private=not shared)
    except CannotEdit as refusal:
        why = str(refusal) or "it is written in a form that only a person should edit"
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except UnicodeEncodeError:
        why = "the command is not UTF-8"
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, RecursionError) as error:
        why = f"it is broken: {error}"
    raise ClientFileKept(client.title, path, why, by_hand)
