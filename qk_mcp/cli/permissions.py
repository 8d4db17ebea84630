"""`qk-mcp install CLIENT --permissions`: stops a client's questions about tools that change nothing."""

import os
from collections.abc import Sequence
from pathlib import Path

from qk_mcp.cli.doctor.handshake import read_only_tools
from qk_mcp.cli.ui.messages import note, warn
from qk_mcp.clients.files import read_servers, set_option
from qk_mcp.clients.known import Client
from qk_mcp.clients.permissions import CODEX_APPROVAL, allow_tools, forbid_tools, permission_changes, settings_file
from qk_mcp.errors import InvalidOption
from qk_mcp.text import printable

__all__ = ["check_permissions", "grant_permissions", "withdraw_permissions"]

_OPTION = "--permissions"


def check_permissions(to: Client, *, shared: bool) -> None:
    """Raise InvalidOption if `to` has no file for permissions, or if they would be those of other people."""
    if to.name not in ("claude-code", "codex"):
        raise InvalidOption(_OPTION, f"it is for claude-code and codex; grant them in {to.title} when it asks")
    if shared:
        raise InvalidOption(_OPTION, "each person grants their own; leave out --scope project")


def grant_permissions(to: Client, file: Path, name: str, launch: Sequence[str], *, write: bool) -> None:
    """Write the permissions of the server `name`, which `launch` starts, or show what would be written.

    `file` has the servers of the client. Raises ServerFailed, ClientFileUnreadable and ClientFileKept.
    """
    if to.name == "codex":
        _grant_codex(to, file, name, write=write)
        return
    settings, tools = settings_file(os.environ), read_only_tools(launch)
    changes = permission_changes(to, settings, name, tools)
    if not changes:
        note(f"{settings} allows the tools that change nothing already: {', '.join(tools)}")
    elif write:
        backup = allow_tools(to, settings, name, tools)
        note(f"allowed {', '.join(tools)} in {settings}" + (f" (backup: {backup})" if backup else ""))
    else:
        note(f"{_OPTION} changes {settings}, so that {to.title} does not ask about {', '.join(tools)}:\n")
        note(printable(changes))


def withdraw_permissions(to: Client, name: str) -> None:
    """Remove what `grant_permissions` wrote. The entry of a server in Codex's file holds its own."""
    if to.name == "claude-code":
        settings = settings_file(os.environ)
        if forbid_tools(to, settings, name):
            note(f"removed the permissions of {name} from {settings}")


def _grant_codex(to: Client, file: Path, name: str, *, write: bool) -> None:
    ((key, value),) = CODEX_APPROVAL.items()
    warn(f"with {_OPTION}, {to.title} asks about no tool of {name}, run_task included; the rules in your config remain")
    entry = read_servers(to, file).get(name)
    if isinstance(entry, dict) and entry.get(key) == value:
        note(f"{file} has {key} = {value!r} already")
    elif write:
        backup = set_option(to, file, name, key, value)
        note(f"set {key} in {file}" + (f" (backup: {backup})" if backup else ""))
    else:
        note(f'{_OPTION} adds to the entry:\n\n{key} = "{value}"\n')
