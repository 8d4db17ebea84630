"""Edits of the user's config: one entry changes, every other byte stays."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from qk_mcp.editing.files import CannotEdit, edit_locked
from qk_mcp.editing.toml import append_entry, drop_entry, render_entry, set_path
from qk_mcp.errors import ConfigNotWritten, EditRefused, NameTaken, UnknownProject
from qk_mcp.projects.config import explain_not_utf8, is_json_config, parse_config
from qk_mcp.projects.project import TABLE, check_alias, expand
from qk_mcp.text import nearest

__all__ = ["Added", "add_project", "remove_projects"]

type Added = Literal["added", "changed", "kept"]
"""Whether an entry is new, had another path, or was the same already."""

type _Change = Callable[[str, Mapping[str, Any]], str]


def add_project(
    path: Path,
    alias: str,
    where: str,
    environ: Mapping[str, str],
    *,
    settings: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Added:
    """Write into the config at `path` that `alias` is at `where`; return what changed.

    `settings` are `python` and `env`. An existing entry gets another path or other settings only with `force`, and
    keeps the rest. A missing file and its directory are created.
    Raises InvalidName, NameTaken, EditRefused, ConfigNotWritten and ConfigBroken.
    """
    check_alias(alias)
    base = path.parent
    done: Added = "added"

    def change(text: str, entries: Mapping[str, Any]) -> str:
        nonlocal done
        for name, entry in entries.items():
            old = entry.get("path") if isinstance(entry, dict) else entry
            same = isinstance(old, str) and expand(old, base, environ) == expand(where, base, environ)
            if name == alias and same and (not settings or _merged(entry, str(old), settings) == entry):
                done = "kept"
                return text
            if name.casefold() == alias.casefold() and not (name == alias and force):
                raise NameTaken(alias, name, str(old))
        done = "changed" if alias in entries else "added"
        if not settings:
            return set_path(text, TABLE, alias, where)
        rest = drop_entry(text, TABLE, alias) if alias in entries else text
        return append_entry(rest, TABLE, alias, _merged(entries.get(alias), where, settings))

    if is_json_config(path):
        by_hand = f'write this by hand under "{TABLE}": {json.dumps(alias)}: {json.dumps(where)}'
    else:
        entry = append_entry("", TABLE, alias, _merged(None, where, settings)) if settings else None
        by_hand = f"write this by hand:\n\n{entry or render_entry(TABLE, alias, where)}"
    _edit(path, change, by_hand)
    return done


def _merged(entry: object, where: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of an entry with a path and settings; the other settings of the old entry stay."""
    old = entry if isinstance(entry, dict) else {}
    env = old.get("env", {})
    merged = {**old, "path": where, **settings}
    if "env" in settings and isinstance(env, dict):
        merged["env"] = env | settings["env"]
    return merged


def remove_projects(path: Path, aliases: Sequence[str]) -> None:
    """Remove all of `aliases` from the config at `path`, or none if one is unknown.

    Raises UnknownProject, EditRefused, ConfigNotWritten and ConfigBroken.
    """

    def change(text: str, entries: Mapping[str, Any]) -> str:
        for alias in aliases:
            if alias not in entries:
                raise UnknownProject(alias, list(entries), nearest(alias, entries))
        for alias in dict.fromkeys(aliases):
            text = drop_entry(text, TABLE, alias)
        return text

    if not path.exists():
        change("", {})
    _edit(path, change, f"remove it by hand: {', '.join(aliases)}")


def _edit(path: Path, change: _Change, by_hand: str) -> None:
    if is_json_config(path):
        raise EditRefused(path, "qk-mcp does not edit a JSON config.", by_hand)
    try:
        edit_locked(path, lambda text: change(text, parse_config(path, text).get(TABLE, {})))
    except CannotEdit:
        raise EditRefused(path, "The entry is written in a form that only a person should edit.", by_hand) from None
    except UnicodeDecodeError as error:
        raise explain_not_utf8(path, error) from None
    except FileExistsError:  # a file is in the place of its directory
        raise ConfigNotWritten(path, f"{path.parent} is not a directory") from None
    except UnicodeEncodeError:
        raise ConfigNotWritten(path, "the path is not UTF-8, which TOML requires") from None
    except OSError as error:
        raise ConfigNotWritten(path, error.strerror or str(error)) from None
