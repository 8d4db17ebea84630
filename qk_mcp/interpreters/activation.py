"""The environment of a project's tasks: the server's, as it is once the project's environment was activated."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from qk_mcp.errors import InvalidVariable
from qk_mcp.interpreters.search import Interpreter
from qk_mcp.projects.project import Project

__all__ = ["MARK", "activated_environment"]

MARK = "QK_MCP_RUN_"
"""How the variables begin by which the processes of one run are recognised."""

_SERVERS = "QK_MCP_"


def activated_environment(interpreter: Interpreter, project: Project, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a task: `environ` without what is the server's own, activated, then the project's `env`.

    Raises InvalidVariable for an `env` that no process can have.
    """
    variables = {name: value for name, value in environ.items() if not _is_servers(name)}
    _leave_own(variables, interpreter)
    _enter(variables, interpreter)
    # Output that a Python child prints must be seen when it is printed, not when the child ends.
    variables["PYTHONUNBUFFERED"] = "1"
    for name, value in project.env.items():
        if why := _fault(name, value):
            raise InvalidVariable(project.alias, name, why)
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    if "PYTHONIOENCODING" not in project.env and not _prints_utf8(variables):
        # Of the three ways this is the least intrusive: PYTHONUTF8 would change how a task opens its files, and
        # LC_CTYPE what every other program does. It reaches the standard streams of Python only, children too.
        # The error handler is the one that Python itself takes where it makes up for a missing locale.
        variables["PYTHONIOENCODING"] = "utf-8:surrogateescape"
    return variables


def _is_servers(name: str) -> bool:
    # A nested `qk` that sees QK_LAUNCHER_RUNNING does not look for its project. The mark of a run stays: this
    # server may itself be a task's child, whose descendants must be found.
    return name == "QK_LAUNCHER_RUNNING" or (name.startswith(_SERVERS) and not name.startswith(MARK))


def _leave_own(variables: dict[str, str], interpreter: Interpreter) -> None:
    """Leave the virtual environment that this program runs in, unless it is the project's too.

    Another one that is active stays on PATH, behind the project's, so that its commands are found as by `qk`.
    """
    own = Path(sys.prefix)
    if sys.prefix == sys.base_prefix or own == interpreter.prefix:
        return
    if variables.get("VIRTUAL_ENV") == str(own):
        del variables["VIRTUAL_ENV"]
        variables.pop("VIRTUAL_ENV_PROMPT", None)
    if "PATH" in variables:
        variables["PATH"] = _without(variables["PATH"], Path(sys.executable).parent)


def _enter(variables: dict[str, str], interpreter: Interpreter) -> None:
    """Do as the environment's own `activate` does."""
    prefix = interpreter.prefix
    if (prefix / "pyvenv.cfg").is_file() or str(interpreter.python) != sys.executable:
        # It names the library of the server's Python, with which no other can start.
        variables.pop("PYTHONHOME", None)
    path = variables.get("PATH") or os.defpath
    binaries = prefix / "bin" if (prefix / "bin").is_dir() else interpreter.python.parent
    if (prefix / "pyvenv.cfg").is_file():
        variables["VIRTUAL_ENV"] = str(prefix)
        variables.pop("VIRTUAL_ENV_PROMPT", None)
    elif (prefix / "conda-meta").is_dir():
        variables["CONDA_PREFIX"] = str(prefix)
        variables["CONDA_DEFAULT_ENV"] = _conda_name(prefix)
        variables.pop("VIRTUAL_ENV", None)
        variables.pop("VIRTUAL_ENV_PROMPT", None)
    elif str(binaries) in path.split(os.pathsep):
        # A plain Python has nothing to activate, and /usr/bin first would put what it holds before what the user
        # wants instead (/usr/local/bin, a version manager's shims).
        variables["PATH"] = path
        return
    variables["PATH"] = os.pathsep.join(filter(None, (str(binaries), _without(path, binaries))))


def _without(path: str, directory: Path) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.normpath(entry) != str(directory))


def _conda_name(prefix: Path) -> str:
    """Return what conda calls an environment: its name among its installation's, else its path."""
    if (prefix / "condabin").is_dir():
        return "base"
    return prefix.name if prefix.parent.name == "envs" else str(prefix)


def _prints_utf8(variables: Mapping[str, str]) -> bool:
    """Return whether Python writes UTF-8 to its standard streams by itself.

    It does in a UTF-8 locale and, unless told otherwise, in "C" and where none
    is set (PEP 538 and 540), which is also where a locale that is not installed ends.
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


def _fault(name: str, value: str | None) -> str:
    """Return why no process can have such a variable, empty when one can."""
    if not name or "=" in name:
        return "A variable's name is not empty and holds no equals sign."
    try:
        if b"\0" in os.fsencode(name) + os.fsencode(value or ""):
            return "It holds a NUL character."
    except UnicodeEncodeError:
        return "It holds a character that this system's encoding lacks."
    return ""
