"""Random runs for a long time: no answer is lost, and nothing is left.

By hand: `QK_MCP_SOAK_SECONDS=7200 python -m pytest -n 0 -m long tests/integration/test_soak.py`. A failure shows the
seed; `QK_MCP_SOAK_SEED` repeats the same steps, though not at the same moments.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Serve
from tests.support.client import Call, Client
from tests.support.processes import gone, until
from tests.support.resources import resources

SECONDS = float(os.environ.get("QK_MCP_SOAK_SECONDS", "30"))
SEED = int(os.environ.get("QK_MCP_SOAK_SEED", "12"))
AT_ONCE = 4

SLEEP = f"31557600.{os.getpid()}"
"""Seconds that the children of tasks sleep, to recognise them among other processes."""

SOURCE = f"""
    import os, signal, subprocess, sys, time
    from quickie import Arg, task

    def sleep(*, bare=False, orphan=False):
        if os.fork() == 0:
            os.setsid()
            if orphan and os.fork():
                os._exit(0)
            os.execve("/bin/sleep", ["sleep", "{SLEEP}"], {{}} if bare else os.environ)

    @task(args=[Arg("text")])
    def echo(text):
        print(text)
        sys.exit(len(text) % 5)

    @task(args=[Arg("lines", type=int)])
    def loud(lines):
        print("x" * 99 + "\\n", end="")
        print(("y" * 99 + "\\n") * lines, end="")
        print("z", file=sys.stderr)

    @task
    def family():
        sleep()
        sleep(bare=True)
        sleep(orphan=True)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)

    @task
    def leave():
        subprocess.Popen(["/bin/sleep", "1.5"], start_new_session=True)

    @task
    def mutiny():
        sleep(bare=True)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
"""


@dataclass
class _Run:
    """A call under way, and what its answer must be."""

    task: str
    call: Call
    expected: str
    """Something in the text of a refusal, or the beginning of stdout."""
    exit_code: int | None = None
    """The exit code, or None if a refusal is expected."""
    disturbed: bool = False
    """Whether a process below the server was killed meanwhile, which may be the run's."""
    cancel_at: float = float("inf")

    def check(self) -> None:
        """Fail if the answer is wrong."""
        answer = self.call.wait()
        if self.disturbed and (answer.is_error or answer.data["exit_code"] == -signal.SIGKILL):
            return
        if self.exit_code is None:
            assert self.expected in answer.refusal
        else:
            assert answer.data["exit_code"] == self.exit_code, answer.text
            assert answer.data["stdout"].startswith(self.expected), answer.text


