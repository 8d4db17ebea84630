"""A real sshd on a free port of the loopback, with its own keys and configuration."""

import getpass
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import end, tree, until

__all__ = ["SSHD", "Sshd", "running_sshd"]

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
"""The server's program, or None where it is not installed."""


@dataclass(frozen=True, slots=True)
class Sshd:
    """A running server."""

    directory: Path
    process: subprocess.Popen[bytes]

    def write_config(self, name: str, *more: str) -> Path:
        """Write a file for `ssh -F` in which the host `box` is this server; return a directory with such an `ssh`.

        A client finds that `ssh` first if the directory is on its PATH.
        """
        directory = self.directory / name
        directory.mkdir()
        config = directory / "config"
        lines = [
            "Host box",
            "HostName 127.0.0.1",
            f"Port {self.port}",
            f"User {getpass.getuser()}",
            f"IdentityFile {self.directory / 'client'}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self.directory / 'known_hosts'}",
            "GlobalKnownHostsFile /dev/null",
            *more,
        ]
        # The first value of an option counts, so what a test adds goes in front.
        config.write_text("\n".join([lines[0], *more, *lines[1:]]) + "\n")
        program = directory / "ssh"
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        program.chmod(0o755)
        return directory

    @property
    def port(self) -> int:
        """The port."""
        return int((self.directory / "port").read_text())

    def break_connections(self) -> None:
        """Kill what serves the connections, but not the listener."""
        end(pid for pid in tree(self.process.pid) if pid != self.process.pid)


@contextmanager
def running_sshd(directory: Path) -> Iterator[Sshd]:
    """Run a server that accepts one key, made here."""
    assert SSHD is not None
    directory.mkdir(mode=0o700)
    for name in ("host", "client"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
        subprocess.run(command, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "port").write_text(str(port))
    key = (directory / "host.pub").read_text()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}")
    (directory / "authorized_keys").write_text((directory / "client.pub").read_text())
    (directory / "sshd_config").write_text(
        "\n".join(
            [
                f"Port {port}",
                "ListenAddress 127.0.0.1",
                f"HostKey {directory / 'host'}",
                f"AuthorizedKeysFile {directory / 'authorized_keys'}",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                "StrictModes no",
                "UsePAM no",
                f"PidFile {directory / 'pid'}",
                "MaxStartups 100",
                f"SetEnv XDG_STATE_HOME={directory / 'state'} XDG_CONFIG_HOME={directory / 'config'}",
            ]
        )
    )
    if Path("/run").is_dir() and not Path("/run/sshd").exists():
        Path("/run/sshd").mkdir(mode=0o755)  # where it gives up its privileges; made by its service elsewhere
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(directory / "sshd_config")], stderr=log)
    try:
        until(lambda: _accepts(port), what=f"sshd: {(directory / 'log').read_text()}")
        yield Sshd(directory, process)
    finally:
        pids = tree(process.pid)
        process.terminate()
        process.wait(30)
        end(pids)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
