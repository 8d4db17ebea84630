"""`qk-mcp install`: adds the server to an MCP client."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qk_mcp.cli.bytecode import compile_imports
from qk_mcp.cli.client_command import report_edit, run_client_command
from qk_mcp.cli.options import ClientName, ConfigOption, ProjectOption, ScopeOption, ServerName
from qk_mcp.cli.own_command import own_command
from qk_mcp.cli.permissions import check_permissions, grant_permissions
from qk_mcp.cli.server_options import own_options, remote_options, root_here, shared_options, warn_of_this_python
from qk_mcp.cli.ui.messages import note, warn
from qk_mcp.clients.entries import describe_entry, fill_command, fill_link, launch_of, make_entry, snippet
from qk_mcp.clients.files import is_editable, put_server, read_servers
from qk_mcp.clients.known import Client, find_client, shared_client, url_client
from qk_mcp.clients.launchers import Launcher, default_launcher, launch_words
from qk_mcp.clients.locations import client_file, shared_file
from qk_mcp.errors import EntryTaken, InvalidOption, QkMcpError
from qk_mcp.projects.remote import Remote
from qk_mcp.text import printable

__all__ = ["install"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""What every client accepts. Most put the name before that of each tool and allow 60 or 64 characters in total."""


def install(
    client: ClientName = None,
    /,
    *,
    project: ProjectOption = None,
    config: ConfigOption = None,
    name: ServerName = "qk-mcp",
    scope: ScopeOption = "user",
    launcher: Annotated[Launcher | None, Parameter(name="--launcher")] = None,
    host: Annotated[str | None, Parameter(metavar="USER@MACHINE")] = None,
    url: Annotated[str | None, Parameter(metavar="URL")] = None,
    token_file: Path | None = None,
    permissions: Annotated[bool, Parameter(negative="")] = False,
    write: Annotated[bool, Parameter(negative="")] = False,
    force: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Connect an MCP client: show what to do, or do it with --write.

    Clients: claude-code, claude-desktop, cursor, vscode, windsurf, zed, codex, gemini, goose, opencode.

    Without --project and --config, the server has the projects in your config, and the project of the directory
    in which the client starts it.

    Parameters
    ----------
    client
        The client's name.
    name
        The server's name in the client.
    scope
        For you, or in a file of this project, to commit.
    launcher
        What starts it: this program, uvx, or PATH's python.
    host
        Run the whole server on this machine, over ssh.
    url
        Connect to a server that serves HTTP there.
    token_file
        The file with the token of that server.
    permissions
        Stop questions about tools that change nothing (claude-code), or about all (codex).
    write
        Do it, with the client's own command or in its file.
    force
        Replace a server of the same name.
    """
    to = find_client(client or "")
    if not _NAME.fullmatch(name):
        raise InvalidOption("--name", "it must be 1 to 32 letters, digits, - and _")
    shared = scope == "project"
    if permissions:
        check_permissions(to, shared=shared)
    elsewhere = host or url
    if elsewhere and (shared or launcher or (url and (project or config or host))):
        raise InvalidOption("--url" if url else "--host", "it does not go together with the other options")
    if token_file and not url:
        raise InvalidOption("--token-file", "it is for --url, which is missing")
    launch = launch_words(launcher or default_launcher(os.environ, shared=shared), shared=shared)
    if host:
        file = client_file(to, os.environ)
        launch = Remote(host=host).argv(["serve", *remote_options(project or [], config)])
    elif url:
        file = client_file(to, os.environ)
        launch = [_checked_url(url)]
        to = url_client(to, _token(token_file))
    elif shared:
        root = root_here()
        to, file = shared_client(to), shared_file(to, root)
        launch += shared_options(project or [], config, root)
    else:
        file = client_file(to, os.environ)
        launch += own_options(project or [], config)
        if launch[0] == sys.executable:
            warn_of_this_python()
    if write:
        _write(to, file, name, launch, force=force, shared=shared)
        if launch[0] == sys.executable:
            compile_imports()
    else:
        _show(to, file, name, launch)
    if permissions:
        grant_permissions(to, file, name, launch, write=write)


def _token(file: Path | None) -> str:
    from qk_mcp.runs.output_files import outputs_directory
    from qk_mcp.server.tokens import read_token

    path = (file or outputs_directory().with_name("token")).expanduser()
    if not path.exists():
        raise InvalidOption("--token-file", f"there is no {path}: name the file with the token of the server")
    return read_token(path)


def _checked_url(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+/\S*", url):
        raise InvalidOption("--url", f"it must be like http://127.0.0.1:8765/mcp, not {url!r}")
    return url


def _show(to: Client, file: Path, name: str, launch: list[str]) -> None:
    alone = f"; for a single project: {to.project_file} in its root" if to.project_file else ""
    note(f"{to.title} reads {file} {to.readers}{alone}. Add this to it:\n")
    print(printable(snippet(to, name, launch)), flush=True)
    note("")
    try:
        entry = read_servers(to, file).get(name)
    except QkMcpError as failure:
        entry = None
        warn(str(failure))
    if entry is not None and launch_of(to, entry) == launch:
        note("The server is there already.")
        _say("then", to.then)
        return
    if entry is not None:
        warn(f"there is another server named {name!r}: {describe_entry(to, entry)}")
    if is_editable(to):
        words = [word for word in sys.argv[1:] if word != "--force"]
        _say("or let qk-mcp do it", shlex.join([*own_command(), *words, "--write", *["--force"] * (entry is not None)]))
    if to.own and shutil.which(to.own.program):
        _say("or run", shlex.join([to.own.program, *fill_command(to, to.own.add, name, launch)]))
    if to.link:
        _say("or open", fill_link(to, name, launch))
    _say("then", to.then)


def _write(to: Client, file: Path, name: str, launch: list[str], *, force: bool, shared: bool) -> None:
    entry = read_servers(to, file).get(name)
    if entry is not None and launch_of(to, entry) == launch:
        note(f"{to.title} has the server {name} already, in {file}")
        return
    if entry is not None and not force:
        raise EntryTaken(to.title, name, file, describe_entry(to, entry), shlex.join(launch))
    # An existing entry is edited: the client's own command would drop its other settings.
    if entry is None and to.own and (own := shutil.which(to.own.program)):
        by_hand = f"qk-mcp install {to.name} shows what to write into {file} by hand"
        run_client_command(own, fill_command(to, to.own.add, name, launch), by_hand)
        if name not in read_servers(to, file):  # an old version may ignore unknown options
            warn(f"the server is not in {file}: if {to.title} does not show it, {by_hand}")
        elif make_entry(to, name, launch).keys() - read_servers(to, file)[name].keys():
            put_server(to, file, name, launch)  # such as Codex's time limits, for which its command has no option
    else:
        new = not file.parent.exists()
        report_edit(f"added {name} to", file, put_server(to, file, name, launch, shared=shared))
        if new and not shared and not shutil.which(to.own.program if to.own else to.program or os.devnull):
            warn(f"{file.parent} did not exist: is {to.title} installed?")
    _say("then", to.then)


def _say(label: str, text: str) -> None:
    note(f"{label}: {text}")
