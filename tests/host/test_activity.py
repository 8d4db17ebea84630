"""`qk_mcp.host.activity`: distinguishes a process tree that sleeps from one that works."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from qk_mcp.host.activity import tree_activity
from tests.support.processes import end, tree, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def parent_of(command: str) -> Iterator[int]:
    """Yield a process with one child that runs `command`."""
    process = subprocess.Popen(["/bin/sh", "-c", f"{command} & wait"])
    try:
        until(lambda: tree(process.pid))
        yield process.pid
    finally:
        end([*tree(process.pid), process.pid])
        process.wait()


def test_a_sleeping_tree_has_an_activity_that_does_not_change() -> None:
    with parent_of("sleep 600") as pid:
        first = until(lambda: tree_activity(pid), what="the child to sleep")
        assert until(lambda: tree_activity(pid) == first)


def test_a_working_tree_has_none() -> None:
    with parent_of("while :; do :; done") as pid:
        assert [tree_activity(pid) for _ in range(100)].count(None) > 50


def test_a_process_without_children_has_none() -> None:
    with parent_of("sleep 600") as pid:
        (child,) = tree(pid)
        assert tree_activity(child) is None
        assert tree_activity(os.getpid() + (1 << 22)) is None
