"""The MCP clients that `install` knows: the file of each, and the form of its entries.

Paths and forms come from the clients' own documentation. In a path,
`{VARIABLE:default}` stands for a variable; `entries` explains the placeholders of
an entry and a command.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from qk_mcp.errors import NoUrlEntry, UnknownClient
from qk_mcp.text import nearest

__all__ = [
    "CLIENTS",
    "Client",
    "OwnCommand",
    "find_client",
    "shared_client",
    "url_client",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """The command with which a client edits its own file."""

    program: str
    add: tuple[str, ...]
    remove: tuple[str, ...] = ()
    """Empty if it can only add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers."""

    name: str
    title: str
    files: Mapping[str, tuple[str, ...]]
    """The user's own file by `sys.platform`, "" for every other.

    Of several, it is the first that exists, or else the first whose directory exists.
    """
    project_file: str = ""
    """The file of a single project, relative to its root, which its people may share; empty if there is none."""
    format: Literal["json", "toml", "yaml"] = "json"
    table: str = "mcpServers"
    """The key whose value holds the servers by name."""
    entry: Mapping[str, Any]
    url_entry: Mapping[str, Any] | None = None
    """The form of an entry for a server that is reached over HTTP; None if the file cannot have one."""
    own: OwnCommand | None = None
    readers: str
    """Where the servers of the user's own file are available."""
    then: str
    """What to do after the server was added."""
    link: str = ""
    """A link that asks the client to add the server, with `{name}` and `{entry}` (base64 of JSON)."""
    aliases: tuple[str, ...] = ()
    program: str = ""
    """The client's command, if `own` does not name it: on PATH, it shows that the client is installed."""


_PLAIN = {"command": "{program}", "args": "{args}"}
_BEARER = {"url": "{program}", "headers": "{headers}"}
_CONFIG = "{XDG_CONFIG_HOME:~/.config}"
_ROAMING = "{APPDATA:~/AppData/Roaming}"
_FLATPAK = "~/.var/app"
_APPLICATIONS = "~/Library/Application Support"