class _Soak:
    """Takes random steps with one server."""

    def __init__(self, client: Client, root: Path, seed: int) -> None:
        self.client = client
        self.root = root
        self.random = random.Random(seed)
        self.runs: list[_Run] = []
        self.later: dict[str, tuple[str, int]] = {}
        """The task of each run in the background, and the number of kills before it."""
        self.kills = 0
        self.steps: Counter[str] = Counter()

    def take(self) -> None:
        """Take one step, when fewer than `AT_ONCE` runs are under way."""
        self.settle(AT_ONCE - 1)
        steps: dict[Callable[[], None], int] = {
            self.echo: 30,
            self.loud: 8,
            self.leave: 8,
            self.family: 10,
            self.cancel: 20,
            self.mutiny: 3,
            self.kill: 3,
            self.edit: 2,
            self.list: 10,
            self.background: 12,
            self.look: 12,
            self.stop: 10,
        }
        [step] = self.random.choices(list(steps), list(steps.values()))
        self.steps[step.__name__] += 1
        step()

    def settle(self, under_way: int) -> None:
        """Check answers and cancel what is due, until at most `under_way` runs are left."""
        while True:
            now = time.monotonic()
            for run in [each for each in self.runs if each.cancel_at <= now]:
                run.call.cancel()
                self.runs.remove(run)
            for run in [each for each in self.runs if each.call.answered]:
                run.check()
                self.runs.remove(run)
            assert all(now - run.call.sent_at < 120 for run in self.runs), "an answer is lost"
            if len(self.runs) <= under_way:
                break
            time.sleep(0.005)
        if len(self.client.messages) > 10_000:
            self.client.messages.clear()

    def start(self, task: str, *args: str, expected: str, exit_code: int | None = None, timeout: float = 60) -> _Run:
        """Start a run."""
        call = self.client.start("run_task", task_name=task, args=list(args), timeout=timeout)
        self.runs.append(_Run(task, call, expected, exit_code))
        return self.runs[-1]

    def echo(self) -> None:
        text = "e" * self.random.randrange(1, 2000)
        self.start("echo", text, expected=f"{text}\n", exit_code=len(text) % 5)

    def loud(self) -> None:
        self.start("loud", str(self.random.randrange(1, 50_000)), expected="x" * 99 + "\n", exit_code=0)

    def leave(self) -> None:
        self.start("leave", expected="", exit_code=0)

    def family(self) -> None:
        timeout = self.random.choice((0.05, 0.3, 1, 2))
        self.start("family", expected=f"timeout of {timeout:g} s", timeout=timeout)

    def cancel(self) -> None:
        task = self.random.choice(("family", "echo", "leave", "loud"))
        args = {"echo": ["text"], "loud": ["30000"]}.get(task, [])
        run = self.start(task, *args, expected="never compared")
        run.disturbed = True  # it may have been answered before
        run.cancel_at = time.monotonic() + self.random.choice((0, 0.01, 0.1, 0.5, 1))
        run.exit_code = {"echo": 4, "family": None}.get(task, 0)
        run.expected = {"echo": "text", "loud": "xx"}.get(task, "")

    def mutiny(self) -> None:
        self.start("mutiny", expected="was lost")

    def kill(self) -> None:
        """Kill a random supervisor."""
        self.kills += 1
        for run in self.runs:
            run.disturbed = True
        below = psutil.Process(self.client.pid).children()
        if below:
            victim = self.random.choice(below)
            try:
                victim.kill()
            except psutil.NoSuchProcess:
                return
            gone(victim.pid)  # a run that starts now must not get it while it is dying

    def edit(self) -> None:
        """Change the tasks module, so that its description is of no more use."""
        with (self.root / "_qk" / "__init__.py").open("a") as module:
            module.write("# changed\n")

    def list(self) -> None:
        answer = self.client.call("list_tasks", project="demo")
        if not any(run.disturbed for run in self.runs):  # its interpreter may have been killed
            assert not answer.is_error, answer.text

    def background(self) -> None:
        """Start a run in the background."""
        if len(self.later) >= AT_ONCE:
            return
        task, args = self.random.choice((("family", []), ("echo", ["text"]), ("loud", ["30000"])))
        kills = self.kills
        answer = self.client.call("run_task", task_name=task, args=args, background=True)
        self.later[answer.data["run_id"]] = (task, kills)

    def look(self) -> None:
        """Wait a little for a run in the background, and look at it."""
        if self.later:
            run_id = self.random.choice(list(self.later))
            self._check(run_id, self.client.call("get_run", run_id=run_id, wait=self.random.choice((0, 0.1, 1))).data)

    def stop(self) -> None:
        """Stop a run in the background."""
        if self.later:
            run_id = self.random.choice(list(self.later))
            answer = self.client.call("stop_run", run_id=run_id).data
            assert answer["state"] != "running"
            self._check(run_id, answer)

    def _check(self, run_id: str, answer: dict[str, Any]) -> None:
        if answer["state"] == "running":
            return
        task, kills = self.later.pop(run_id)
        if kills != self.kills or answer["state"] == "stopped":
            return
        assert answer["state"] == "ended", answer
        assert answer["exit_code"] == {"echo": 4, "loud": 0}[task], answer
        assert answer["stdout"].endswith({"echo": "text\n", "loud": "y\n"}[task]), answer


def sleepers() -> "list[psutil.Process]":
    """Return the children of tasks that still run."""
    found = psutil.process_iter(["cmdline", "status"])
    return [
        each for each in found if SLEEP in (each.info["cmdline"] or ()) and each.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_random_runs_lose_no_answer_and_leave_nothing(serve: Serve, tmp_path: Path) -> None:
    client = serve(SOURCE)
    soak = _Soak(client, tmp_path / "project", SEED)
    server = psutil.Process(client.pid)
    for task, exit_code in (("leave", 0), ("echo", 4), ("loud", 0)):
        args = {"echo": ["text"], "loud": ["30000"]}.get(task, [])
        assert client.run(task, *args).data["exit_code"] == exit_code
    before, threads, memory = resources(client, tmp_path / "home"), server.num_threads(), server.memory_info().rss
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            soak.take()
        soak.settle(0)
        while soak.later:
            soak.stop()
        assert client.run("echo", "text").data["exit_code"] == 4  # so that a warm interpreter waits again
        after = resources(client, tmp_path / "home")
        assert after == before
        assert server.num_threads() <= threads + 3, "a thread pool may have grown"
        until(lambda: not sleepers(), 20, f"{sleepers()} to end")
    except BaseException:
        print(f"seed {SEED}, steps {dict(soak.steps)}, under way {[run.task for run in soak.runs]}")
        raise
    finally:
        for process in sleepers():
            process.send_signal(signal.SIGKILL)
    print(f"{dict(soak.steps)}, memory {memory >> 20} MB before, {server.memory_info().rss >> 20} MB after")
