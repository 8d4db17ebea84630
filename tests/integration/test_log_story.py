"""The log tells the whole story of a server: start, projects, client, descriptions, runs, end."""

import re
import signal
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Serve
from tests.support.client import MODERN

SOURCE = """
    import time
    from pathlib import Path
    from quickie import task

    @task
    def hello():
        print("hello")

    @task
    def fail():
        raise SystemExit(3)

    @task
    def slow():
        Path("begun").touch()
        time.sleep(600)
"""


def _story(file: Path) -> list[str]:
    """The messages of a log file, with numbers of seconds as N."""
    messages = re.findall(r"^.{23} \d+ INFO [\w.]+: (.*)$", file.read_text(), re.MULTILINE)
    return [re.sub(r"seconds=[\d.]+", "seconds=N", message) for message in messages]


def test_every_step_has_a_line(serve: Serve, tmp_path: Path) -> None:
    log = tmp_path / "qk.log"
    client = serve(SOURCE, "--log-file", str(log))
    client.call("list_tasks")
    client.run("hello")
    client.run("fail")
    client.run("slow", timeout=1)
    client.run("absent")
    client.close()
    start, project, *middle, end = _story(log)
    assert re.fullmatch(r"start version=\S+ python=\d+\.\d+\.\d+ executable=.*", start)
    assert project == f"project name=demo path={tmp_path}/project origin=--project"
    assert "client name='raw' version='1' protocol=2025-11-25" in middle
    assert "description project=demo tasks=3 seconds=N reason=prefetched" in middle
    assert [line for line in middle if line.startswith("run ")] == [
        "run project=demo task=hello state=ended exit=0 seconds=N",
        "run project=demo task=fail state=ended exit=3 seconds=N",
        "run project=demo task=slow state=timed_out exit=- seconds=N",
        "run project=demo task=absent state=refused exit=- seconds=N",
    ]
    assert end == "end exit=0 reason=the client closed stdin"
    assert client.stderr() == "", "the client has been answered; its terminal need not know"


def test_runs_that_are_cancelled_or_stopped_have_a_line(
    serve: Serve, project: Callable[..., Path], tmp_path: Path
) -> None:
    log, root = tmp_path / "qk.log", project(SOURCE)
    client = serve(root, "--log-file", str(log), version=MODERN)
    call = client.start("run_task", task_name="slow")
    client.until(lambda: (root / "begun").exists(), what="the task to begin")
    call.cancel()
    line = "run project=demo task=slow state=cancelled exit=- seconds=N"
    client.until(lambda: line in _story(log), what="the line of the cancelled run")
    client.process.send_signal(signal.SIGTERM)
    assert client.exit_code() == 143
    assert "client name='raw' version='1' protocol=2026-07-28" in _story(log)
    assert _story(log)[-1] == "end exit=143 reason=SIGTERM"
