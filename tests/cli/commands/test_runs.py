"""`qk-mcp runs`, on a real command line, with runs of real servers and recorded ones."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from qk_mcp.host.identity import identify_process
from qk_mcp.runs.record import RunRecord, append_run, read_runs
from tests.conftest import Serve
from tests.support.cli import CommandLine
from tests.support.client import Call, Client
from tests.support.processes import until

HOUR = 3600.0
SOURCE = """
    import sys, time
    from pathlib import Path
    from quickie import task

    @task(extra_args=True)
    def shout(*args):
        print("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07end")
        print("err", file=sys.stderr)

    @task(extra_args=True)
    def slow(*args):
        print("working", flush=True)
        Path("begun").touch()
        while not Path("go on").exists():
            time.sleep(0.02)
        print("done")
"""


def record_of(qk_mcp: CommandLine) -> Path:
    return qk_mcp.home / ".local" / "state" / "qk-mcp" / "runs.jsonl"


@pytest.fixture
def recorded(qk_mcp: CommandLine) -> dict[str, RunRecord]:
    """Recorded runs of every kind, by id."""
    server = identify_process(os.getpid())
    assert server
    now = time.time()

    def made(run: str, age: float, **fields: object) -> RunRecord:
        record = RunRecord(
            run=run,
            time=now - age,
            project="shop",
            root="/code/shop",
            task="test",
            args=["-k", "log in"],
            client="claude-code",
            server=server,
            seconds=12.3,
            state="ended",
        )
        return replace(record, **fields)  # type: ignore[arg-type]

    records = [
        made("r10", 50 * HOUR, exit_code=0),
        made("r11", 3 * HOUR, exit_code=1, seconds=200),
        made("r12", 1.5 * HOUR, state="timed_out", project="shop@fix", args=[]),
        made("r20", 30 * HOUR, state="running", seconds=None, task="dev\x1b[2J", args=None),
        made("r21", 0.5 * HOUR, state="running", seconds=None, server=server._replace(started="0")),
        made("r22", 0.4 * HOUR, state="stopped", project="web"),
        made("r23", 5, exit_code=-9, project="web", seconds=0.5),
        made("r24", 2, error="no such task", project="web", seconds=0.01),
    ]
    for record in records:
        append_run(record_of(qk_mcp), record)
    return {record.run: record for record in records}


def ids(qk_mcp: CommandLine, *options: str) -> list[str]:
    outcome = qk_mcp("runs", *options)
    assert outcome.code == 0
    return [line.split()[0] for line in outcome.stdout.splitlines()]


@pytest.mark.usefixtures("recorded")
def test_running_ones_come_first_then_the_newest(qk_mcp: CommandLine) -> None:
    assert ids(qk_mcp) == ["r20", "r24", "r23", "r22", "r21", "r12", "r11", "r10"]


def test_a_pipe_gets_one_line_for_each_run(qk_mcp: CommandLine, recorded: dict[str, RunRecord]) -> None:
    lines = {line.split()[0]: line for line in qk_mcp("runs", env={"COLUMNS": "0"}).stdout.splitlines()}
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(recorded["r11"].time))
    columns = ["r11", began, "claude-code", "shop", "exit 1", "3 min 20 s", "test -k 'log in'"]
    assert re.split(" {2,}", lines["r11"]) == columns
    for run, result in {
        "r10": "ok", "r12": "timed out", "r20": "running", "r21": "lost", "r22": "stopped", "r23": "signal 9",
        "r24": "did not begin",
    }.items():  # fmt: skip
        assert f"  {result}  " in lines[run]
    assert lines["r20"].endswith("  dev …"), "a task's name is safe to print"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--project", "web"], ["r24", "r23", "r22"]),
        (["--project", "shop", "--since", "2h"], ["r20", "r21", "r12"]),
        (["--failed"], ["r24", "r23", "r21", "r12", "r11"]),
        (["--since", "90s"], ["r20", "r24", "r23"]),
        (["--failed", "--project", "shop", "--since", "1d"], ["r21", "r12", "r11"]),
    ],
)
@pytest.mark.usefixtures("recorded")
def test_options_choose_runs(qk_mcp: CommandLine, options: list[str], expected: list[str]) -> None:
    assert ids(qk_mcp, *options) == expected
    listed = json.loads(qk_mcp("runs", "--json", *options).stdout)
    assert [run["run"] for run in listed] == expected


@pytest.mark.usefixtures("recorded")
def test_json_has_every_field(qk_mcp: CommandLine) -> None:
    (run,) = [run for run in json.loads(qk_mcp("runs", "--json").stdout) if run["run"] == "r11"]
    assert (run["exit_code"], run["args"], run["root"]) == (1, ["-k", "log in"], "/code/shop")


def test_a_terminal_gets_colours_and_relative_times(qk_mcp: CommandLine, recorded: dict[str, RunRecord]) -> None:
    screen = qk_mcp.on_terminal("runs", TERM="xterm-256color", COLUMNS="60").decode()
    lines = screen.splitlines()
    assert "RUN" in lines[0]
    assert "WHEN" in lines[0]
    assert len(lines) == 1 + len(recorded), "one line for each run"
    (failed,) = [line for line in lines if "r11" in line]
    assert "3 h ago" in failed
    assert "\x1b[31mexit 1" in failed
    assert "\x1b[2J" not in screen


def test_no_runs_and_no_match_have_a_note(qk_mcp: CommandLine) -> None:
    assert qk_mcp("runs").stderr == "no agent has run a task\n"
    assert qk_mcp("runs", "--failed").stderr == "no run matches\n"
    assert json.loads(qk_mcp("runs", "--json").stdout) == []


def test_a_wrong_age_is_wrong_usage(qk_mcp: CommandLine) -> None:
    outcome = qk_mcp("runs", "--since", "yesterday")
    assert outcome.code == 2
    assert "write it like 30m, 2h or 3d" in outcome.stderr


@pytest.mark.parametrize("command", ["show", "stop"])
@pytest.mark.usefixtures("recorded")
def test_a_run_is_named_by_a_unique_prefix(qk_mcp: CommandLine, command: str) -> None:
    ambiguous = qk_mcp("runs", command, "r1")
    assert ambiguous.code == 1
    assert "several runs begin with 'r1'" in ambiguous.stderr
    assert "r11  shop test" in ambiguous.stderr
    unknown = qk_mcp("runs", command, "x")
    assert unknown.code == 1
    assert "no recorded run begins with 'x'" in unknown.stderr
    assert "`qk-mcp runs` lists them" in unknown.stderr


@pytest.mark.usefixtures("recorded")
def test_a_run_that_has_ended_cannot_be_stopped(qk_mcp: CommandLine) -> None:
    outcome = qk_mcp("runs", "stop", "r11")
    assert outcome.code == 1
    assert "It is not running: test of shop: exit 1 after 3 min 20 s." in outcome.stderr


@pytest.mark.usefixtures("recorded")
def test_a_run_that_has_not_begun_cannot_be_stopped(qk_mcp: CommandLine) -> None:
    outcome = qk_mcp("runs", "stop", "r20")
    assert outcome.code == 1
    assert "Its task has not begun." in outcome.stderr


# show

OUTPUT = b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b[2Jend\n\xff"


@pytest.fixture
def shown(qk_mcp: CommandLine, recorded: dict[str, RunRecord]) -> RunRecord:
    """A recorded run whose output is kept."""
    files = {name: qk_mcp.home / name for name in ("stdout", "stderr")}
    files["stdout"].write_bytes(OUTPUT)
    files["stderr"].write_bytes(b"warned\n")
    record = replace(
        recorded["r11"],
        files={name: str(file) for name, file in files.items()},
        bytes={name: file.stat().st_size for name, file in files.items()},
    )
    append_run(record_of(qk_mcp), record)
    return record


def test_a_pipe_gets_the_original_output(qk_mcp: CommandLine, shown: RunRecord) -> None:
    with qk_mcp.start("runs", "show", shown.run) as process:
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (0, OUTPUT)
    assert stderr == b"warned\nr11: test of shop: exit 1 after 3 min 20 s\n"


def test_a_terminal_gets_only_colours(qk_mcp: CommandLine, shown: RunRecord) -> None:
    screen = qk_mcp.on_terminal("runs", "show", shown.run)
    assert screen.startswith("\x1b[1;31mred\x1b[0m end\r\n\ufffd\x1b[0m".encode())
    assert b"title" not in screen
    assert b"\x1b[2J" not in screen


def test_output_that_is_gone_is_reported(qk_mcp: CommandLine, shown: RunRecord) -> None:
    Path(shown.files["stdout"]).unlink()
    outcome = qk_mcp("runs", "show", shown.run)
    assert (outcome.code, outcome.stdout) == (0, "")
    assert f"stdout: none of its {len(OUTPUT)} bytes were kept" in outcome.stderr


# with a server


@pytest.fixture
def root(project: Callable[..., Path]) -> Path:
    return project(SOURCE)


def begin_slow(client: Client, root: Path) -> Call:
    call = client.start("run_task", task_name="slow", args=["a b"])
    client.until(lambda: (root / "begun").exists(), what="the task to begin")
    return call


def test_a_person_stops_a_run_of_a_server(serve: Serve, qk_mcp: CommandLine, root: Path) -> None:
    call = begin_slow(serve(root), root)
    (record,) = read_runs(record_of(qk_mcp)).records
    stopped = qk_mcp("runs", "stop", record.run[:4])
    assert stopped.code == 0
    assert stopped.stderr.startswith(f"{record.run}: slow of demo: stopped after ")
    assert "a person stopped it with `qk-mcp runs stop`" in call.wait().refusal
    assert ids(qk_mcp, "--failed") == []


@pytest.fixture
def following(qk_mcp: CommandLine) -> Iterator[Callable[..., Callable[[], str]]]:
    """Start commands that follow; each gives the lines that it has printed so far."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> Callable[[], str]:
        output = qk_mcp.home / f"output-{len(processes)}"
        with output.open("wb") as stream:
            processes.append(qk_mcp.start("runs", *words, stdout=stream))
        return output.read_text

    yield start
    for process in processes:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.communicate()[1] == b""


