"""Where the file of an MCP client is, on each platform."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from qk_mcp.clients.known import CLIENTS, Client
from qk_mcp.errors import NoHome, NoSharedFile

__all__ = ["client_file", "expand_home", "shared_file"]


def client_file(client: Client, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the path of the user's own file of `client`, which need not exist. Raises NoHome."""
    places = [expand_home(text, environ) for text in client.files.get(platform, client.files[""])]
    found = [path for place in places for path in _matches(place)]
    return next(filter(os.path.lexists, found), None) or next(
        (path for path in found if path.parent.is_dir()), found[0]
    )


def shared_file(client: Client, root: Path) -> Path:
    """Return the path of the client's file for the project in `root`. Raises NoSharedFile."""
    if not client.project_file:
        raise NoSharedFile(client.title, [each.name for each in CLIENTS if each.project_file])
    return root / client.project_file


def expand_home(text: str, environ: Mapping[str, str]) -> str:
    """Return a path with `{VARIABLE:default}` and `~` filled in. Raises NoHome."""

    def value(match: re.Match[str]) -> str:
        set_to = environ.get(match[1], "")
        return set_to if os.path.isabs(set_to) else match[2]  # as the XDG specification requires

    text = re.sub(r"\{(\w+):([^}]*)\}", value, text)
    if not text.startswith("~"):
        return text
    home = environ.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise NoHome
    return home + text[1:]


def _matches(place: str) -> list[Path]:
    if "*" not in place:
        return [Path(place)]
    before, _, after = place.partition("*")
    directory, start = os.path.split(before)
    return sorted(Path(directory).glob(f"{start}*{after}"))
