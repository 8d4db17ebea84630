"""Text that cannot be encoded: it reaches every kind of answer through paths, and must not break any."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Serve
from tests.support.cli import CommandLine
from tests.support.projects import make_project

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take UTF-8 names only")

SOURCE = """
    from pathlib import Path
    from quickie import task

    @task
    def where():
        print(Path.cwd().name)

    @task
    def leave():
        import subprocess
        subprocess.Popen([b"caf\\xe9", b"600"], executable="/bin/sleep", start_new_session=True)
"""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A directory whose name is not UTF-8."""
    directory = tmp_path / os.fsdecode(b"caf\xe9")
    directory.mkdir()
    return directory


def test_a_project_in_a_directory_that_is_not_utf_8_is_listed_and_run(
    serve: Serve, project: Callable[..., Path], odd: Path
) -> None:
    make_project(odd, SOURCE)
    client = serve({"odd": odd, "plain": project(SOURCE)})
    entries = client.call("list_tasks").data
    assert [entry["project_root"].rpartition("/")[2] for entry in entries] == ["caf\ufffd", "project"]
    assert all(entry["tasks"] for entry in entries)
    assert client.run("where", project="odd").data["stdout"] == "caf\ufffd\n"


def test_errors_that_name_such_a_directory_are_answered(serve: Serve, project: Callable[..., Path], odd: Path) -> None:
    client = serve({"good": project(SOURCE), "gone": odd / "gone", "near": odd.with_name("caff"), "empty": odd})
    assert "caf\ufffd" in client.call("list_tasks", project="gone").refusal
    assert "caf\ufffd" in client.run("where", project="near").refusal
    assert "caf\ufffd" in client.run("where", project="empty").refusal
    entries = {entry["project"]: entry for entry in client.call("list_tasks").data}
    assert all("caf\ufffd" in entries[name]["error"] for name in ("gone", "near", "empty"))
    assert client.run("where", project="good").data["exit_code"] == 0


def test_a_run_with_such_paths_and_processes_is_answered(serve: Serve, odd: Path) -> None:
    make_project(odd, SOURCE)
    client = serve({"odd": odd}, environ={"XDG_STATE_HOME": str(odd / "state")})
    [process] = client.run("leave").data["left_running"]
    os.kill(process["pid"], signal.SIGKILL)
    assert process["command"] == "caf\ufffd 600"
    run_id = client.call("run_task", task_name="leave", background=True).data["run_id"]
    answer = client.call("get_run", run_id=run_id, wait=20).data
    [process] = answer["left_running"]
    os.kill(process["pid"], signal.SIGKILL)
    assert process["command"] == "caf\ufffd 600"
    assert "caf\ufffd/state" in answer["files"]["stdout"]


def test_a_home_directory_and_an_interpreter_that_are_not_utf_8(serve: Serve, odd: Path) -> None:
    make_project(odd, SOURCE)
    client = serve({"odd": odd}, environ={"HOME": str(odd), "XDG_STATE_HOME": str(odd / "state")})
    assert client.run("where").data["exit_code"] == 0
    (odd / ".pdm-python").write_bytes(os.fsencode(odd / "python"))
    answer = client.run("where")
    assert answer.is_error or answer.data["exit_code"] == 0


def test_inspect_shows_such_a_project(tmp_path: Path, odd: Path) -> None:
    make_project(odd, SOURCE)
    qk_mcp = CommandLine(tmp_path / "home")
    for options in ([], ["--json"]):
        outcome = qk_mcp("inspect", "--project", f"odd:{odd}", *options)
        assert (outcome.code, outcome.stderr) == (0, "")
        assert "where" in outcome.stdout
