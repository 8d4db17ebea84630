"""The user's config, a `[projects]` table in TOML or JSON: its place and its content."""

import json
import os
import shlex
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from qk_mcp.editing.files import read_regular
from qk_mcp.errors import ConfigBroken, ConfigUnreadable, InvalidName, InvalidOption, NoConfig
from qk_mcp.projects.project import TABLE, Project, check_alias, expand
from qk_mcp.projects.remote import OUR_COMMAND, Remote
from qk_mcp.projects.rules import RULE_KEYS, Rules, glob_fault
from qk_mcp.text import nearest, shorten

__all__ = [
    "SETTINGS",
    "Config",
    "explain_not_utf8",
    "is_json_config",
    "may_exist",
    "parse_config",
    "read_config",
    "read_config_text",
    "setting_faults",
    "user_config_path",
    "with_settings",
]

_KEYS = ("path", "python", "env", "grace", "reports", "host", "via", "command", *RULE_KEYS)
_REMOTE = ("host", "via", "command")
_MAX_GRACE = 600.0
_MAX_TIMEOUT = 86_400.0
_KINDS = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "an array",
    dict: "a table",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Config:
    """The content of a config file."""

    path: Path
    projects: tuple[Project, ...]
    warnings: tuple[str, ...]
    """What the user should correct, although the config can be used."""


def user_config_path() -> Path:
    """Return the path of the user's own config, which need not exist. Raises NoConfig."""
    from platformdirs import user_config_path

    try:
        path = user_config_path("qk-mcp", appauthor=False) / "config.toml"
    except RuntimeError:  # there is no home directory; older versions of platformdirs leave the `~`
        raise NoConfig from None
    if not path.is_absolute():
        raise NoConfig
    return path


def read_config(path: Path, environ: Mapping[str, str]) -> Config:
    """Read the config at `path`; its relative paths start at its directory.

    Raises ConfigUnreadable, and ConfigBroken, which lists every fault. An unknown key of a project is a fault, because
    a misspelt `deny` must not allow anything. Outside `projects`, it is a warning if it does not resemble that.
    """
    text = read_config_text(path)
    data = parse_config(path, text)

    @cache
    def lines() -> Mapping[tuple[str, ...], int]:
        if is_json_config(path):
            return {}
        from qk_mcp.editing.toml_statements import line_numbers

        return line_numbers(text)

    found = _Findings(path, lines)
    for key in data:
        if key != TABLE:
            found.unknown_outside(key)
    projects = [_project(alias, entry, environ, found) for alias, entry in data.get(TABLE, {}).items()]
    if found.faults:
        raise ConfigBroken(path, found.faults)
    return Config(path, tuple(projects), (*_exposure(path), *found.warnings))


def may_exist(path: Path) -> bool:
    """Return whether there is a file at `path`; also True if that cannot be known, and reading it reports why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def is_json_config(path: Path) -> bool:
    """Return whether the config at `path` is JSON, by its suffix; every other config is TOML."""
    return path.suffix.lower() == ".json"


def read_config_text(path: Path) -> str:
    """Return the config's text without its byte order mark. Raises what `read_config` raises."""
    try:
        return read_regular(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise explain_not_utf8(path, error) from None
    except FileNotFoundError:
        made = f"qk-mcp projects add NAME:PATH --config {shlex.quote(str(path))} creates it"
        by_hand = 'write it: {"projects": {"NAME": "PATH"}}'
        raise ConfigUnreadable(path, "There is no such file.", by_hand if is_json_config(path) else made) from None
    except IsADirectoryError:
        raise ConfigUnreadable(path, "It is a directory.", "name the file itself") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigUnreadable(path, f"{why[0].upper()}{why[1:]}.", "name a file that you may read") from None


def explain_not_utf8(path: Path, error: UnicodeDecodeError) -> ConfigBroken:
    """Return the failure for a config that is not UTF-8."""
    line = error.object.count(b"\n", 0, error.start) + 1
    return ConfigBroken(path, [f"line {line}: this is not UTF-8"])


def parse_config(path: Path, text: str) -> dict[str, Any]:
    """Return the data of the config's text; its `projects`, if any, is a table. Raises ConfigBroken."""
    try:
        data = json.loads(text, object_pairs_hook=_once) if is_json_config(path) else tomllib.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigBroken(path, [f"line {error.lineno}, column {error.colno}: {error.msg}"]) from None
    except (ValueError, RecursionError) as error:
        reason, at, place = str(error).rpartition(" (at ")  # as tomllib writes it
        raise ConfigBroken(path, [f"{place.removesuffix(')')}: {reason}" if at else place]) from None
    if not isinstance(data, dict):
        raise ConfigBroken(path, [f"the config must be a table, not {_kind(data)}"])
    if not isinstance(entries := data.get(TABLE, {}), dict):
        raise ConfigBroken(path, [f"{TABLE} must be a table, not {_kind(entries)}"])
    return data


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON text; a repeated key is an error, as in TOML."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {shorten(counts.most_common(1)[0][0], 100)!r} is there twice")
    return found


