"""What many runs leave in a server: nothing. No process, no zombie, no descriptor, no file."""

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import Serve
from tests.support.client import Client
from tests.support.processes import descriptors, tree, until, zombies

RUNS = int(os.environ.get("TESTS_RUNS", "36"))
"""How many; a larger number is for a thorough look by hand."""

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


def files(home: Path) -> set[Path]:
    """The files that the server could have left, other than what it keeps on purpose."""
    found = {path for path in home.rglob("*") if not path.is_dir()}
    return {path for path in found if path.suffix not in (".stdout", ".stderr") and "stderr-" not in path.name}


def kind(target: str) -> str:
    """What a descriptor refers to, without the number that each pipe and socket has."""
    return target.partition(":")[0]


def holdings(client: Client, home: Path) -> tuple[int, list[str], set[Path]]:
    """What a server holds once it has come to rest: processes, descriptors, files."""
    seen: list[tuple[int, list[str], set[Path]]] = []

    def at_rest() -> bool:
        time.sleep(0.1)
        seen.append((len(tree(client.pid)), sorted(map(kind, descriptors(client.pid).values())), files(home)))
        return len(seen) > 15 and all(each == seen[-1] for each in seen[-15:]) and not zombies(client.pid)

    until(at_rest, 20, f"the server to come to rest; zombies {zombies(client.pid)}")
    return seen[-1]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks at descriptors by way of /proc")
@pytest.mark.parametrize("options", [[], ["--no-warm"]], ids=["warm", "cold"])
def test_many_runs_half_of_them_cancelled_leave_nothing(serve: Serve, tmp_path: Path, options: list[str]) -> None:
    client = serve(SOURCE, *options)

    def some(count: int) -> None:
        """Run the task, and begin as many runs that are cancelled: some at once, some when they are at work."""
        client.messages.clear()
        whole = [client.start("run_task", task_name="work", args=["0"], timeout=300) for _ in range(count)]
        cut = [client.start("run_task", task_name="work", args=["600"], timeout=300) for _ in range(count)]
        for call in cut[1:]:
            call.cancel()
        client.until(lambda: sum(log.count("begun") for log in client.logs("warning")) > count, 200, "all at work")
        cut[0].cancel()
        assert [call.wait(200).data["exit_code"] for call in whole] == [0] * count

    some(3)
    before, threads = holdings(client, tmp_path / "home"), psutil.Process(client.pid).num_threads()
    for _ in range(RUNS // 6):
        some(3)
    after = holdings(client, tmp_path / "home")
    assert after == before
    assert psutil.Process(client.pid).num_threads() <= threads + 2, "threads of a pool, perhaps"
