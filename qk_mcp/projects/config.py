"""The user's config, a `[projects]` table in TOML or JSON: where it lies, and what it says."""

import json
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from qk_mcp.errors import ConfigBroken, ConfigUnreadable, InvalidName, NoConfig
from qk_mcp.projects.project import TABLE, Project, check_alias, expand
from qk_mcp.text import nearest

__all__ = ["BOM", "Config", "is_json", "parse_config", "present", "read", "read_text", "user_config_path"]

BOM = "\ufeff"

_KEYS = ("path", "python", "env", "grace")
_MAX_GRACE = 600.0
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
    """What a config file says."""

    path: Path
    projects: tuple[Project, ...]
    warnings: tuple[str, ...]
    """What is odd but does no harm."""


def user_config_path() -> Path:
    """Return where the user's own config lies, whether it exists or not. Raises NoConfig."""
    from platformdirs import user_config_path

    try:
        path = user_config_path("qk-mcp", appauthor=False) / "config.toml"
    except RuntimeError:  # there is no home directory; older versions leave the `~`
        raise NoConfig from None
    if not path.is_absolute():
        raise NoConfig
    return path


def read(path: Path, environ: Mapping[str, str]) -> Config:
    """Return what the config at `path` says; relative paths in it start from its directory.

    Raises ConfigUnreadable, and ConfigBroken, which names every fault. An unknown key is a warning.
    """
    text = read_text(path)
    data = parse_config(path, text)

    @cache
    def lines() -> Mapping[tuple[str, ...], int]:
        if is_json(path):
            return {}
        from qk_mcp.editing.toml import line_numbers

        return line_numbers(text.removeprefix(BOM))

    found = _Findings(path, lines)
    for key in data:
        if key != TABLE:
            found.unknown([TABLE], key)
    projects = [_project(alias, entry, environ, found) for alias, entry in data.get(TABLE, {}).items()]
    if found.faults:
        raise ConfigBroken(path, found.faults)
    return Config(path, tuple(projects), (*_exposure(path), *found.warnings))


def present(path: Path) -> bool:
    """Say whether there is something at `path`, be it that it cannot be looked at, which reading it then tells."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def is_json(path: Path) -> bool:
    """Say whether the config at `path` is JSON: by the suffix; all else is TOML."""
    return path.suffix.lower() == ".json"


def read_text(path: Path) -> str:
    """Return the config's text as it is, with its line ends and byte order mark. Raises as `read` does."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        made = f"qk-mcp projects add NAME:PATH --config {shlex.quote(str(path))} makes it"
        by_hand = 'write it: {"projects": {"NAME": "PATH"}}'
        raise ConfigUnreadable(path, "There is no such file.", by_hand if is_json(path) else made) from None
    except IsADirectoryError:
        raise ConfigUnreadable(path, "It is a directory.", "name the file itself") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigUnreadable(path, f"{why}.", "make it a file that you may read") from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigBroken(path, [f"line {line}: this is not UTF-8"]) from None


def parse_config(path: Path, text: str) -> dict[str, Any]:
    """Return the data of the config's text, of which `[projects]`, if it is there, is a table. Raises ConfigBroken."""
    text = text.removeprefix(BOM)
    try:
        data = json.loads(text, object_pairs_hook=_once) if is_json(path) else tomllib.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigBroken(path, [f"line {error.lineno}, column {error.colno}: {error.msg}"]) from None
    except (ValueError, RecursionError) as error:
        reason, place = re.fullmatch(r"(.*?)(?: \(at (.*)\))?", str(error), re.DOTALL).groups()  # type: ignore[union-attr]
        raise ConfigBroken(path, [f"{place}: {reason}" if place else reason]) from None
    if not isinstance(data, dict):
        raise ConfigBroken(path, [f"the whole must be a table, not {_kind(data)}"])
    if not isinstance(entries := data.get(TABLE, {}), dict):
        raise ConfigBroken(path, [f"{TABLE} must be a table, not {_kind(entries)}"])
    return data


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON text, in which a key may stand once only, as in TOML."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return found


@dataclass(frozen=True, slots=True)
class _Findings:
    """What is wrong with a config, each thing with the line where it stands, if that is known."""

    path: Path
    lines: Callable[[], Mapping[tuple[str, ...], int]]
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def fault(self, what: str, *key: str) -> None:
        line = self.lines().get(key)
        self.faults.append(f"line {line}: {what}" if line else what)

    def unknown(self, known: Sequence[str], *key: str) -> None:
        line, near = self.lines().get(key), nearest(key[-1], known)
        place = f"{self.path}, line {line}" if line else str(self.path)
        meant = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        self.warnings.append(f"{place}: the unknown key {'.'.join(key)!r} is ignored; {meant}")

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

    def seconds(self, value: object, largest: float, *key: str) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= largest:
            return float(value)
        what = value if isinstance(value, int | float) and not isinstance(value, bool) else _kind(value)
        self.fault(f"{'.'.join(key)} must be a number of seconds from 0 to {largest:g}, not {what}", *key)
        return 0.0


def _project(alias: str, entry: object, environ: Mapping[str, str], found: _Findings) -> Project:
    """Return the project that an entry declares; worth something only if there are no faults."""
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
    return Project(
        alias=alias,
        path=expand(path, base, environ),
        python=python,
        env=_env(entry.get("env", {}), found, *key, "env"),
        grace=found.seconds(entry["grace"], _MAX_GRACE, *key, "grace") if "grace" in entry else None,
        origin=str(found.path),
    )


def _env(table: object, found: _Findings, *key: str) -> dict[str, str | None]:
    if not isinstance(table, dict):
        found.fault(f"{'.'.join(key)} must be a table, not {_kind(table)}", *key)
        return {}
    for name in table:
        if not name or "=" in name or "\0" in name:
            found.fault(f"{'.'.join(key)}: {name!r} cannot be a variable's name", *key, name)
    kind = "a text, or false to take the variable away"
    return {name: None if value is False else found.text(value, *key, name, kind=kind) for name, value in table.items()}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a date")


def _exposure(path: Path) -> tuple[str, ...]:
    """Return a warning if others than the user and root may change the config, and so say what is run."""
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()):
        return (f"{path} belongs to another user, who can change what it says",)
    if mode := stat.S_IMODE(status.st_mode) & 0o022:
        others = "everybody" if mode & 0o002 else "its group"
        return (f"{path} can be changed by {others}: chmod go-w {shlex.quote(str(path))}",)
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    if mode & 0o002 and not mode & stat.S_ISVTX:
        remedy = f"chmod o-w {shlex.quote(str(path.parent))}"
        return (f"{path} can be replaced by everybody, who may write to its directory: {remedy}",)
    return ()
