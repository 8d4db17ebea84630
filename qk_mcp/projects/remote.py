"""Where a project is that is not on this machine, and the command that runs a program there."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["OUR_COMMAND", "Remote"]

OUR_COMMAND = ("qk-mcp",)
"""Our program, where it is on the PATH over there."""

_SSH = (
    "ssh",
    "-T",  # no terminal: the messages of the protocol pass unchanged
    *("-o", "BatchMode=yes"),  # ssh fails instead of asking for a password that nobody can type
    *("-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=10"),  # with the next: a dead connection ends within 30 seconds
    *("-o", "ServerAliveCountMax=2"),
)


@dataclass(frozen=True, slots=True)
class Remote:
    """Another machine, or a container. Either `host` or `via` is set."""

    host: str = ""
    """What ssh connects to: a name of its config, or `user@machine`."""
    via: tuple[str, ...] = ()
    """A command that runs the words after it over there, with its own pipes, such as `docker exec -i app`."""
    command: tuple[str, ...] = OUR_COMMAND
    """Our program over there."""

    @property
    def place(self) -> str:
        """The place, for messages."""
        return self.host or shlex.join(self.via)

    def argv(self, words: Sequence[str]) -> list[str]:
        """Return the command line that runs our program over there with the arguments `words`.

        ssh joins its words with blanks for a shell over there, so each word is quoted.
        """
        there = [*self.command, *words]
        if self.host:
            return [*_SSH, "--", self.host, shlex.join(there)]
        return [*self.via, *there]
