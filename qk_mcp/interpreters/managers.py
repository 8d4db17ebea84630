"""The tool that manages a project's dependencies, such as uv or Poetry: its commands, and where its environment is.

A manager's environment changes only through the manager: pip, or a second
environment next to it, would break what the manager keeps consistent.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import quote
from typing import Any

__all__ = ["Manager", "find_manager", "poetry_environment", "uv_workspace"]


@dataclass(frozen=True, slots=True)
class Manager:
    """A project's manager. Both commands work from any directory."""

    name: str
    add: str
    """The command that adds a development dependency and installs it, without the requirement at its end."""
    sync: str
    """The command that installs the project and its dependencies."""

    def add_command(self, requirement: str) -> str:
        """Return the command that adds `requirement` to the project's development dependencies."""
        return f"{self.add} {quote(requirement)}"


_LOCK_FILES = {"uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm", "pixi.lock": "pixi", "Pipfile": "pipenv"}
_TABLE = re.compile(r"^[ \t]*\[+tool\.(uv|poetry|pdm|pixi)\b", re.MULTILINE)


def find_manager(root: Path) -> Manager | None:
    """Return the manager of the project at `root`, by its lock file, else by a `[tool]` table; None if it has none."""
    name = next((name for file, name in _LOCK_FILES.items() if (root / file).is_file()), None)
    if name is None and (root / "pixi.toml").is_file():
        name = "pixi"
    if name is None and (match := _TABLE.search(_text(root / "pyproject.toml"))):
        name = match[1]
    if name is None and uv_workspace(root):
        name = "uv"
    at = quote(str(root))
    manifest = quote(str(root / ("pixi.toml" if (root / "pixi.toml").is_file() else "pyproject.toml")))
    pipfile = f"PIPENV_PIPFILE={quote(str(root / 'Pipfile'))} pipenv"
    managers = {
        "uv": Manager("uv", f"uv add --project {at} --dev", f"uv sync --project {at}"),
        "poetry": Manager("Poetry", f"poetry -C {at} add --group dev", f"poetry -C {at} install"),
        "pdm": Manager("PDM", f"pdm add -p {at} -d", f"pdm install -p {at}"),
        "pixi": Manager(
            "pixi", f"pixi add --manifest-path {manifest} --pypi", f"pixi install --manifest-path {manifest}"
        ),
        "pipenv": Manager("Pipenv", f"{pipfile} install --dev", f"{pipfile} sync --dev"),
    }
    return managers[name] if name else None


def uv_workspace(root: Path) -> Path | None:
    """Return the root of the uv workspace that the project at `root` is a member of, None if there is none.

    As in uv, the nearest `pyproject.toml` above the project decides. Its `members` and `exclude` are globs.
    """
    if not (root / "pyproject.toml").is_file():
        return None
    above = next((parent for parent in root.parents if (parent / "pyproject.toml").is_file()), None)
    if above is None or "workspace" not in _text(above / "pyproject.toml"):
        return None
    workspace = _table(_toml(above / "pyproject.toml"), "tool", "uv", "workspace")
    path = root.relative_to(above).as_posix()
    return above if _matches(path, workspace.get("members")) and not _matches(path, workspace.get("exclude")) else None


def poetry_environment(root: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the environment that Poetry made for the project at `root` outside of it, None if there is none.

    Follows Poetry 1 and 2 (`EnvManager.generate_env_name`): the name ends with a hash of the root and with
    Python's version, and `envs.toml` names the version that `poetry env use` chose.
    """
    if not (root / "pyproject.toml").is_file():
        return None
    manager = find_manager(root)
    if manager is None or manager.name != "Poetry":
        return None
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    digest = urlsafe_b64encode(sha256(os.fsencode(os.path.normcase(os.path.realpath(root)))).digest())[:8].decode()
    directory = _poetry_directory(root, environ)
    if directory is None:
        return None
    made = {path.name: path for path in directory.glob(f"*-{digest}-py*")}
    if not made:
        return None
    for name, chosen in _toml(directory / "envs.toml").items():
        if name.endswith(f"-{digest}") and isinstance(chosen, dict):
            path = made.get(f"{name}-py{chosen.get('minor')}")
            if path:
                return path
    return made[max(made, key=_python_of_name)]


def _python_of_name(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name.rpartition("-py")[2])]


def _poetry_directory(root: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the directory of Poetry's environments."""
    import sys

    home = environ.get("HOME")
    mac = sys.platform == "darwin"
    config = environ.get("POETRY_CONFIG_DIR")
    if not config and home:
        base = f"{home}/Library/Application Support" if mac else environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        config = f"{base}/pypoetry"
    settings = _toml(Path(config, "config.toml")) if config else {}
    local = _toml(root / "poetry.toml")
    cache = environ.get("POETRY_CACHE_DIR") or local.get("cache-dir") or settings.get("cache-dir")
    if not cache and home:
        base = f"{home}/Library/Caches" if mac else environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
        cache = f"{base}/pypoetry"
    chosen = environ.get("POETRY_VIRTUALENVS_PATH")
    for each in (local, settings):
        chosen = chosen or _table(each, "virtualenvs").get("path")
    if chosen:
        return Path(os.path.expanduser(str(chosen).replace("{cache-dir}", str(cache or ""))))
    return Path(str(cache), "virtualenvs") if cache else None


def _matches(path: str, patterns: object) -> bool:
    """Return whether one of `patterns` matches; as in uv, only `**` crosses directories."""
    for pattern in patterns if isinstance(patterns, list) else ():
        pattern = os.path.normpath(str(pattern))
        parts, names = pattern.split("/"), path.split("/")
        if "**" in parts:
            if fnmatchcase(path, pattern) or fnmatchcase(path, pattern.replace("**/", "")):
                return True
        elif len(parts) == len(names) and all(map(fnmatchcase, names, parts)):
            return True
    return False


def _table(document: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return a table in a document; empty if there is none."""
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _toml(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_text(file))
    except ValueError:
        return {}  # its own tool reports what is wrong with it


def _text(file: Path) -> str:
    """Return a file's text; a missing or unreadable file manages nothing."""
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