CLIENTS = (
    Client(
        name="claude-code",
        title="Claude Code",
        files={"": ("{CLAUDE_CONFIG_DIR:~}/.claude.json",)},
        project_file=".mcp.json",
        entry={"type": "stdio", **_PLAIN},
        url_entry={"type": "http", **_BEARER},
        own=OwnCommand(
            program="claude",
            add=("mcp", "add", "-s", "user", "{name}", "--", "{launch}"),
            remove=("mcp", "remove", "-s", "user", "{name}"),
        ),
        readers="in every project",
        then="start a new session of Claude Code; /mcp shows the server",
        aliases=("claude",),
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        files={
            "": (f"{_CONFIG}/Claude/claude_desktop_config.json",),
            "darwin": (f"{_APPLICATIONS}/Claude/claude_desktop_config.json",),
            "win32": (
                "{LOCALAPPDATA:~/AppData/Local}/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json",
                f"{_ROAMING}/Claude/claude_desktop_config.json",
            ),
        },
        entry=_PLAIN,
        readers="in every conversation",
        then="restart Claude Desktop; Settings > Developer shows the server",
    ),
    Client(
        name="cursor",
        title="Cursor",
        files={"": ("~/.cursor/mcp.json",)},
        project_file=".cursor/mcp.json",
        entry=_PLAIN,
        url_entry=_BEARER,
        readers="in every project",
        then="check that the server is switched on in Cursor's settings, under Tools & MCP",
        link="cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={entry}",
        program="cursor",
    ),
    Client(
        name="vscode",
        title="VS Code",
        files={
            "": (f"{_CONFIG}/Code/User/mcp.json", f"{_FLATPAK}/com.visualstudio.code/config/Code/User/mcp.json"),
            "darwin": (f"{_APPLICATIONS}/Code/User/mcp.json",),
            "win32": (f"{_ROAMING}/Code/User/mcp.json",),
        },
        project_file=".vscode/mcp.json",
        table="servers",
        entry={"type": "stdio", **_PLAIN},
        url_entry={"type": "http", **_BEARER},
        own=OwnCommand(program="code", add=("--add-mcp", "{json}")),
        readers="in every workspace",
        then="run MCP: List Servers from the command palette and start the server there",
        aliases=("vs-code", "code", "visual-studio-code"),
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        files={"": ("~/.codeium/windsurf/mcp_config.json",)},
        entry=_PLAIN,
        url_entry={"serverUrl": "{program}", "headers": "{headers}"},
        readers="in every project",
        then="press Refresh in the MCP settings of Cascade",
        program="windsurf",
    ),
    Client(
        name="zed",
        title="Zed",
        files={
            "": (f"{_CONFIG}/zed/settings.json", f"{_FLATPAK}/dev.zed.Zed/config/zed/settings.json"),
            "darwin": ("~/.config/zed/settings.json",),
            "win32": (f"{_ROAMING}/Zed/settings.json",),
        },
        project_file=".zed/settings.json",
        table="context_servers",
        entry={"source": "custom", **_PLAIN},
        url_entry=_BEARER,
        readers="in every project",
        then="look for a green dot next to the server in the settings of the Agent Panel",
        program="zed",
    ),
    Client(
        name="codex",
        title="Codex",
        files={"": ("{CODEX_HOME:~/.codex}/config.toml",)},
        project_file=".codex/config.toml",
        format="toml",
        table="mcp_servers",
        entry={**_PLAIN, "startup_timeout_sec": 30, "tool_timeout_sec": 3600},
        url_entry={"url": "{program}", "http_headers": "{headers}", "tool_timeout_sec": 3600},
        own=OwnCommand(
            program="codex", add=("mcp", "add", "{name}", "--", "{launch}"), remove=("mcp", "remove", "{name}")
        ),
        readers="in every project, from its command line, its app and its editor extension",
        then="restart Codex; /mcp shows the server",
        aliases=("codex-cli",),
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        files={"": ("{GEMINI_CLI_HOME:~}/.gemini/settings.json",)},
        project_file=".gemini/settings.json",
        entry=_PLAIN,
        url_entry={"httpUrl": "{program}", "headers": "{headers}"},
        own=OwnCommand(
            program="gemini",
            add=("mcp", "add", "-s", "user", "{name}", "{program}", "--", "{args}"),
            remove=("mcp", "remove", "-s", "user", "{name}"),
        ),
        readers="in every project",
        then="restart Gemini CLI in a folder that it trusts; /mcp shows the server",
        aliases=("gemini-cli",),
    ),
    Client(
        name="goose",
        title="Goose",
        files={"": (f"{_CONFIG}/goose/config.yaml",), "win32": (f"{_ROAMING}/Block/goose/config/config.yaml",)},
        format="yaml",
        table="extensions",
        entry={
            "type": "stdio",
            "name": "{name}",
            "enabled": True,
            "cmd": "{program}",
            "args": "{args}",
            "envs": {},
            "timeout": 300,
        },
        url_entry={
            "type": "streamable_http",
            "name": "{name}",
            "enabled": True,
            "uri": "{program}",
            "headers": "{headers}",
            "timeout": 300,
        },
        readers="in every session",
        then="start a new session; goose info -v shows the extension",
        program="goose",
    ),
    Client(
        name="opencode",
        title="opencode",
        files={"": (f"{_CONFIG}/opencode/opencode.json", f"{_CONFIG}/opencode/opencode.jsonc")},
        project_file="opencode.json",
        table="mcp",
        entry={"type": "local", "command": "{launch}", "enabled": True},
        url_entry={"type": "remote", **_BEARER, "enabled": True},
        readers="in every project",
        then="restart opencode; opencode mcp list shows the server",
        program="opencode",
    ),
)


def find_client(text: str) -> Client:
    """Return the client with a name, title or alias; case does not matter. Raises UnknownClient."""
    slug = re.sub(r"[\s_]+", "-", text.strip().casefold())
    known: dict[str, Client] = {}
    for client in CLIENTS:
        for name in (client.name, client.title.casefold().replace(" ", "-"), *client.aliases):
            known[name] = client
    if slug in known:
        return known[slug]
    near = dict.fromkeys(known[name].name for name in nearest(slug, known))
    raise UnknownClient(text, [client.name for client in CLIENTS], list(near))


def shared_client(client: Client) -> Client:
    """Return `client` for the file of a project; its own command and its link would change the user's file."""
    then = f"commit {client.project_file}, then {client.then}"
    return replace(
        client, own=None, link="", project_file="", readers="for everybody who opens this project", then=then
    )


def url_client(client: Client, token: str) -> Client:
    """Return `client` for a server over HTTP, whose URL takes the place of the program. Raises NoUrlEntry.

    Its own command and its link do not know the token.
    """
    if client.url_entry is None:
        raise NoUrlEntry(client.title, [each.name for each in CLIENTS if each.url_entry])
    headers = {"Authorization": f"Bearer {token}"}
    entry = {key: headers if value == "{headers}" else value for key, value in client.url_entry.items()}
    return replace(client, entry=entry, own=None, link="")
