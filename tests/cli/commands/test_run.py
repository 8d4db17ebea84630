"""`qk-mcp run`: a task in the terminal, as an agent would run it."""

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.cli import CommandLine, Outcome
from tests.support.processes import gone, read_pid, until
from tests.support.projects import make_project

SOURCE = """
    import json, os, signal, subprocess, sys, time
    from pathlib import Path
    from quickie import Arg, Task, task

    @task(name="args")
    class Args(Task):
        def parse_and_run(self, args):  # before argparse takes its share
            print(json.dumps(args))

    @task(args=[Arg("--count", type=int, default=1)])
    def greet(count):
        print("hello " * count)

    @task
    def streams():
        os.write(1, b"\\x1b[32mgreen\\x1b[0m\\rred\\xff\\n")
        os.write(2, b"warned\\n")
        sys.exit(3)

    @task
    def where():
        print(os.getcwd(), os.path.dirname(sys.executable) in os.environ["PATH"])

    @task
    def wait():
        print("waiting")
        while not Path("go").exists():
            time.sleep(0.02)
        print("went", end="")

    @task
    def copy():
        sys.stdout.buffer.write(sys.stdin.buffer.read())

    @task
    def dies():
        os.kill(os.getpid(), signal.SIGKILL)

    @task
    def lasts():
        child = subprocess.Popen(["sleep", "600"])
        Path("child").write_text(f"{child.pid}\\n")
        try:
            time.sleep(600)
        finally:
            print("cleaned up", flush=True)

    @task
    def leaves():
        child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        Path("child").write_text(f"{child.pid}\\n")

    @task
    def much():
        print("x" * 99 + "\\n" * 1, end="")
        for _ in range(1000):
            print("y" * 99)

    @task
    def endless():
        Path("child").write_text(f"{os.getpid()}\\n")
        while True:
            print("again")
"""


@pytest.fixture
def root(project: Callable[..., Path], qk_mcp: CommandLine) -> Path:
    """A project named `demo` in the user's config; the user's only one."""
    root = project(SOURCE)
    qk_mcp.write_config(f"[projects]\ndemo = {json.dumps(str(root))}\n")
    return root


