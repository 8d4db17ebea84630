"""The programs that are measured: ours, quickie's own server, and the floors."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.bench.answers import check
from tests.bench.client import Server
from tests.bench.projects import Project, write
from tests.support.environment import QK_MCP, scrubbed

__all__ = ["BARE", "EMPTY", "OURS", "PEER", "Contender", "Stage"]

OURS, PEER, BARE, EMPTY = "qk-mcp", "quickie's server", "a bare FastMCP server", "an empty cyclopts app"

_PEER = "from quickie.mcp import main; main()"
_BARE = """
from fastmcp import FastMCP

app = FastMCP("bare")

@app.tool
def nothing() -> str:
    return ""

app.run(transport="stdio", show_banner=False)
"""
_EMPTY = """
from cyclopts import App

app = App(name="empty", version="1", help_format="plaintext")

@app.default
def nothing() -> None:
    pass

app()
"""
_SETTINGS = {
    OURS: {},
    # Neither may ask the package index for updates when it starts.
    PEER: {"FASTMCP_CHECK_FOR_UPDATES": "off"},
    BARE: {"FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_ENV_FILE": os.devnull},
    EMPTY: {},
}


@dataclass(frozen=True, slots=True)
class Contender:
    """A command with its own home directory."""

    command: Sequence[str]
    home: Path
    settings: Mapping[str, str]

    def serve(self) -> Server:
        """Start it as a server."""
        return Server(self.command, environ=self._environ(), cwd=self.home, errors=self.home / "stderr")

    def with_environ(self, variables: Mapping[str, str]) -> "Contender":
        """Return the same command with more variables in its environment."""
        return replace(self, settings={**self.settings, **variables})

    def run(self, *args: str) -> tuple[str, float]:
        """Run it to its end; return what it printed and the seconds of the whole process."""
        began = time.perf_counter()
        done = subprocess.run(
            [*self.command, *args],
            cwd=self.home,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - began
        check(done.returncode == 0, f"{args} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout, seconds

    def _environ(self) -> dict[str, str]:
        return scrubbed(self.home, **self.settings)


@dataclass(slots=True)
class Stage:
    """Sets up contenders, each with its own copy of the projects, so that they share no caches."""

    directory: Path
    rounds: int
    whole: bool = False
    """Whether quickie's server prints all lines, which takes many minutes."""
    _made: int = field(default=0, init=False)

    def ours(self, projects: Mapping[str, Project], *options: str) -> Contender:
        """Our server of `projects`, by alias."""
        home = self._home()
        return Contender([*QK_MCP, "serve", *_declared(home, projects), *options], home, _SETTINGS[OURS])

    def peer(self, projects: Mapping[str, Project]) -> Contender:
        """Quickie's own server of `projects`, by alias."""
        home = self._home()
        return Contender([sys.executable, "-c", _PEER, *_declared(home, projects)], home, _SETTINGS[PEER])

    def bare(self) -> Contender:
        """A FastMCP server with one empty tool, called `nothing`."""
        return Contender([sys.executable, "-c", _BARE], self._home(), _SETTINGS[BARE])

    def command_line(self, projects: Mapping[str, Project], rules: str = "") -> Contender:
        """Our command line, for a user who has registered `projects`, each with the same rules (TOML)."""
        home = self._home()
        config = home / ".config" / "qk-mcp" / "config.toml"
        config.parent.mkdir(parents=True)
        tables = [
            f"[projects.{alias}]\npath = '{write(home / alias, project)}'\n{rules}\n"
            for alias, project in projects.items()
        ]
        config.write_text("\n".join(tables))
        config.chmod(0o600)
        return Contender(QK_MCP, home, _SETTINGS[OURS])

    def empty_app(self) -> Contender:
        """A cyclopts app that does nothing."""
        return Contender([sys.executable, "-c", _EMPTY], self._home(), _SETTINGS[EMPTY])

    def _home(self) -> Path:
        self._made += 1
        home = self.directory / str(self._made)
        home.mkdir()
        return home


def _declared(home: Path, projects: Mapping[str, Project]) -> list[str]:
    flags = []
    for alias, project in projects.items():
        flags += ["--project", f"{alias}:{write(home / alias, project)}"]
    return flags
