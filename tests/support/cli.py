"""Runs the command line as a user would."""

import os
import pty
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.environment import QK_MCP, scrubbed
from tests.support.fork_server import start_program

__all__ = ["CommandLine", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code and output of a command."""

    code: int
    stdout: str
    stderr: str


class CommandLine:
    """`qk-mcp` for a user whose home is `home`; it runs in that directory by default."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.config = home / ".config" / "qk-mcp" / "config.toml"

    def __call__(
        self, *args: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, shell: str = ""
    ) -> Outcome:
        """Run a command and wait for its end; its output must be UTF-8."""
        process = self.start(*args, cwd=cwd, env=env, shell=shell)
        stdout, stderr = process.communicate(timeout=120)
        return Outcome(process.returncode, stdout.decode(), stderr.decode())

    def start(
        self,
        *args: str | Path,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        shell: str = "",
        **more: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a command, or a shell script in which it is `"$@"`; `more` goes to Popen."""
        command = [*(("/bin/sh", "-c", shell, "sh") if shell else ()), *QK_MCP, *map(str, args)]
        streams: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        environ = scrubbed(self.home) | (env or {})
        return start_program(command, cwd=cwd or self.home, env=environ, **(streams | more))

    def on_terminal(self, *args: str, **env: str) -> bytes:
        """Run a command in a terminal and return what it writes there, stdout and stderr together."""
        ours, theirs = pty.openpty()
        with self.start(*args, env=env, stdin=theirs, stdout=theirs, stderr=theirs):
            os.close(theirs)
            text = b""
            try:
                while piece := os.read(ours, 65536):
                    text += piece
            except OSError:  # on Linux, the other end is closed
                pass
        os.close(ours)
        return text

    def write_config(self, text: str | bytes) -> None:
        """Write the user's config."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.config.chmod(0o600)
