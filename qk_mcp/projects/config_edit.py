"""Edits of the user's config: one entry changes, and not one byte more."""

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from qk_mcp.editing.files import locked, replace
from qk_mcp.editing.toml import CannotSplice, drop, put, render
from qk_mcp.errors import ConfigNotWritten, EditRefused, NameTaken, UnknownProject
from qk_mcp.projects.config import BOM, is_json, parse_config, read_text
from qk_mcp.projects.project import TABLE, check_alias, expand
from qk_mcp.text import nearest

__all__ = ["Added", "add", "remove"]

type Added = Literal["added", "changed", "kept"]
"""Whether an entry was new, had another path, or was there already."""

type _Change = Callable[[str, Mapping[str, Any]], str]


def add(path: Path, alias: str, where: str, environ: Mapping[str, str], *, force: bool = False) -> Added:
    """Write into the config at `path` that `alias` is at `where`; return what that meant for the file.

    An entry with another path is replaced only with `force`, and keeps its other settings. The file and its
    directory are made. Raises InvalidName, NameTaken, EditRefused, ConfigNotWritten, and what reading raises.
    """
    check_alias(alias)
    base = path.parent
    done: Added = "added"

    def change(text: str, entries: Mapping[str, Any]) -> str:
        nonlocal done
        for name, entry in entries.items():
            old = entry.get("path") if isinstance(entry, dict) else entry
            if name == alias and isinstance(old, str) and expand(old, base, environ) == expand(where, base, environ):
                done = "kept"
                return text
            if name.casefold() == alias.casefold() and not (name == alias and force):
                raise NameTaken(alias, name, str(old))
        done = "changed" if alias in entries else "added"
        return put(text, alias, where)

    if is_json(path):
        by_hand = f'write this by hand under "{TABLE}": {json.dumps(alias)}: {json.dumps(where)}'
    else:
        by_hand = f"write this by hand:\n\n{render(alias, where)}"
    _edit(path, change, by_hand)
    return done


def remove(path: Path, aliases: Sequence[str]) -> None:
    """Take all of `aliases` out of the config at `path`, or none when one is unknown.

    Raises UnknownProject, EditRefused, ConfigNotWritten, and what reading raises.
    """

    def change(text: str, entries: Mapping[str, Any]) -> str:
        for alias in aliases:
            if alias not in entries:
                raise UnknownProject(alias, list(entries), nearest(alias, entries))
        for alias in dict.fromkeys(aliases):
            text = drop(text, alias)
        return text

    if not path.exists():
        change("", {})
    _edit(path, change, f"take it out by hand: {', '.join(aliases)}")


def _edit(path: Path, change: _Change, by_hand: str) -> None:
    if is_json(path):
        raise EditRefused(path, "A JSON config is only read.", by_hand)
    file = Path(os.path.realpath(path))  # a link stays a link
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(file):
            text = read_text(path) if file.exists() else ""
            data = parse_config(path, text)
            mark, body = BOM * text.startswith(BOM), text.removeprefix(BOM)
            new = change(body, data.get(TABLE, {}))
            if new == body:
                return
            if file.exists() and not (os.access(file, os.W_OK) and stat.S_ISREG(file.stat().st_mode)):
                raise PermissionError("it may not be written")
            replace(file, (mark + new).encode())
    except CannotSplice:
        raise EditRefused(path, "Its entry is written in a way that only you should change.", by_hand) from None
    except FileExistsError:  # of mkdir
        raise ConfigNotWritten(path, f"{file.parent} is not a directory") from None
    except UnicodeEncodeError:
        raise ConfigNotWritten(path, "the path is not UTF-8, which TOML cannot hold") from None
    except OSError as error:
        raise ConfigNotWritten(path, error.strerror or str(error)) from None
