"""Drives real interactive shells on a terminal: types, presses Tab, and returns the command that would run."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.support.environment import QK_MCP, scrubbed
from tests.support.processes import until

__all__ = ["SHELLS", "Shell"]

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "fish": ["fish", "--no-config", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}

_SETUP = {
    "bash": "bind 'set bell-style none'; source {scripts}/qk-mcp.bash",
    "fish": "source {scripts}/qk-mcp.fish",
    "zsh": "fpath=({scripts} $fpath); autoload -Uz compinit && compinit -D -u; unsetopt beep",
}

_STUB = """\
#!{python}
import json, os, sys
if sys.argv[1:2] == ["__complete"]:
    os.execv(sys.executable, [*{program}, *sys.argv[1:]])
with open({ran!r}, "w") as file:
    json.dump(sys.argv[1:], file)
"""
"""A stand-in for the program, which completes as usual and otherwise records its arguments."""

_LEAD = """\
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal the controlling terminal of the shell."""


class Shell:
    """An interactive shell of a user whose home is `home`, with the completion scripts of this source tree."""

    def __init__(self, name: str, home: Path, cwd: Path) -> None:
        self.shown = b""
        self._ran = home / "ran.json"
        stub = home / "bin" / "qk-mcp"
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(_STUB.format(python=sys.executable, program=QK_MCP, ran=str(self._ran)))
        stub.chmod(0o755)
        environ = scrubbed(home, TERM="xterm" if name == "fish" else "dumb", LANG="C.UTF-8")
        environ["PATH"] = f"{stub.parent}:{environ['PATH']}"
        self._terminal, theirs = pty.openpty()
        command = [sys.executable, "-c", _LEAD, *SHELLS[name]]
        self._process = subprocess.Popen(command, cwd=cwd, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        scripts = Path(__file__).parents[2] / "completions"
        self.run(_SETUP[name].format(scripts=scripts) + "; qk-mcp ready")

    def complete(self, typed: str) -> list[str]:
        """Type (`\\t` is Tab), press Enter, and return the arguments of the program."""
        return self.run(f"qk-mcp {typed}")

    def run(self, line: str) -> list[str]:
        self._ran.unlink(missing_ok=True)
        for character in line:  # a shell treats a block of characters as pasted text
            os.write(self._terminal, character.encode())
            if character == "\t":
                self._read(0.1)
        os.write(self._terminal, b"\r")
        until(self._has_run, 30, f"{line!r} to be run: {self.shown.decode(errors='replace')}")
        words: list[str] = json.loads(self._ran.read_text())
        return words

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def _has_run(self) -> bool:
        self._read(0.05)
        return self._ran.exists() and self._ran.read_text().endswith("]")

    def _read(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            self.shown += os.read(self._terminal, 65536)
