"""Many runs leave no process, zombie, descriptor or file."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import Serve
from tests.support.resources import resources

RUNS = int(os.environ.get("TESTS_RUNS", "36"))
"""How many runs. Set a larger number for a soak test by hand."""

SOURCE = """
    import os, subprocess, sys, time
    from quickie import Arg, task

    @task(args=[Arg("seconds", type=float)])
    def work(seconds):
        child = subprocess.Popen(["sleep", str(seconds)], start_new_session=True)
        print("x" * 50_000)
        print("begun", file=sys.stderr)
        child.wait()
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("options", [[], ["--no-warm"]], ids=["warm", "cold"])
def test_many_runs_half_of_them_cancelled_leave_nothing(serve: Serve, tmp_path: Path, options: list[str]) -> None:
    client = serve(SOURCE, *options)

    def run_some(count: int) -> None:
        """Run the task `count` times, and cancel as many other runs: at once, or when they have begun."""
        client.messages.clear()
        whole = [client.start("run_task", task_name="work", args=["0"], timeout=300) for _ in range(count)]
        cut = [client.start("run_task", task_name="work", args=["600"], timeout=300) for _ in range(count)]
        for call in cut[1:]:
            call.cancel()
        client.until(lambda: sum(log.count("begun") for log in client.logs("warning")) > count, 200, "runs to begin")
        cut[0].cancel()
        assert [call.wait(200).data["exit_code"] for call in whole] == [0] * count

    run_some(3)
    before, threads = resources(client, tmp_path / "home"), psutil.Process(client.pid).num_threads()
    for _ in range(RUNS // 6):
        run_some(3)
    after = resources(client, tmp_path / "home")
    assert after == before
    assert psutil.Process(client.pid).num_threads() <= threads + 2, "a thread pool may have grown"
