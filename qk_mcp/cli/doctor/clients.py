"""The checks of `qk-mcp doctor` for the files of MCP clients."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from qk_mcp import __version__
from qk_mcp.cli.doctor.checks import Check
from qk_mcp.cli.doctor.handshake import Hello, greet
from qk_mcp.cli.own_command import own_command
from qk_mcp.clients.entries import launch_of, starts_qk_mcp
from qk_mcp.clients.files import is_editable, read_servers
from qk_mcp.clients.known import CLIENTS, Client
from qk_mcp.clients.locations import client_file
from qk_mcp.editing.files import read_regular
from qk_mcp.errors import NoHome, QkMcpError, ServerFailed
from qk_mcp.projects.config import may_exist
from qk_mcp.projects.project import current_directory, expand, locate, parse_declaration

__all__ = ["check_clients"]


def check_clients(environ: Mapping[str, str], *, project_files: bool) -> Iterator[Check]:
    """Check the entries that start this server, in the user's own files and those of the current directory.

    A command that only a file of the current directory names is started with `project_files` only: the file may
    come from a repository, and name anything.
    """
    known = False
    for client in CLIENTS:
        try:
            places = _places(client, environ)
        except NoHome as failure:
            yield Check("clients", "note", failure.what, failure.hint)
            return
        trusted: set[tuple[object, ...]] = set()
        for place in places:
            try:
                servers = read_servers(client, place.file)
            except QkMcpError as failure:
                if _mentions_us(place.file):
                    yield Check(client.title, "wrong", f"{failure.what}\n{failure.why}", failure.hint)
                continue
            for name, entry in servers.items():
                launch = launch_of(client, entry)
                if starts_qk_mcp(launch):
                    known = True
                    started = (tuple(launch), tuple(_variables(entry).items()))
                    if place.base is None:
                        trusted.add(started)
                    if place.base is None or project_files or (started in trusted and _is_independent(launch[0])):
                        yield _check(place, name, entry, launch, environ)
                    else:
                        yield _not_started(place, name, launch)
    if not known:
        yield Check("clients", "note", "none starts this server", f"{shlex.join(own_command())} install CLIENT --write")


@dataclass(frozen=True, slots=True)
class _Place:
    """A file of a client, and the directory in which the client starts its servers, if that is known."""

    client: Client
    file: Path
    base: Path | None = None

    def repair(self, name: str, launch: Sequence[str]) -> str:
        """Return the command that fixes an entry and keeps its projects and config."""
        if self.base or not is_editable(self.client):
            return self.by_hand()
        words = [*own_command(), "install", self.client.name]
        words += [word for pair in _options(launch) if pair[0] in ("--project", "--config") for word in pair]
        words += ["--name", name] if name != "qk-mcp" else []
        return shlex.join([*words, "--write", "--force"])

    def by_hand(self) -> str:
        return f"correct it in {self.file}"


def _places(client: Client, environ: Mapping[str, str]) -> list[_Place]:
    own = client_file(client, environ)
    places = [_Place(client, own)]
    here = current_directory()
    if client.project_file and here and here / client.project_file != own:
        places.append(_Place(client, here / client.project_file, here))
    return [place for place in places if may_exist(place.file)]


def _mentions_us(file: Path) -> bool:
    """Return whether an unreadable file may have an entry of ours; others are not our concern."""
    try:
        data = read_regular(file)
    except OSError:
        return True
    return b"qk_mcp" in data or b"qk-mcp" in data


def _is_independent(command: str) -> bool:
    """Return whether a command means the same in every directory."""
    return "/" not in command or Path(command).is_absolute()


def _not_started(place: _Place, name: str, launch: Sequence[str]) -> Check:
    what = f"{name} in {place.file} was not started, because only this project's file names it\n{shlex.join(launch)}"
    return Check(place.client.title, "note", what, f"{shlex.join(own_command())} doctor --project-files starts it")


def _check(
    place: _Place, name: str, entry: Mapping[str, Any], launch: Sequence[str], environ: Mapping[str, str]
) -> Check:
    title = place.client.title
    what = f"{name} in {place.file}"
    repair = place.repair(name, launch)
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return Check(title, "note", f"{what} is switched off", f"switch it on in {title}")
    if shutil.which(launch[0], path=environ.get("PATH")) is None:
        return Check(title, "wrong", f"{what}: its command does not exist: {launch[0]}", repair)
    if fault := _missing(launch, place.base, environ):
        return Check(title, "wrong", f"{what}: {fault}", place.by_hand())
    hello = _greet(tuple(launch), place.base, tuple(_variables(entry).items()))
    if isinstance(hello, str):
        return Check(title, "wrong", f"{what} does not start: {hello}\n{shlex.join(launch)}", repair)
    if hello.name != "qk-mcp":
        return Check(title, "wrong", f"{what} starts another server, {hello.name}\n{shlex.join(launch)}", repair)
    if place.base is None and not Path(launch[0]).is_absolute():
        doubt = f"{launch[0]} must be on PATH, and a graphical client may have another PATH"
        return Check(title, "note", f"{what}: {doubt}", repair)
    if hello.version != __version__:
        return Check(title, "note", f"{what} starts qk-mcp {hello.version}, not {__version__}", repair)
    return Check(title, "ok", f"{what}\n{shlex.join(launch)}")


def _variables(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return what an entry adds to the environment of its server, under its client's name for that key."""
    found: dict[str, str] = {}
    for key in ("env", "envs", "environment"):
        if isinstance(table := entry.get(key), Mapping):
            found |= {str(name): value for name, value in table.items() if isinstance(value, str)}
    return found


@cache
def _greet(launch: tuple[str, ...], base: Path | None, variables: tuple[tuple[str, str], ...]) -> Hello | str:
    """Return the answer of the server that a command starts, or why there is none."""
    away = Path("/")  # not the current directory: a checkout there could supply the package
    try:
        return greet(launch, cwd=base or away, environ=os.environ | dict(variables))
    except ServerFailed as failure:
        lines = failure.why.strip().splitlines()
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return ": ".join([failure.fault, *(errors or lines)[-1:]])


def _options(launch: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word that may be an option with its possible value, after `=` or in the next word."""
    for word, following in pairwise([*launch, ""]):
        option, equals, value = word.partition("=")
        yield option, value if equals else following


def _missing(launch: Sequence[str], base: Path | None, environ: Mapping[str, str]) -> str:
    """Return what is wrong with the projects and the config that a command names, or an empty text."""
    for option, value in _options(launch):
        try:
            if option == "--config" and not expand(value, base, environ).exists():
                return f"its config does not exist: {value}"
            if option == "--project":
                locate(parse_declaration(value, base, environ, ""))
        except QkMcpError as failure:
            return failure.what
    return ""
