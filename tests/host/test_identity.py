"""`qk_mcp.host.identity`: the start time distinguishes a process from a later one with the same id."""

import os
import signal
import subprocess
import sys

from qk_mcp.host import identity
from qk_mcp.host.identity import ProcessIdentity, identify_process
from tests.support.processes import until


def test_a_process_is_itself_until_it_ends() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    identity = identify_process(process.pid)
    assert identity is not None
    assert identity.is_running()
    assert not identity._replace(started="0").is_running(), "another process with its id"
    process.send_signal(signal.SIGKILL)
    until(lambda: not identity.is_running(), what="the end of the process, which nobody has reaped")
    process.wait()
    assert identify_process(process.pid) is None


def test_this_process_has_one_identity() -> None:
    assert identify_process(os.getpid()) == identify_process(os.getpid()) is not None


def test_systems_without_proc_have_a_start_time_too() -> None:
    started = identity._started(os.getpid())
    assert started
    assert identity._started(os.getpid()) == started
    assert identity._started(os.getppid()) != started


def test_only_the_process_itself_gets_a_signal() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    own = identify_process(process.pid)
    assert own is not None
    assert not ProcessIdentity(process.pid, "0").send_signal(signal.SIGKILL)
    assert process.poll() is None
    assert own.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    assert not own.send_signal(signal.SIGTERM)
