"""`qk_mcp.guest.supervisor`: what a task leaves running, through the wire. Stopping is in tests/integration."""

import sys

import pytest

from tests.conftest import Demo
from tests.support.processes import alive, end, read_pid

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a supervisor adopt orphans")

DAEMONS = """
    import os, sys, time
    from pathlib import Path
    from quickie import Arg, task

    def sleep():
        Path("daemon.pid").write_text(f"{os.getpid()}\\n")
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.execve("/bin/sleep", ["sleep", "600"], {})

    @task(args=[Arg("delay", type=float)])
    def detach_later(delay):
        leader = os.getpid()
        if os.fork():
            return
        while os.getppid() == leader:
            time.sleep(0.001)
        time.sleep(delay)  # after the end of the task
        if os.fork():
            os._exit(0)
        os.setsid()
        sleep()

    @task
    def become_a_daemon():
        if os.fork():
            os._exit(0)
        os.setsid()
        if os.fork():
            os._exit(0)
        sleep()
"""


@pytest.mark.parametrize(
    ("task", "args"), [("detach-later", ["0.02"]), ("detach-later", ["0.035"]), ("become-a-daemon", [])]
)
def test_daemons_are_listed_as_left_running(demo: Demo, task: str, args: list[str]) -> None:
    client = demo(DAEMONS)
    try:
        answer = client.run(task, *args).data
    finally:
        daemon = read_pid(demo.root / "daemon.pid")
        ran = alive(daemon)
        end([daemon])
    assert ran
    assert answer["exit_code"] == 0
    assert daemon in [each["pid"] for each in answer["left_running"]]
