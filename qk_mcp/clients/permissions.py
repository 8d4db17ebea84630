"""The settings by which clients stop to ask about a tool, and what `install` writes into them.

Claude Code has a list of rules in its settings, Codex a mode in the entry of the server. Other clients keep what a
person chooses in their own state.
"""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from qk_mcp.clients.known import Client
from qk_mcp.clients.locations import expand_home
from qk_mcp.editing.files import CannotEdit, backups_of, edit_locked, read_regular
from qk_mcp.editing.json import add_item, drop_item, drop_key
from qk_mcp.editing.jsonc_text import read_jsonc
from qk_mcp.errors import ClientFileKept, ClientFileUnreadable

__all__ = ["CODEX_APPROVAL", "allow_tools", "forbid_tools", "permission_changes", "settings_file"]

CODEX_APPROVAL = {"default_tools_approval_mode": "approve"}
"""What stops Codex asking about any tool of a server; it never asks about those that are read-only."""

_BACKUP = ".qk-mcp-backup"
_ALLOW = ("permissions", "allow")


def settings_file(environ: Mapping[str, str]) -> Path:
    """Return the user's settings of Claude Code. Raises NoHome."""
    return Path(expand_home("{CLAUDE_CONFIG_DIR:~/.claude}/settings.json", environ))


def permission_changes(client: Client, file: Path, name: str, tools: Sequence[str]) -> str:
    """Return the unified diff that `allow_tools` would make; empty if it changes nothing. Raises as that does."""
    old = _read(client, file)
    new = _guarded(client, file, name, tools, lambda: _allowed(old, _rules(name, tools)))
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(file), str(file))
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def allow_tools(client: Client, file: Path, name: str, tools: Sequence[str]) -> Path | None:
    """Write into the settings that the `tools` of the server `name` need no question; return the backup, if any.

    Raises ClientFileKept.
    """

    def edit() -> Path | None:
        return edit_locked(file, lambda text: _allowed(text, _rules(name, tools)), backup=_BACKUP)

    return _guarded(client, file, name, tools, edit)


def forbid_tools(client: Client, file: Path, name: str) -> bool:
    """Remove every permission of the server `name`; return whether there was one. Raises ClientFileKept.

    If nothing but permissions was added since a backup, the file gets exactly its old text. A file with nothing else
    is removed.
    """
    prefix = f"mcp__{name}__"
    found = False

    def change(text: str) -> str | None:
        nonlocal found
        rules = [rule for rule in _allow_list(text) if isinstance(rule, str) and rule.startswith(prefix)]
        if not rules:
            return text
        found = True
        for original in _backup_texts(file):
            with suppress(ValueError, RecursionError, CannotEdit):
                if _allowed(original, rules) == text:
                    return original
        for rule in rules:
            text = drop_item(text, _ALLOW, rule)
        for keys in (_ALLOW, _ALLOW[:1]):
            if not _value_at(text, keys):
                text = drop_key(text, keys)
        return text if read_jsonc(text) or "/" in text else None

    if os.path.lexists(file):
        _guarded(client, file, name, (), lambda: edit_locked(file, change, backup=_BACKUP))
    return found


def _rules(name: str, tools: Iterable[str]) -> list[str]:
    return [f"mcp__{name}__{tool}" for tool in tools]


def _allowed(text: str, rules: Iterable[str]) -> str:
    present = _allow_list(text)
    for rule in rules:
        if rule not in present:
            text = add_item(text, _ALLOW, rule)
    return text


def _allow_list(text: str) -> list[object]:
    value = _value_at(text, _ALLOW)
    return value if isinstance(value, list) else []


def _value_at(text: str, keys: Sequence[str]) -> object:
    """Return the value at `keys`; None if there is none."""
    value = read_jsonc(text) if text.strip() else {}
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _read(client: Client, file: Path) -> str:
    try:
        return read_regular(file).decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeError) as error:
        raise ClientFileUnreadable(client.title, file, getattr(error, "strerror", None) or str(error)) from None


def _backup_texts(file: Path) -> list[str]:
    texts = []
    for backup in backups_of(file, _BACKUP):
        with suppress(OSError, UnicodeError):  # not a backup of ours
            texts.append(read_regular(backup).decode("utf-8-sig"))
    return texts


def _guarded[T](client: Client, file: Path, name: str, tools: Sequence[str], edit: Callable[[], T]) -> T:
    try:
        return edit()
    except CannotEdit as refusal:
        why = str(refusal) or "it is written in a form that only a person should edit"
    except UnicodeError:
        why = "it is not UTF-8"
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, RecursionError) as error:
        why = f"it is broken: {error}"
    rules = "\n".join(_rules(name, tools))
    by_hand = f"add to the list permissions.allow by hand:\n\n{rules}" if tools else f"remove mcp__{name}__… by hand"
    raise ClientFileKept(client.title, file, why, by_hand)