def test_runs_are_followed(serve: Serve, root: Path, following: Callable[..., Callable[[], str]]) -> None:
    client = serve(root)
    lines, objects = following("--follow"), following("--follow", "--json")
    call = begin_slow(client, root)
    until(lambda: "  running  " in lines() and '"running"' in objects())
    (root / "go on").touch()
    assert call.wait().data["exit_code"] == 0
    until(lambda: "  ok  " in lines() and '"ended"' in objects())
    assert "slow 'a b'" in lines()
    assert [json.loads(line)["state"] for line in objects().splitlines()] == ["running", "ended"]


def test_the_output_of_a_running_task_is_followed(serve: Serve, qk_mcp: CommandLine, root: Path) -> None:
    call = begin_slow(serve(root), root)
    with qk_mcp.start("runs", "show", "r", "--follow") as process:
        assert process.stdout
        assert process.stdout.readline() == b"working\n"
        (root / "go on").touch()
        stdout, stderr = process.communicate(timeout=60)
    assert call.wait().data["exit_code"] == 0
    assert (process.returncode, stdout) == (0, b"done\n")
    assert re.fullmatch(rb"r\w+: slow of demo: ok after .* s\n", stderr)


@pytest.mark.usefixtures("recorded")
def test_tab_completes_runs(qk_mcp: CommandLine) -> None:
    def candidates(*words: str) -> list[str]:
        answer = qk_mcp("__complete", "fish", *words).stdout.splitlines()[1:]
        return [line.split("\t")[0] for line in answer]

    assert candidates("runs", "show", "") == ["r24", "r23", "r22", "r21", "r12", "r11", "r20", "r10"]
    assert candidates("runs", "stop", "") == ["r20"]
    assert candidates("runs", "--project", "") == ["shop", "shop@fix", "web"]
    assert {"show", "stop"} <= set(candidates("runs", ""))
    assert {"--failed", "--since", "--json", "--follow", "--project"} <= set(candidates("runs", "--"))
