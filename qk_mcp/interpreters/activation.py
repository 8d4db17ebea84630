"""The variables of a project's tasks: those of the server, as after activating the project's environment.

Activation scripts (conda's `etc/conda/activate.d`, `activation.scripts` of
pixi) are not run.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qk_mcp.errors import InvalidVariable
from qk_mcp.interpreters.search import Interpreter
from qk_mcp.projects.project import Project

__all__ = ["MARK", "activated_environment"]

MARK = "QK_MCP_RUN_"
"""The prefix of the variables that mark the processes of one run."""

_SERVER_PREFIX = "QK_MCP_"
_CONDA_UNSET = "***unset***"
"""The value that `conda env config vars unset` leaves."""


def activated_environment(interpreter: Interpreter, project: Project, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a task: `environ` without the server's own, after activation, then the project's `env`.

    Raises InvalidVariable for an `env` that no process can have.
    """
    variables = {name: value for name, value in environ.items() if not _belongs_to_server(name)}
    _deactivate_own(variables, interpreter)
    _activate(variables, interpreter)
    # The output of a Python child must be visible when it is printed, not when the child ends.
    variables["PYTHONUNBUFFERED"] = "1"
    for name, value in project.env.items():
        if why := _refusal(name, value):
            raise InvalidVariable(project.alias, name, why)
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    if "PYTHONIOENCODING" not in project.env and not _prints_utf8(variables):
        # This affects only the standard streams of Python and its children. PYTHONUTF8 would also change how a task
        # opens files, and LC_CTYPE what every other program does. The error handler is the one that Python uses
        # when it replaces a missing locale.
        variables["PYTHONIOENCODING"] = "utf-8:surrogateescape"
    return variables


def _belongs_to_server(name: str) -> bool:
    # A nested `qk` that sees QK_LAUNCHER_RUNNING does not look for its project. The mark of a run is kept: this
    # server may itself be the child of a task, and that task's server must find all descendants.
    return name == "QK_LAUNCHER_RUNNING" or (name.startswith(_SERVER_PREFIX) and not name.startswith(MARK))


def _deactivate_own(variables: dict[str, str], interpreter: Interpreter) -> None:
    """Deactivate the virtual environment of this program, unless it is the project's too.

    Any other active environment stays on PATH after the project's, so that its commands are found as by `qk`.
    """
    own = Path(sys.prefix)
    if sys.prefix == sys.base_prefix or own == interpreter.prefix:
        return
    if variables.get("VIRTUAL_ENV") == str(own):
        del variables["VIRTUAL_ENV"]
        variables.pop("VIRTUAL_ENV_PROMPT", None)
    if "PATH" in variables:
        variables["PATH"] = _without(variables["PATH"], Path(sys.executable).parent)


def _activate(variables: dict[str, str], interpreter: Interpreter) -> None:
    """Set what the environment's own activation sets."""
    prefix = interpreter.prefix
    if (prefix / "pyvenv.cfg").is_file() or str(interpreter.python) != sys.executable:
        # It names the library of the server's Python, and no other Python starts with that.
        variables.pop("PYTHONHOME", None)
    path = variables.get("PATH") or os.defpath
    binaries = prefix / "bin" if (prefix / "bin").is_dir() else interpreter.python.parent
    if (prefix / "pyvenv.cfg").is_file():
        variables["VIRTUAL_ENV"] = str(prefix)
        variables.pop("VIRTUAL_ENV_PROMPT", None)
    elif (prefix / "conda-meta").is_dir():
        variables |= _conda_variables(prefix)
        path = variables.get("PATH") or os.defpath
        variables["CONDA_PREFIX"] = str(prefix)
        variables["CONDA_DEFAULT_ENV"] = _conda_name(prefix)
        variables.pop("VIRTUAL_ENV", None)
        variables.pop("VIRTUAL_ENV_PROMPT", None)
    elif str(binaries) in path.split(os.pathsep):
        # A plain Python has nothing to activate. With /usr/bin first, its commands would hide those that the user
        # prefers (/usr/local/bin, a version manager's shims).
        variables["PATH"] = path
        return
    variables["PATH"] = os.pathsep.join(filter(None, (str(binaries), _without(path, binaries))))


def _without(path: str, directory: Path) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.normpath(entry) != str(directory))


def _conda_variables(prefix: Path) -> dict[str, str]:
    """Return the variables that conda and pixi set on activation: those of packages, then those of the environment.

    `conda env config vars set` writes the latter to `conda-meta/state`.
    """
    tables: list[object] = [_json(file) for file in sorted((prefix / "etc" / "conda" / "env_vars.d").glob("*.json"))]
    tables.append(_json(prefix / "conda-meta" / "state").get("env_vars"))
    variables: dict[str, str] = {}
    for table in tables:
        for name, value in table.items() if isinstance(table, dict) else ():
            if isinstance(value, str) and value != _CONDA_UNSET and not _refusal(name, value):
                variables[name] = value
    return variables


def _json(file: Path) -> dict[str, Any]:
    import json

    try:
        document = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # absent, or broken: conda itself reports that, and tasks may do without
    return document if isinstance(document, dict) else {}


def _conda_name(prefix: Path) -> str:
    """Return conda's name for an environment: its directory's name within a conda installation, else its path."""
    if (prefix / "condabin").is_dir():
        return "base"
    return prefix.name if prefix.parent.name == "envs" else str(prefix)


def _prints_utf8(variables: Mapping[str, str]) -> bool:
    """Return whether Python writes UTF-8 to its standard streams by itself.

    It does in a UTF-8 locale and, unless disabled, in the "C" locale or without one (PEP 538 and 540). A locale
    that is not installed counts as "C".
    """
    if encoding := variables.get("PYTHONIOENCODING", "").partition(":")[0]:
        return _is_utf8(encoding)
    if variables.get("PYTHONUTF8") == "1":
        return True
    if "0" in (variables.get("PYTHONUTF8"), variables.get("PYTHONCOERCECLOCALE")):
        return False
    locale = next(filter(None, map(variables.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "C")
    return locale in ("C", "POSIX") or _is_utf8(locale.partition("@")[0].rpartition(".")[2])


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def _refusal(name: str, value: str | None) -> str:
    """Return why no process can have this variable, empty if one can."""
    if not name or "=" in name:
        return "The name of a variable must not be empty or contain an equals sign."
    try:
        if b"\0" in os.fsencode(name) + os.fsencode(value or ""):
            return "It contains a NUL character."
    except UnicodeEncodeError:
        return "It contains a character that this system's encoding lacks."
    return ""