@dataclass(frozen=True, slots=True)
class _Findings:
    """The faults of a config, each with its line if that is known."""

    path: Path
    lines: Callable[[], Mapping[tuple[str, ...], int]]
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def fault(self, what: str, *key: str) -> None:
        line = self.lines().get(key)
        self.faults.append(f"line {line}: {what}" if line else what)

    def unknown(self, known: Sequence[str], *key: str) -> None:
        near = nearest(key[-1], known)
        meant = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        self.fault(f"{'.'.join(key)} is an unknown key; {meant}", *key)

    def unknown_outside(self, key: str) -> None:
        if nearest(key, [TABLE]):
            self.unknown([TABLE], key)
        else:
            line = self.lines().get((key,))
            place = f"{self.path}, line {line}" if line else str(self.path)
            self.warnings.append(f"{place}: the unknown key {key!r} is ignored; known here: {TABLE}")

    def text(self, value: object, *key: str, kind: str = "a text") -> str:
        if isinstance(value, str) and "\0" not in value:
            return value
        what = _kind(value) if not isinstance(value, str) else "one with a NUL character"
        self.fault(f"{'.'.join(key)} must be {kind}, not {what}", *key)
        return ""

    def filled(self, value: object, *key: str, kind: str = "a text") -> str:
        if value == "":
            self.fault(f"{'.'.join(key)} is empty", *key)
        return self.text(value, *key, kind=kind)

    def seconds(self, value: object, least: float, largest: float, *key: str) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= largest:
            return float(value)
        what = value if isinstance(value, int | float) and not isinstance(value, bool) else _kind(value)
        self.fault(f"{'.'.join(key)} must be a number of seconds from {least:g} to {largest:g}, not {what}", *key)
        return 0.0

    def globs(self, value: object, *key: str, kind: str = "an array of globs") -> tuple[str, ...]:
        if not isinstance(value, list):
            self.fault(f"{'.'.join(key)} must be {kind}, not {_kind(value)}", *key)
            return ()
        texts = [self.filled(each, *key, kind="an array of globs") for each in value]
        if fault := next(filter(None, (glob_fault(text) for text in texts if text)), ""):
            self.fault(f"{'.'.join(key)} has a glob that cannot be used: {fault}", *key)
        return tuple(texts)

    def words(self, value: object, *key: str) -> tuple[str, ...]:
        kind = "an array of words"
        if not isinstance(value, list) or not value:
            self.fault(f"{'.'.join(key)} must be {kind}, not {'an empty one' if value == [] else _kind(value)}", *key)
            return ()
        return tuple(self.text(each, *key, kind=kind) for each in value)

    def boolean(self, value: object, *key: str) -> bool:
        if not isinstance(value, bool):
            self.fault(f"{'.'.join(key)} must be a boolean, not {_kind(value)}", *key)
        return value is True


def _project(alias: str, entry: object, environ: Mapping[str, str], found: _Findings) -> Project:
    """Return the project that an entry declares; not usable if `found` has faults."""
    key = (TABLE, alias)
    base = found.path.parent
    try:
        check_alias(alias)
    except InvalidName as error:
        found.fault(error.what, *key)
    if not isinstance(entry, dict):
        path = found.filled(entry, *key, kind="a path or a table")
        return Project(alias=alias, path=expand(path, base, environ), origin=str(found.path))
    for name in entry:
        if name not in _KEYS:
            found.unknown(_KEYS, *key, name)
    if "path" not in entry:
        found.fault(f"{'.'.join(key)} has no path", *key)
    path = found.filled(entry["path"], *key, "path") if "path" in entry else ""
    python = found.filled(entry["python"], *key, "python") if "python" in entry else None
    remote = _remote(entry, found, *key)
    if remote is not None and path and not path.startswith(("/", "~")):
        found.fault(f"{'.'.join((*key, 'path'))} is on {remote.place}: it must begin with / or ~", *key, "path")
    return Project(
        alias=alias,
        path=Path(path) if remote else expand(path, base, environ),
        remote=remote,
        python=python,
        env=_env(entry.get("env", {}), found, *key, "env"),
        grace=found.seconds(entry["grace"], 0, _MAX_GRACE, *key, "grace") if "grace" in entry else None,
        reports=_reports(entry.get("reports", []), found, *key, "reports"),
        rules=_rules(entry, found, *key),
        origin=str(found.path),
    )


