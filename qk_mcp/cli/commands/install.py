"""`qk-mcp install` and `qk-mcp uninstall`: the server in an MCP client."""

import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from qk_mcp.cli.options import ConfigOption, ProjectOption
from qk_mcp.cli.own_command import program
from qk_mcp.cli.ui.messages import note, warn
from qk_mcp.clients import entries as client_entries
from qk_mcp.clients import files as client_files
from qk_mcp.clients import known as clients
from qk_mcp.clients.known import Client
from qk_mcp.errors import ClientCommandFailed, EntryMissing, EntryNotOurs, EntryTaken, InvalidOption, QkMcpError
from qk_mcp.projects.config import read, user_config_path
from qk_mcp.projects.project import current_directory, locate, parse_declaration
from qk_mcp.projects.registry import config_path
from qk_mcp.text import printable

__all__ = ["install", "uninstall"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""What every client takes; most put the name before that of each tool, within 60 or 64 characters."""

_PATIENCE = 60.0
"""Seconds that a client's own command may take."""

ClientName = Annotated[str | None, Parameter(name="CLIENT")]
ServerName = Annotated[str, Parameter(name="--name", metavar="NAME")]


def install(
    client: ClientName = None,
    /,
    *,
    project: ProjectOption = None,
    config: ConfigOption = None,
    name: ServerName = "qk-mcp",
    write: Annotated[bool, Parameter(negative="")] = False,
    force: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Connect an MCP client: show how, or do it.

    Clients: claude-code, claude-desktop, cursor, vscode, windsurf, zed, codex, gemini, goose, opencode.

    Without --project and --config, the server has the projects in your config and the one that the client is
    started in.

    Parameters
    ----------
    client
        The client's name.
    name
        What the client calls the server.
    write
        Do it, by the client's own command or in its file.
    force
        Replace a server of the same name.
    """
    to = clients.find(client or "")
    if not _NAME.fullmatch(name):
        raise InvalidOption("--name", "it must be 1 to 32 letters, digits, - and _")
    launch = _launch(project or [], config)
    _warn_of_this_python()
    file = clients.file(to, os.environ)
    if write:
        _write(to, file, name, launch, force=force)
    else:
        _show(to, file, name, launch)


def uninstall(client: ClientName = None, /, *, name: ServerName = "qk-mcp") -> None:
    """Take this server out of an MCP client.

    Parameters
    ----------
    client
        The client's name, as for install.
    name
        What the client calls the server.
    """
    to = clients.find(client or "")
    file = clients.file(to, os.environ)
    servers = client_files.servers(to, file)
    ours = [each for each, entry in servers.items() if client_entries.is_ours(client_entries.launch_of(to, entry))]
    if name not in servers:
        raise EntryMissing(to.title, name, file, ours)
    if name not in ours:
        raise EntryNotOurs(to.title, name, file, _started(to, servers[name]))
    if to.own and to.own.remove and (own := shutil.which(to.own.program)):
        _run(own, client_entries.words(to, to.own.remove, name, [""]), f"take {name!r} out of {file} by hand")
    else:
        backup = client_files.remove(to, file, name)
        note(f"removed {name} from {file} (as it was: {backup})")


def _launch(declarations: Sequence[str], config: Path | None) -> list[str]:
    """Return the command that starts the server from everywhere, with any PATH."""
    # -P keeps modules in the directory where the client starts it from taking the place of ours.
    launch = [sys.executable, "-P", "-m", "qk_mcp", "serve"]
    cwd = current_directory()
    projects = [parse_declaration(text, cwd, os.environ) for text in declarations]
    for project in {project.alias: project for project in projects}.values():
        locate(project)
        launch += ["--project", f"{project.alias}:{project.path}"]
    file = config_path(config, os.environ, cwd)
    if file is None and not projects and _is_config_elsewhere():
        file = user_config_path()
    if file is not None:
        read(file, os.environ)
        launch += ["--config", str(file)]
    elif not projects:
        _warn_of_no_projects()
    return launch


def _is_config_elsewhere() -> bool:
    """Say whether the user's config lies where a client that passes on no variables would not find it."""
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    return bool(chosen) and chosen != os.path.expanduser("~/.config") and user_config_path().exists()


def _warn_of_no_projects() -> None:
    file = user_config_path()
    if not (file.exists() and read(file, os.environ).projects):
        warn(
            "there are no projects in your config: the server will have only the one that the client is started in, "
            "if any; `qk-mcp projects add NAME:PATH` adds one"
        )


def _warn_of_this_python() -> None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution("qk-mcp")
    except PackageNotFoundError:
        warn(f"qk-mcp is not installed in {sys.executable}: a client will not find it from another directory")
    prefix = Path(sys.prefix)
    if any((parent / "CACHEDIR.TAG").exists() or parent.name == ".cache" for parent in prefix.parents):
        warn(f"this Python lies in a cache, {prefix}, and may be gone tomorrow: install qk-mcp for good first")


def _show(to: Client, file: Path, name: str, launch: list[str]) -> None:
    alone = f"; for one project alone: {to.project_file} in its root" if to.project_file else ""
    note(f"{to.title} reads {file} {to.readers}{alone}. Put this into it:\n")
    print(printable(client_entries.snippet(to, name, launch)), flush=True)
    note("")
    try:
        there = client_files.servers(to, file).get(name)
    except QkMcpError as failure:
        there = None
        warn(str(failure))
    if there is not None and client_entries.launch_of(to, there) == launch:
        note("It is in already.")
        _say("then", to.then)
        return
    if there is not None:
        warn(f"a server named {name!r} is there already: {_started(to, there)}")
    if to.format != "yaml":
        words = [word for word in sys.argv[1:] if word != "--force"]
        _say("or let it be done", shlex.join([*program(), *words, "--write", *["--force"] * (there is not None)]))
    if to.own and shutil.which(to.own.program):
        _say("or run", shlex.join([to.own.program, *client_entries.words(to, to.own.add, name, launch)]))
    if to.name == "cursor":
        _say("or open", _cursor_link(to, name, launch))
    _say("then", to.then)


def _write(to: Client, file: Path, name: str, launch: list[str], *, force: bool) -> None:
    there = client_files.servers(to, file).get(name)
    if there is not None and client_entries.launch_of(to, there) == launch:
        note(f"{to.title} has the server {name} already, in {file}")
        return
    if there is not None and not force:
        raise EntryTaken(to.title, name, file, _started(to, there), shlex.join(launch))
    # An entry that is there is edited: the client's own command would drop what else its user has written into it.
    if there is None and to.own and (own := shutil.which(to.own.program)):
        by_hand = f"qk-mcp install {to.name} shows what to write into {file} by hand"
        _run(own, client_entries.words(to, to.own.add, name, launch), by_hand)
        if name not in client_files.servers(to, file):  # an old one may ignore what it does not know
            warn(f"it is not in {file}, though: should {to.title} not show the server, {by_hand}")
        _note_time_limit(to, file, name)
    else:
        new = not file.parent.exists()
        backup = client_files.add(to, file, name, launch)
        note(f"added {name} to {file}" + (f" (as it was: {backup})" if backup else ""))
        if new:
            warn(f"{file.parent} was not there: is {to.title} installed?")
    _say("then", to.then)


def _run(own: str, words: Sequence[str], by_hand: str) -> None:
    """Run a client's own command. Raises ClientCommandFailed."""
    import subprocess

    command = shlex.join([Path(own).name, *words])
    try:
        process = subprocess.Popen(
            [own, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except OSError as error:
        raise ClientCommandFailed(command, "could not be started", error.strerror or "", by_hand) from None
    with process:
        try:
            output, _ = process.communicate(timeout=_PATIENCE)
        except BaseException as failure:
            with suppress(ProcessLookupError, PermissionError):  # macOS has the second for what has just ended
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(failure, subprocess.TimeoutExpired):
                raise
            raise ClientCommandFailed(command, f"did not end within {_PATIENCE:g} s", "", by_hand) from None
    if process.returncode:
        told = output.decode(errors="replace").strip()
        raise ClientCommandFailed(command, f"failed with exit code {process.returncode}", told, by_hand)
    note(f"ran: {command}")


def _started(to: Client, entry: Any) -> str:
    launch = client_entries.launch_of(to, entry)
    if launch or not isinstance(entry, Mapping):
        return shlex.join(launch)
    return str(entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl") or dict(entry))


def _cursor_link(to: Client, name: str, launch: Sequence[str]) -> str:
    import base64
    import json
    from urllib.parse import quote

    config = base64.b64encode(json.dumps(client_entries.entry(to, name, launch)).encode()).decode()
    return f"cursor://anysphere.cursor-deeplink/mcp/install?name={quote(name)}&config={quote(config, safe='')}"


def _note_time_limit(to: Client, file: Path, name: str) -> None:
    if to.name == "codex":
        note(
            "Codex gives a server 10 s to start, and its own command cannot change that: should this one ever need "
            f"longer, write startup_timeout_sec = 30 under [mcp_servers.{name}] in {file}"
        )


def _say(label: str, text: str) -> None:
    note(f"{label}: {text}")
