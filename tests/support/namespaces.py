"""Commands that start a program in another world: without control groups, without /proc, without a right, as PID 1."""

import os
import shutil
import sys

import pytest

__all__ = ["AS_PID_1", "FEW_PROCESSES", "WITHOUT_CGROUPS", "WITHOUT_KILL", "WITHOUT_PROC", "needs_namespaces"]


def _mounted_over(*directories: str) -> list[str]:
    mounts = "; ".join(f"mount -t tmpfs none {directory}" for directory in directories)
    return ["unshare", "--mount", "/bin/sh", "-c", f'{mounts}; exec "$@"', "sh"]


WITHOUT_CGROUPS = _mounted_over("/sys/fs/cgroup")
"""Hides the control groups."""
WITHOUT_PROC = _mounted_over("/sys/fs/cgroup", "/proc")
"""Hides /proc, too."""
WITHOUT_KILL = ["setpriv", "--bounding-set=-kill", "--inh-caps=-all"]
"""Takes away root's right to signal the processes of others."""
FEW_PROCESSES = [
    *(
        "setpriv",
        "--reuid=54321",
        "--clear-groups",
        "--inh-caps=-all,+dac_override",
        "--ambient-caps=-all,+dac_override",
    ),
    *("--bounding-set=-all,+dac_override", "--securebits=+no_setuid_fixup", "prlimit", "--nproc=60"),
]
"""Makes the program an ordinary user with 60 processes and threads, who may still read the files of root's Python."""
AS_PID_1 = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Makes the program the first process of a namespace, as in a container."""

needs_namespaces = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")),
    reason="only root can make namespaces, with util-linux",
)