def _remote(entry: Mapping[str, Any], found: _Findings, *key: str) -> Remote | None:
    """Return where the project is if `host` or `via` says so; its path and Python are then meant over there."""
    if not any(name in entry for name in _REMOTE):
        return None
    host = found.filled(entry["host"], *key, "host") if "host" in entry else ""
    via = found.words(entry["via"], *key, "via") if "via" in entry else ()
    command = found.words(entry["command"], *key, "command") if "command" in entry else OUR_COMMAND
    if bool(host) == bool(via):
        found.fault(f"{'.'.join(key)} must have `host` or `via`, and not both", *key)
    if host.startswith("-") or any(c.isspace() for c in host):
        found.fault(f"{'.'.join((*key, 'host'))} must be a name that ssh knows, or USER@MACHINE", *key, "host")
    return Remote(host, via, command)


def with_settings(project: Project, settings: Mapping[str, Any], environ: Mapping[str, str]) -> Project:
    """Return `project` with the keys of a project's table in `settings`. Raises InvalidOption, which lists faults."""
    found = _Findings(Path("--settings"), dict)
    parsed = _project(project.alias, {"path": "/"} | dict(settings), environ, found)
    if found.faults:
        raise InvalidOption("--settings", "; ".join(found.faults))
    return replace(parsed, path=project.path, origin=project.origin)


SETTINGS: Mapping[str, str] = {**RULE_KEYS, "grace": "seconds", "reports": "globs"}
"""The keys of a project's table that can be changed on the command line, and the form of each value."""


def setting_faults(key: str, value: object) -> list[str]:
    """Return what is wrong with the value of one of `SETTINGS`."""
    found = _Findings(Path(), dict)
    _project("project", {"path": "/", key: value}, {}, found)
    return [fault.removeprefix(f"{TABLE}.project.{key} ") for fault in found.faults]


def _rules(entry: Mapping[str, Any], found: _Findings, *key: str) -> Rules:
    values: dict[str, Any] = {}
    for name, form in RULE_KEYS.items():
        if name not in entry:
            continue
        value, place = entry[name], (*key, name)
        match form:
            case "globs":
                values[name] = found.globs(value, *place)
            case "globs or false":
                kind = "an array of globs, or false"
                values[name] = None if value is False else found.globs(value, *place, kind=kind)
            case "seconds":
                values[name] = found.seconds(value, 1, _MAX_TIMEOUT, *place)
            case "boolean":
                values[name] = found.boolean(value, *place)
    return Rules(**values, origin=str(found.path)) if values else Rules()


def _env(table: object, found: _Findings, *key: str) -> dict[str, str | None]:
    if not isinstance(table, dict):
        found.fault(f"{'.'.join(key)} must be a table, not {_kind(table)}", *key)
        return {}
    for name in table:
        if not name or "=" in name or "\0" in name:
            found.fault(f"{'.'.join(key)}: {name!r} cannot be a variable's name", *key, name)
    kind = "a text, or false to remove the variable"
    return {name: None if value is False else found.text(value, *key, name, kind=kind) for name, value in table.items()}


def _reports(patterns: object, found: _Findings, *key: str) -> tuple[str, ...]:
    if not isinstance(patterns, list):
        found.fault(f"{'.'.join(key)} must be an array of patterns, not {_kind(patterns)}", *key)
        return ()
    texts = [found.filled(pattern, *key, kind="an array of patterns") for pattern in patterns]
    if any(text.startswith("/") for text in texts):
        found.fault(f"{'.'.join(key)} must have patterns that are relative to the project's root", *key)
    return tuple(texts)


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a date")


def _exposure(path: Path) -> tuple[str, ...]:
    """Return a warning if anyone but the user and root can change the config, which decides what runs."""
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()):
        return (f"{path} belongs to another user, who can change it",)
    if mode := stat.S_IMODE(status.st_mode) & 0o022:
        others = "everybody" if mode & 0o002 else "its group"
        return (f"{path} can be changed by {others}: chmod go-w {shlex.quote(str(path))}",)
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    if mode & 0o002 and not mode & stat.S_ISVTX:
        remedy = f"chmod o-w {shlex.quote(str(path.parent))}"
        return (f"{path} can be replaced by everybody, because its directory is writable: {remedy}",)
    return ()