@pytest.mark.usefixtures("root")
class TestWords:
    """What the words of the command line mean."""

    @pytest.mark.parametrize(
        "before", [["args"], ["demo", "args"], ["--timeout", "50", "demo", "args"], ["--", "args"]]
    )
    def test_words_after_the_task_are_its_arguments(self, qk_mcp: CommandLine, before: list[str]) -> None:
        words = ["--json", "--project", "x", "--timeout=1", "--help", "-h", "--version", "--", "-x", "--"]
        words += ["", " ", "a b", "*", "$HOME", "@file", "-1", "é", "日本", "args"]
        assert qk_mcp("run", *before, *words) == Outcome(0, json.dumps(words) + "\n", "")

    @pytest.mark.parametrize("words", [["--"], ["--", "--"], ["demo"], []])
    def test_words_that_are_options_elsewhere_are_passed_on(self, qk_mcp: CommandLine, words: list[str]) -> None:
        assert qk_mcp("run", "args", *words) == Outcome(0, json.dumps(words) + "\n", "")

    def test_help_after_the_task_is_the_tasks_help(self, qk_mcp: CommandLine) -> None:
        outcome = qk_mcp("run", "greet", "--help")
        assert outcome.code == 0
        assert outcome.stdout.startswith("usage: greet [-h] [--count COUNT]")

    def test_a_project_is_named_first_and_may_be_a_path(
        self, qk_mcp: CommandLine, root: Path, project: Callable[..., Path]
    ) -> None:
        other = project("from quickie import task\n@task\ndef greet():\n    print('hello from', __file__)", "other")
        more = ["--project", f"demo:{root}", "--project", f"other:{other}"]
        assert qk_mcp("run", *more, "other", "greet").stdout == f"hello from {other}/_qk/__init__.py\n"
        for path, cwd in ((root, None), (".", root), ("./_qk", root), ("~/../project", None)):
            assert qk_mcp("run", *more, path, "greet", cwd=cwd).stdout == "hello \n"

    def test_the_project_of_the_current_directory_is_the_default(
        self, qk_mcp: CommandLine, root: Path, project: Callable[..., Path]
    ) -> None:
        other = project("from quickie import task\n@task\ndef greet():\n    print('other')", "other")
        assert qk_mcp("run", "greet", cwd=other / "_qk").stdout == "other\n"
        assert qk_mcp("run", "demo", "greet", cwd=other).stdout == "hello \n"
        assert qk_mcp("run", "greet", cwd=root).stdout == "hello \n"

    def test_a_projects_name_is_never_a_task(self, qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
        web = project("from quickie import task\n@task\ndef web():\n    print('ran')", "web")
        assert qk_mcp("run", "web", cwd=web) == Outcome(
            2,
            "",
            "error: which task of project 'web'?\nhint: name it after the project; `qk-mcp inspect web` lists them\n",
        )
        assert qk_mcp("run", "web", "web", cwd=web) == Outcome(0, "ran\n", "")


WRONG = {
    "": (2, "which task?", "qk-mcp inspect lists the tasks of your projects"),
    "gret": (1, "project 'demo' has no task named 'gret'", "There is no project of that name", "did you mean 'greet'?"),
    "dmo greet": (1, "project 'demo' has no task named 'dmo'", "did you mean the project 'demo'?"),
    "demo gret": (1, "project 'demo' has no task named 'gret'", "did you mean 'greet'?"),
    "demo xyz": (1, "project 'demo' has no task named 'xyz'", "`qk-mcp inspect demo` lists its tasks"),
    "demo --json greet": (2, "option --json: it must come before the project", "write: qk-mcp run --json demo"),
    "demo --timeout 3 greet": (2, "option --timeout: it must come before", "write: qk-mcp run --timeout 3 demo TASK"),
    "demo GREET": (1, "project 'demo' has no task named 'GREET'", "did you mean 'greet'?"),
    "/nowhere greet": (1, "no project is served for the path '/nowhere'", "It does not exist."),
    "--jsn greet": (2, "qk-mcp run has no option --jsn", "did you mean --json?"),
    "--timeout 0 greet": (2, "option --timeout: it must be more than 0 and less than 86400 seconds, not 0"),
    "--timeout nan greet": (2, "option --timeout: it must be"),
    "--timeout soon greet": (2, "--timeout"),
    "--project x greet": (2, "'x' is not NAME:PATH"),
    "--project x:/nowhere greet": (1, "project 'x': there is no /nowhere"),
    "demo :init": (1, "project 'demo' has no task named ':init'"),
}


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(("line", "expected"), WRONG.items(), ids=WRONG)
def test_a_mistake_is_reported_with_its_remedy(qk_mcp: CommandLine, line: str, expected: tuple[int, str]) -> None:
    code, *parts = expected
    outcome = qk_mcp("run", *line.split())
    assert (outcome.code, outcome.stdout) == (code, "")
    assert outcome.stderr.startswith("error: ")
    for part in parts:
        assert str(part) in outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("words", [["build"], ["build", "it"]])
def test_several_projects_and_no_default(qk_mcp: CommandLine, project: Callable[..., Path], words: list[str]) -> None:
    options = [f"--project={name}:{project('', name)}" for name in ("one", "two")]
    outcome = qk_mcp("run", *options, *words)
    assert outcome.code == 1
    assert "Projects: one, two." in outcome.stderr
    assert "hint: write the project before the task" in outcome.stderr
    assert "did you mean 'two'?" in qk_mcp("run", *options, "tow", "build").stderr


def test_a_broken_project_says_what_to_fix(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    root = project("import nowhere_to_be_found")
    outcome = qk_mcp("run", "--project", f"demo:{root}", "x")
    assert (outcome.code, outcome.stdout) == (1, "")
    assert "  _qk/__init__.py:1: import nowhere_to_be_found\n" in outcome.stderr
    assert "ask the user which package provides it" in outcome.stderr


# Streams


@pytest.mark.usefixtures("root")
def test_output_and_exit_code_are_the_tasks_byte_for_byte(qk_mcp: CommandLine) -> None:
    process = qk_mcp.start("run", "streams")
    assert process.communicate(timeout=60) == (b"\x1b[32mgreen\x1b[0m\rred\xff\n", b"warned\n")
    assert process.returncode == 3


@pytest.mark.usefixtures("root")
def test_a_signal_becomes_the_exit_code_of_a_shell(qk_mcp: CommandLine) -> None:
    assert qk_mcp("run", "dies").code == 128 + signal.SIGKILL


def test_it_runs_in_the_projects_root_and_environment(qk_mcp: CommandLine, root: Path) -> None:
    assert qk_mcp("run", "where").stdout == f"{root} True\n"


def test_output_is_live(qk_mcp: CommandLine, root: Path) -> None:
    with qk_mcp.start("run", "wait") as process:
        assert process.stdout
        assert process.stdout.readline() == b"waiting\n"
        (root / "go").touch()
        assert process.stdout.read() == b"went"


@pytest.mark.long
@pytest.mark.usefixtures("root")
def test_stdin_is_passed_on_and_left_alone(qk_mcp: CommandLine) -> None:
    process = qk_mcp.start("run", "copy", stdin=subprocess.PIPE)
    data = bytes(range(256)) * 5000
    assert process.communicate(data, timeout=60) == (data, b"")
    assert qk_mcp("run", "greet", shell='printf "one\\ntwo\\n" | { "$@"; cat; }').stdout == "hello \none\ntwo\n"
    assert qk_mcp("run", "copy", shell='exec "$@" <&-') == Outcome(0, "", "")


def test_a_task_does_not_inherit_the_state_of_the_shell(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    """With SIGCHLD ignored, each child would exit with 0; the stdin of a terminal becomes /dev/null."""
    root = project("""
        import os, signal, subprocess
        from quickie import task

        @task
        def look():
            print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, subprocess.run(["false"]).returncode)
            print(os.path.samestat(os.fstat(0), os.stat(os.devnull)), os.environ["PWD"], os.environ.get("OLDPWD"))
    """)
    ours, theirs = pty.openpty()
    process = qk_mcp.start(
        *("run", "--project", f"app:{root}", "look"),
        shell='trap "" CHLD INT HUP; cd /usr; cd /; exec "$@"',
        stdin=theirs,
    )
    assert process.communicate(timeout=60) == (f"True 1\nTrue {root} None\n".encode(), b"")
    os.close(ours)
    os.close(theirs)


@pytest.mark.usefixtures("root")
def test_a_terminal_is_not_passed_on_as_stdin(qk_mcp: CommandLine) -> None:
    ours, theirs = pty.openpty()
    process = qk_mcp.start("run", "copy", stdin=theirs)
    assert process.communicate(timeout=60) == (b"", b"")
    os.close(ours)
    os.close(theirs)


def test_a_reader_that_leaves_early_stops_the_task(qk_mcp: CommandLine, root: Path) -> None:
    with qk_mcp.start("run", "endless") as process:
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 128 + signal.SIGPIPE
    gone(read_pid(root / "child"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error(qk_mcp: CommandLine, root: Path) -> None:
    assert qk_mcp("run", "endless", shell='exec "$@" >/dev/full') == Outcome(1, "", "error: No space left on device\n")
    gone(read_pid(root / "child"))


# Ends


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_tree_and_lets_it_clean_up(qk_mcp: CommandLine, root: Path, number: signal.Signals) -> None:
    process = qk_mcp.start("run", "lasts")
    child = read_pid(root / "child")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (128 + number, b"")
    assert stdout.startswith(b"cleaned up\n")
    gone(child)


def test_a_second_signal_does_not_wait(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    root = project("""
        import os, signal, time
        from pathlib import Path
        from quickie import task

        @task
        def stubborn():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            Path("child").write_text(f"{os.getpid()}\\n")
            time.sleep(600)
    """)
    process = qk_mcp.start("run", "--project", f"demo:{root}", "stubborn")
    child = read_pid(root / "child")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    until(lambda: process.poll() is not None, 20)
    assert process.returncode in (130, 143)
    gone(child)
    process.communicate()


def test_a_timeout_stops_the_tree(qk_mcp: CommandLine, root: Path) -> None:
    outcome = qk_mcp("run", "--timeout", "1.5", "lasts")
    assert outcome.code == 1
    assert outcome.stdout.startswith("cleaned up\n")
    assert outcome.stderr == (
        "error: task 'lasts' ran longer than its timeout of 1.5 s; it was stopped with all its child processes\n"
        "hint: give it a larger --timeout\n"
    )
    gone(read_pid(root / "child"))


def test_processes_that_a_task_leaves_running_are_named(qk_mcp: CommandLine, root: Path) -> None:
    outcome = qk_mcp("run", "leaves")
    child = read_pid(root / "child")
    try:
        assert outcome == Outcome(0, "", f"left running: {child} sleep 600\n")
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


# What an agent gets


@pytest.mark.usefixtures("root")
def test_json_is_what_an_agent_gets(qk_mcp: CommandLine) -> None:
    outcome = qk_mcp("run", "--json", "streams")
    assert (outcome.code, outcome.stderr) == (3, "")
    assert json.loads(outcome.stdout) == {"exit_code": 3, "stdout": "red\ufffd\n", "stderr": "warned\n"}
    killed = qk_mcp("run", "--json", "dies")
    assert (killed.code, json.loads(killed.stdout)["exit_code"]) == (137, -9)


@pytest.mark.usefixtures("root")
def test_json_is_bounded_and_says_where_the_rest_is(qk_mcp: CommandLine) -> None:
    answer = json.loads(qk_mcp("run", "--json", "much").stdout)
    assert len(answer["stdout"]) < 40_000
    whole = Path(answer["truncated"]["stdout"]["file"])
    assert whole.is_relative_to(qk_mcp.home)
    assert whole.stat().st_size == answer["truncated"]["stdout"]["bytes"] == 100_100


@pytest.mark.usefixtures("root")
def test_without_json_no_output_file_is_kept(qk_mcp: CommandLine) -> None:
    assert len(qk_mcp("run", "much").stdout) == 100_100
    assert not [path for path in (qk_mcp.home / ".local" / "state").rglob("*") if path.is_file()]


def test_with_json_a_timeout_reports_the_output_so_far(qk_mcp: CommandLine, root: Path) -> None:
    outcome = qk_mcp("run", "--json", "--timeout", "1.5", "wait")
    assert (outcome.code, outcome.stderr) == (1, "")
    report = json.loads(outcome.stdout)
    assert report["details"].endswith("--- stdout so far ---\nwaiting\nExiting due to KeyboardInterrupt.")
    assert not (root / "go").exists()


@pytest.mark.usefixtures("root")
def test_with_json_a_failure_is_json_too(qk_mcp: CommandLine) -> None:
    unknown = qk_mcp("run", "--json", "gret")
    assert (unknown.code, unknown.stderr) == (1, "")
    report = json.loads(unknown.stdout)
    assert report["error"].startswith("project 'demo' has no task named 'gret'")
    assert "'greet'" in report["hint"]
    usage = qk_mcp("inspect", "--json", "--watch")
    assert (usage.code, usage.stderr) == (2, "")
    assert json.loads(usage.stdout)["error"] == "--watch and --json exclude each other"
    assert qk_mcp("run", "demo", "gret", "--json").stdout == ""  # that option is the task's


def _names_the_owner(qk_mcp: CommandLine, command: str) -> bool:
    return "hint: write the project before its task: demo greet\n" in qk_mcp(command, "greet").stderr


def test_without_a_default_project_the_one_that_has_the_task_is_named(qk_mcp: CommandLine, root: Path) -> None:
    other = make_project(root.parent / "other", "from quickie import task\n@task\ndef other(): pass\n")
    qk_mcp.write_config(f"[projects]\ndemo = {json.dumps(str(root))}\nother = {json.dumps(str(other))}\n")
    for command in ("run", "inspect"):
        until(partial(_names_the_owner, qk_mcp, command))  # a slow machine may need a second try
        outcome = qk_mcp(command, "nothing")
        assert outcome.code == 1
        assert outcome.stderr == (
            "error: no project is named 'nothing', and there is no default project\n"
            "  Projects: demo, other.\nhint: write the project before the task\n"
        )


@pytest.mark.usefixtures("root")
def test_it_does_without_the_servers_libraries(qk_mcp: CommandLine) -> None:
    imports = qk_mcp("run", "greet", env={"PYTHONPROFILEIMPORTTIME": "1"}).stderr
    modules = {line.rpartition("|")[2].strip() for line in imports.splitlines()}
    assert "qk_mcp.runs.run" in modules
    assert not modules & {"fastmcp", "mcp", "pydantic", "httpx"}


FLOOD = """
    import os, sys, time
    from pathlib import Path
    from quickie import task

    @task
    def flood():
        Path("leader").write_text(f"{os.getpid()}\\n")
        for number in range(400_000):
            print(number)
        Path("all").touch()
"""


def _paused(qk_mcp: CommandLine, *options: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a run whose reader has paused, and wait until the task can write no more. Returns it and the task's pid."""
    process = qk_mcp.start("run", *options, "flood", stderr=subprocess.DEVNULL)
    return process, read_pid(qk_mcp.home / "leader")


@pytest.fixture
def flood(qk_mcp: CommandLine) -> CommandLine:
    """The command line of a user in a project with much output."""
    make_project(qk_mcp.home, FLOOD)
    return qk_mcp


@pytest.mark.parametrize("numbers", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM]], ids=["Ctrl+C twice", "SIGTERM"])
def test_a_signal_ends_a_run_whose_reader_has_paused(flood: CommandLine, numbers: list[signal.Signals]) -> None:
    process, leader = _paused(flood)
    with process:
        time.sleep(0.5)  # until all buffers are full
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.1)
        assert process.wait(30) == 128 + numbers[0]
        gone(leader)
    assert not (flood.home / "all").exists(), "the task waits for the reader"


def test_a_timeout_ends_a_run_whose_reader_has_paused(flood: CommandLine) -> None:
    process, leader = _paused(flood, "--timeout", "1.5")
    with process:
        assert process.wait(30) == 1
        gone(leader)


def test_a_terminal_that_has_stopped_does_not_hold_up_a_timeout(flood: CommandLine) -> None:
    ours, theirs = pty.openpty()
    try:
        with flood.start("run", "--timeout", "1.5", "flood", stdout=theirs, stderr=subprocess.DEVNULL) as process:
            assert process.wait(30) == 1
        gone(read_pid(flood.home / "leader"))
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.mark.long
def test_a_reader_that_pauses_misses_nothing(flood: CommandLine) -> None:
    process, _ = _paused(flood)
    with process:
        time.sleep(0.5)
        assert not (flood.home / "all").exists()
        stdout, _ = process.communicate(timeout=120)
    assert stdout == b"".join(b"%d\n" % number for number in range(400_000))
    assert process.returncode == 0


@pytest.mark.parametrize(("task", "asked"), [("asks", "asked 'Sure? [y/N]'"), ("reads", "asked for input")])
def test_a_task_that_asks_in_a_terminal_gets_a_hint(
    qk_mcp: CommandLine, project: Callable[..., Path], task: str, asked: str
) -> None:
    root = project("""
        from quickie import script, task

        @script
        def asks():
            return "printf 'Sure? [y/N] '; read answer; exit 1"

        @task
        def reads():
            input()
    """)
    hint = f"hint: the task {asked}, but has no terminal: give its input on stdin, or run it with qk"
    words = ("run", "--project", f"demo:{root}", task)
    assert hint in qk_mcp.on_terminal(*words).decode()
    assert "hint" not in qk_mcp(*words).stderr
