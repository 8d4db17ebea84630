"""Edits of the user's config: one entry changes, every other byte stays."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from qk_mcp.editing.files import CannotEdit, edit_locked
from qk_mcp.editing.json import drop_key, set_key
from qk_mcp.editing.toml import (
    append_entry,
    drop_entry,
    drop_setting,
    render_entry,
    render_value,
    set_path,
    set_setting,
)
from qk_mcp.errors import ConfigNotWritten, EditRefused, InvalidSetting, NameTaken, UnknownProject
from qk_mcp.projects.config import SETTINGS, explain_not_utf8, is_json_config, parse_config, setting_faults
from qk_mcp.projects.project import TABLE, check_alias, expand
from qk_mcp.text import nearest

__all__ = ["Added", "add_project", "change_setting", "remove_projects"]

type Added = Literal["added", "changed", "kept"]
"""Whether an entry is new, had another path, or was the same already."""

_ADDED = {
    "path": "--force",
    "python": "--python PATH --force",
    "env": "--env NAME=VALUE --force",
    "host": "--host USER@MACHINE --force",
    "via": "--via COMMAND --force",
    "command": "--command COMMAND --force",
}
"""The keys that belong to the declaration of a project, with the options of `projects add` that set them."""

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
    _refuse_json(path, by_hand)
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
    by_hand = f"remove it by hand: {', '.join(aliases)}"
    _refuse_json(path, by_hand)
    _edit(path, change, by_hand)


def change_setting(path: Path, alias: str, key: str, words: Sequence[str], *, remove: bool = False) -> Any:
    """Add `words` to a setting of a project in the config at `path`; return its new value, None if it is gone.

    Words are added to a list and replace any other value. With `remove`, they are taken out of the list; without
    words, the setting goes. An `allow` that becomes empty stays, because without it everything would be allowed.
    Raises InvalidSetting, UnknownProject, EditRefused, ConfigNotWritten and ConfigBroken.
    """
    if key in _ADDED:
        raise InvalidSetting(key, f"`qk-mcp projects add NAME:PATH {_ADDED[key]}` sets it")
    if key not in SETTINGS:
        raise InvalidSetting(key, "there is no such setting", nearest(key, SETTINGS) or list(SETTINGS))
    value: Any = None

    def change(text: str, entries: Mapping[str, Any]) -> str:
        nonlocal value
        if alias not in entries:
            raise UnknownProject(alias, list(entries), nearest(alias, entries))
        entry = entries[alias]
        old = entry.get(key) if isinstance(entry, dict) else None
        value = _without(key, old, words) if remove else _with(key, old, words)
        if value == old:
            return text
        if value is None:
            if is_json_config(path):
                return drop_key(text, [TABLE, alias, key])
            return drop_setting(text, TABLE, alias, key)
        if faults := setting_faults(key, value):
            raise InvalidSetting(key, "; ".join(faults))
        if not is_json_config(path):
            return set_setting(text, TABLE, alias, key, value)
        if isinstance(entry, dict):
            return set_key(text, [TABLE, alias, key], value)
        return set_key(text, [TABLE, alias], {"path": entry, key: value})

    if not path.exists():
        change("", {})
    shown = f"{key} = {render_value(list(words))}"
    _edit(path, change, f"change it by hand, in the table of {alias}: {shown}" if words else f"remove {key} by hand")
    return value


def _with(key: str, old: Any, words: Sequence[str]) -> Any:
    """Return the value of a setting with `words`. Raises InvalidSetting if they cannot be its value."""
    form = SETTINGS[key]
    if form == "globs or false" and list(words) == ["false"]:
        return False
    if form == "globs or false" and list(words) == ["true"]:
        raise InvalidSetting(key, f"it is on unless it is false; `qk-mcp projects unset NAME {key}` makes it so")
    if form.startswith("globs"):
        return [*dict.fromkeys([*(old if isinstance(old, list) else []), *words])]
    if len(words) != 1:
        raise InvalidSetting(key, f"it has one value, not {len(words)}")
    [word] = words
    if form == "boolean":
        if word not in ("true", "false"):
            raise InvalidSetting(key, f"it must be true or false, not {word!r}")
        return word == "true"
    try:
        number = float(word)
    except ValueError:
        raise InvalidSetting(key, f"it must be a number of seconds, not {word!r}") from None
    return int(number) if number.is_integer() else number


def _without(key: str, old: Any, words: Sequence[str]) -> Any:
    """Return what is left of a setting without `words`; without words, nothing is. Raises InvalidSetting."""
    if not words:
        return None
    if not isinstance(old, list):
        raise InvalidSetting(key, "it is not a list; without a value, all of it is removed")
    if missing := [word for word in words if word not in old]:
        raise InvalidSetting(key, f"it does not have {', '.join(map(repr, missing))}", old)
    left = [each for each in old if each not in words]
    return left if left or key == "allow" else None


def _refuse_json(path: Path, by_hand: str) -> None:
    if is_json_config(path):
        raise EditRefused(path, "qk-mcp does not add or remove entries of a JSON config.", by_hand)


def _edit(path: Path, change: _Change, by_hand: str) -> None:
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
