"""Retries of runs, through the wire: a warm interpreter may die before its task begins, never after."""

import os
import signal
import sys

import pytest

from tests.conftest import Demo
from tests.support.client import Client
from tests.support.processes import end, tree, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the warm interpreter by its parent")

SOURCE = """
    from quickie import task

    @task
    def ready(): ...
"""


def warm_client(demo: Demo) -> Client:
    """Return a client whose server holds a warm interpreter, ready to run."""
    client = demo(SOURCE)
    assert client.run("ready").data["exit_code"] == 0
    until(lambda: len(tree(client.pid)) == 2, what="a warm interpreter")
    return client


def test_a_task_that_has_begun_never_runs_again(demo: Demo) -> None:
    client = warm_client(demo)
    demo("""
        import os, signal, time
        from quickie import task

        @task
        def once():
            with open("runs", "a") as runs:
                runs.write("x")
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
    """)
    assert "the run of task 'once' was lost" in client.run("once").refusal
    assert (demo.root / "runs").read_text() == "x"


def test_a_warm_interpreter_that_was_killed_is_replaced(demo: Demo) -> None:
    """The server, suspended meanwhile, may learn of it only after it has chosen that interpreter."""
    client = warm_client(demo)
    os.kill(client.pid, signal.SIGSTOP)
    try:
        end([max(tree(client.pid))])
        call = client.start("run_task", task_name="ready")
    finally:
        os.kill(client.pid, signal.SIGCONT)
    assert call.wait().data["exit_code"] == 0


def test_a_retried_run_keeps_the_deadline_of_its_call(demo: Demo) -> None:
    client = warm_client(demo)
    demo("""
        import os, signal, time
        from pathlib import Path
        from quickie import task

        retried = Path("retried")
        if not retried.exists():
            retried.touch()
            time.sleep(0.5)
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
        time.sleep(2.2)

        @task
        def ready(): ...
    """)
    refusal = client.call("run_task", task_name="ready", timeout=2.5).refusal
    assert "timeout of 2.5 s" in refusal
