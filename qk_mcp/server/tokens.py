"""The bearer token of a server over HTTP, in a private file."""

import os
import secrets
import stat
from pathlib import Path

from qk_mcp.errors import TokenUnusable

__all__ = ["read_token"]

_SHORTEST = 20
"""Characters of a token at least."""


def read_token(path: Path) -> str:
    """Return the token in the file at `path`, which is created with a random one if it does not exist.

    Raises TokenUnusable if others may read the file, or if it has no token.
    """
    try:
        if not os.path.lexists(path):
            _create(path)
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(4096).decode("ascii", "replace").strip()
    except OSError as error:
        why = f"{error.strerror or error}."
        raise TokenUnusable(path, why, "name a file in a directory of yours with --token-file") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TokenUnusable(
            path, "Other users may read it.", f"chmod 600 {path}, and make a new token: remove the file"
        )
    if len(token) < _SHORTEST or not token.isprintable() or " " in token:
        why = f"It must have one line of {_SHORTEST} characters or more without blanks."
        raise TokenUnusable(path, why, "remove it, and start again: a new token is created")
    return token


def _create(path: Path) -> None:
    """Create the file whole: of two servers that start at once, both read the token of the first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return
    finally:
        draft.unlink()
