"""`qk-mcp uninstall`: removes the server from an MCP client."""

import os
import shutil
from typing import Annotated

from cyclopts import Parameter

from qk_mcp.cli.client_command import report_edit, run_client_command
from qk_mcp.cli.options import ClientName, ScopeOption, ServerName
from qk_mcp.cli.permissions import withdraw_permissions
from qk_mcp.cli.server_options import root_here
from qk_mcp.clients.entries import describe_entry, fill_command, launch_of, starts_qk_mcp
from qk_mcp.clients.files import read_servers, remove_server
from qk_mcp.clients.known import find_client, url_client
from qk_mcp.clients.locations import client_file, shared_file
from qk_mcp.errors import EntryMissing, EntryNotOurs

__all__ = ["uninstall"]


def uninstall(
    client: ClientName = None,
    /,
    *,
    name: ServerName = "qk-mcp",
    scope: ScopeOption = "user",
    url: Annotated[str | None, Parameter(metavar="URL")] = None,
    write: Annotated[bool, Parameter(negative="", show=False)] = False,  # noqa: ARG001 -- always; as for install
) -> None:
    """Remove this server from an MCP client.

    Parameters
    ----------
    client
        The client's name, as for install.
    name
        The server's name in the client.
    scope
        Your own file, or the one of this project.
    url
        The URL of an entry that was installed with --url.
    """
    to = find_client(client or "")
    shared = scope == "project"
    file = shared_file(to, root_here()) if shared else client_file(to, os.environ)
    if url:
        to = url_client(to, "")
    servers = read_servers(to, file)
    launches = {each: launch_of(to, entry) for each, entry in servers.items()}
    ours = [each for each, launch in launches.items() if starts_qk_mcp(launch) or (url and launch == [url])]
    if name not in servers:
        raise EntryMissing(to.title, name, file, ours)
    if name not in ours:
        raise EntryNotOurs(to.title, name, file, describe_entry(to, servers[name]))
    if not shared and to.own and to.own.remove and (own := shutil.which(to.own.program)):
        run_client_command(own, fill_command(to, to.own.remove, name, [""]), f"remove {name!r} from {file} by hand")
    else:
        backup = remove_server(to, file, name, shared=shared)
        report_edit(f"removed {name} from", file, backup)
    if not shared:
        withdraw_permissions(to, name)
