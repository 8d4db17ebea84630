"""The checks of `qk-mcp doctor`: each examines one thing and returns its state and a remedy."""

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from qk_mcp import __version__
from qk_mcp.cli.own_command import own_command, read_script_head, starts_this_program
from qk_mcp.clients.launchers import is_under_uvx
from qk_mcp.errors import QkMcpError
from qk_mcp.projects.config import read_config
from qk_mcp.projects.project import Project

__all__ = ["Check", "check_config", "check_project", "check_scripts", "check_server", "check_version", "failed"]

_SLOW = 5.0
"""Seconds of describing above which the check notes that agents wait for it."""
_IMPATIENT = 10.0
"""Seconds that the least patient client gives a server to start."""
_PASSED = ("HOME", "LOGNAME", "SHELL", "TERM", "USER")
_BARE_PATH = "/usr/local/bin:/usr/bin:/bin"
"""The variables that graphical clients pass on, and a PATH like theirs."""


@dataclass(frozen=True, slots=True)
class Check:
    """What was examined, and its state."""

    check: str
    status: Literal["ok", "note", "wrong"]
    what: str
    """One or more lines; the first is the summary."""
    remedy: str = ""


def failed(check: str, failure: QkMcpError) -> Check:
    """Return the check that a failure ended."""
    return Check(check, "wrong", "\n".join(filter(None, (failure.what, failure.why))), failure.hint)


def check_version() -> Check:
    """Report the version and the interpreter of this program."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    what = f"qk-mcp {__version__} on Python {platform.python_version()}\n{sys.executable}"
    try:
        return Check("program", "ok", f"{what}, fastmcp {version('fastmcp')}")
    except PackageNotFoundError:
        remedy = f"{shlex.quote(sys.executable)} -m pip install qk-mcp"
        return Check("program", "wrong", f"{what}\nfastmcp is not installed there", remedy)


def check_scripts(environ: Mapping[str, str]) -> Iterator[Check]:
    """Report which `qk-mcp` a shell starts, and whether quickie's script of that name has replaced ours."""
    if is_under_uvx(environ):
        yield Check("command", "ok", f"uvx starts this one\n{shlex.join(own_command())}")
        return
    own = _own_script()
    first = shutil.which("qk-mcp", path=environ.get("PATH"))
    if first is None:
        what = f"no qk-mcp is on PATH\nstart it as {shlex.join([sys.executable, '-m', 'qk_mcp'])}"
        yield Check("command", "note", what, f"add {own.parent} to PATH" if own else "")
    else:
        yield _script(Path(first), "the qk-mcp that a shell finds", own)
    if own and (first is None or not own.samefile(first)):
        installed = _script(own, "the qk-mcp of this installation", own)
        if installed.status == "wrong":
            yield installed


def _own_script() -> Path | None:
    from importlib.metadata import PackageNotFoundError, files

    try:
        found = [str(file.locate()) for file in files("qk-mcp") or () if file.name == "qk-mcp"]
    except PackageNotFoundError:
        return None
    return next((Path(script) for script in map(os.path.normpath, found) if os.path.isfile(script)), None)


def _script(script: Path, which: str, own: Path | None) -> Check:
    from qk_mcp.interpreters.install_commands import tool_reinstall_command

    try:
        text = read_script_head(script)
    except OSError as error:
        return Check("command", "wrong", f"{which} cannot be read: {error.strerror}\n{script}", _restore_command())
    if "quickie" in text and "qk_mcp" not in text:
        if own and script.samefile(own):
            what = f"{which} is quickie's own server, which has replaced ours\n{script}"
            return Check("command", "wrong", what, _restore_command())
        what = f"{which} is quickie's own server, of another environment\n{script}"
        start = shlex.join([sys.executable, "-m", "qk_mcp"])
        remedy = f"start this one as {start}, or put its directory first on PATH"
        # uv and pipx link all tools into one directory, where the last one installed by force wins.
        if own and script.parent != own.parent and (restore := tool_reinstall_command()):
            remedy = restore
        return Check("command", "wrong", what, remedy)
    if "qk_mcp" not in text:
        return Check("command", "note", f"cannot identify {which}: it is a shim or another program\n{script}")
    if not starts_this_program(text):
        return Check("command", "note", f"{which} belongs to another installation\n{script}")
    return Check("command", "ok", f"{which} is this one\n{script}")


def _restore_command() -> str:
    """Return the command that restores our script, which depends on what installed this program."""
    from qk_mcp.interpreters.install_commands import reinstall_command

    return reinstall_command(_origin(), os.environ)


