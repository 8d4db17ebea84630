"""Keeps reading the output of processes that a task has left running, so that they can go on writing."""

import os
import subprocess
from collections.abc import Sequence

__all__ = ["drain_pipes"]


def drain_pipes(pipes: Sequence[int], *, keep: bool) -> None:
    """Close the reading ends of pipes to which other processes may still write.

    With `keep`, a detached process for each pipe reads and discards what is written later. Otherwise a child that
    a task left running would die of SIGPIPE, now or after this process has ended.
    """
    try:
        for pipe in pipes if keep else ():
            _drain(pipe)
    finally:
        for pipe in pipes:
            os.close(pipe)


def _drain(pipe: int) -> None:
    os.set_blocking(pipe, True)
    subprocess.run(
        [
            "/bin/sh",
            "-c",
            "exec 3<&0; cat <&3 >/dev/null &",
        ],  # the shell would give a background command another stdin
        stdin=pipe,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath},
        cwd="/",
        start_new_session=True,
        check=False,
    )
