"""`qk_mcp.host.identity`: a process is told from a later one with the same id."""

import os
import signal
import subprocess
import sys

from qk_mcp.host.identity import identify_process
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