def _origin() -> str:
    """Return what to give pip: the directory that this program was installed from, or its name on the index."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        url = json.loads(distribution("qk-mcp").read_text("direct_url.json") or "{}").get("url", "")
    except (PackageNotFoundError, ValueError, AttributeError):
        return "qk-mcp"
    parts = urlsplit(str(url))
    return unquote(parts.path) if parts.scheme == "file" else "qk-mcp"


def check_config(file: Path | None) -> Iterator[Check]:
    """Report whether a config is readable, valid and private; None if there is none."""
    if file is None:
        yield Check("config", "ok", "there is none, and none is needed")
        return
    try:
        config = read_config(file, os.environ)
    except QkMcpError as failure:
        yield failed("config", failure)
        return
    for warning in config.warnings:
        what, colon, remedy = warning.rpartition(": chmod ")
        yield Check("config", "wrong", what or warning, f"chmod {remedy}" if colon else "edit it")
    if not config.warnings:
        yield Check("config", "ok", f"valid, with {_count(len(config.projects), 'project')}\n{file}")


def check_project(project: Project, environ: Mapping[str, str], seconds: float) -> Check:
    """Describe a project's tasks as a server does."""
    import asyncio

    from qk_mcp.interpreters.plan import resolve
    from qk_mcp.tasks.cache import CatalogCache
    from qk_mcp.tasks.catalog import Catalog
    from qk_mcp.tasks.rule_effects import unused_rules

    async def describe() -> Catalog:
        catalogs = CatalogCache(environ, timeout=seconds)
        try:
            return await catalogs.get(project)
        finally:
            await catalogs.close()

    subject = f"project {project.alias}"
    try:
        interpreter = None if project.remote else resolve(project, environ).interpreter
        began = time.monotonic()
        catalog = asyncio.run(describe())
    except QkMcpError as failure:
        fault = failed(subject, failure)
        return replace(fault, what=fault.what.removeprefix(f"project {project.alias!r}").lstrip(": "))
    took = time.monotonic() - began
    what = f"{_count(len(catalog.tasks), 'task')}, described in {took:.2f} s\nroot {catalog.root}\n"
    if interpreter is not None:
        what += f"Python {interpreter.python} ({interpreter.reason}), quickie {interpreter.quickie}"
    elif project.remote is not None:
        what += f"on {project.remote.place}"
    problems = [*catalog.problems, *(f"{task.name}: {task.error}" for task in catalog.tasks if task.error)]
    if problems:
        return Check(subject, "wrong", "\n".join((what, *problems)), "fix what is named above")
    if unused := [*unused_rules(project.rules, catalog.tasks)]:
        remedy = f"correct it: qk-mcp projects set {shlex.quote(project.alias)} RULE GLOB"
        return Check(subject, "note", "\n".join((what, *unused)), remedy)
    if took > _SLOW:
        return Check(subject, "note", what, "move slow work from the module's import into tasks: agents wait for it")
    if interpreter and (elsewhere := _choice_elsewhere(project, interpreter.python, environ)):
        remedy = "name its Python as `python` in your config"
        return Check(subject, "note", f"{what}\n{elsewhere}", remedy)
    return Check(subject, "ok", what)


def _choice_elsewhere(project: Project, chosen: Path, environ: Mapping[str, str]) -> str:
    """Return what differs if the choice of Python depends on variables that graphical clients do not pass on."""
    from qk_mcp.interpreters.plan import resolve

    passed = {name: environ[name] for name in _PASSED if name in environ} | {"PATH": _BARE_PATH}
    try:
        found = resolve(project, passed).interpreter
    except QkMcpError:
        return "a server started by a graphical client finds no Python for it"
    if found.python == chosen:
        return ""
    return f"a server started by a graphical client uses {found.python} ({found.reason})"


def check_server(options: Sequence[str], seconds: float, *, listing: bool) -> Check:
    """Start a server and talk to it as a client does; describing a project may take `seconds`.

    Without projects a listing is an error, so `listing` must be false then.
    """
    from qk_mcp.cli.doctor.handshake import END_LIMIT, shake_hands

    command = [sys.executable, "-P", "-m", "qk_mcp", "serve", *options, "--describe-timeout", f"{seconds:g}"]
    try:
        answer = shake_hands(command, seconds + 10, listing=listing)
    except QkMcpError as failure:
        return failed("server", failure)
    tasks = _count(sum(len(entry["tasks"]) for entry in answer.entries), "task")
    what = f"answered in {answer.hello.seconds:.2f} s, listed {tasks}, ended in {answer.end:.2f} s"
    if not {"list_tasks", "run_task"} <= {*answer.tools}:
        return Check("server", "wrong", f"{what}\nits tools are {', '.join(answer.tools)}", _restore_command())
    if answer.hello.seconds > _IMPATIENT:
        remedy = "some clients wait no longer than 10 s: raise their limit (Codex: startup_timeout_sec = 30)"
        return Check("server", "note", what, remedy)
    return Check("server", "note" if answer.end > END_LIMIT else "ok", what)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
