"""The command line as such: usage, exit codes, streams, colours."""

import fcntl
import re
import select
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from qk_mcp import __version__
from qk_mcp.cli.app import app
from tests.support.cli import CommandLine, Outcome
from tests.support.processes import until

COMMANDS = ", ".join(name for name in app if not name.startswith("-"))

WRONG = {
    "projcts list": ("qk-mcp has no command 'projcts'", f"Commands: {COMMANDS}.", "did you mean qk-mcp projects?"),
    "frobnicate": ("qk-mcp has no command 'frobnicate'", f"Commands: {COMMANDS}.", "qk-mcp --help shows what it takes"),
    "app:/x/_qk": (
        "qk-mcp has no command 'app:/x/_qk'",
        f"Commands: {COMMANDS}.",
        "to serve a project, write: qk-mcp serve --project app:/x/_qk",
    ),
    "projects rm app": (
        "qk-mcp projects has no command 'rm'",
        "Commands: add, remove, set, unset, list, path.",
        "did you mean qk-mcp projects remove?",
    ),
    "list": ("qk-mcp has no command 'list'", f"Commands: {COMMANDS}.", "did you mean qk-mcp projects list?"),
    "ls": ("qk-mcp has no command 'ls'", f"Commands: {COMMANDS}.", "did you mean qk-mcp projects list?"),
    "add": ("qk-mcp has no command 'add'", f"Commands: {COMMANDS}.", "did you mean qk-mcp projects add?"),
    "rm app": ("qk-mcp has no command 'rm'", f"Commands: {COMMANDS}.", "did you mean qk-mcp projects remove?"),
    "--verison": ("qk-mcp has no option --verison", "did you mean --version?"),
    "serve --verison": ("qk-mcp serve has no option --verison", "did you mean --verbose?"),
    "projects add --froce x": ("qk-mcp projects add has no option --froce", "did you mean --force?"),
    "projects add": (
        "qk-mcp projects add: NAME:PATH is missing",
        "qk-mcp projects add --help shows what it takes",
    ),
    "projects add a:/x b:/y": (
        "qk-mcp projects add does not take 'b:/y'",
        "qk-mcp projects add --help shows what it takes",
    ),
    "projects list --config": (
        "qk-mcp projects list: --config needs a value",
        "qk-mcp projects list --help shows what it takes",
    ),
    "projects path --config a --config b": ("qk-mcp projects path: --config is given twice", "give it once"),
    "projects list --json=maybe": (
        'qk-mcp projects list: invalid value for --json: unable to convert "maybe" into bool',
        "qk-mcp projects list --help shows what it takes",
    ),
    "--projet a:/x": ("qk-mcp has no option --projet", "did you mean --project?"),
    "-v projects list": ("qk-mcp does not take 'projects'", "a command comes first: qk-mcp projects"),
}


@pytest.mark.parametrize(("line", "expected"), WRONG.items(), ids=WRONG)
def test_wrong_usage_gets_a_message_of_one_form(qk_mcp: CommandLine, line: str, expected: tuple[str, ...]) -> None:
    what, *why, hint = expected
    lines = [f"error: {what}", *(f"  {line}" for line in why), f"hint: {hint}"]
    assert qk_mcp(*line.split()) == Outcome(2, "", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--project a:/x",
        *(pytest.param(line, marks=pytest.mark.long) for line in ("-v", "-q --project a:/x -v", "serve")),
    ],
)
def test_without_a_command_it_serves(qk_mcp: CommandLine, line: str) -> None:
    initialize = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    process = qk_mcp.start(*line.split(), stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(initialize)
    process.stdin.flush()
    select.select([process.stdout], [], [], 60)  # the server writes nothing after stdin has ended
    stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, b'"id":1' in stdout) == (0, True)


def test_help_and_version_belong_to_the_app(qk_mcp: CommandLine) -> None:
    for option in ("--version", "-V"):
        assert qk_mcp(option) == Outcome(0, f"qk-mcp {__version__}\n", "")
    for option in ("--help", "-h"):
        outcome = qk_mcp(option)
        assert (outcome.code, outcome.stderr) == (0, "")
        assert outcome.stdout.startswith("Usage: qk-mcp COMMAND\n")


@pytest.mark.parametrize(
    "line",
    [
        *("", "serve", "inspect", "run", "install", "uninstall", "doctor", "agents-md", "help"),
        *("projects", "projects add", "projects remove", "projects list", "projects path"),
        *("projects set", "projects unset", "runs", "runs show", "runs stop"),
    ],
)
def test_help_is_short_and_ends_with_examples(qk_mcp: CommandLine, line: str) -> None:
    outcome = qk_mcp(*line.split(), "--help", env={"COLUMNS": "80"})
    lines = outcome.stdout.splitlines()
    assert outcome.code == 0
    assert lines[0].startswith(f"Usage: {' '.join(('qk-mcp', *line.split()))}")
    examples = lines[lines.index("Examples:") + 1 :]
    assert examples
    assert all(example.startswith("  qk-mcp") for example in examples)
    assert len(lines) <= (52 if line == "serve" else 32)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line != line.rstrip()]
    narrow = qk_mcp(*line.split(), "--help", env={"COLUMNS": "60"}).stdout.splitlines()
    assert max(len(line) for line in narrow[: -len(examples)]) <= 60


# Streams


@pytest.fixture
def full(qk_mcp: CommandLine) -> CommandLine:
    """A config with more projects than a pipe holds."""
    qk_mcp.write_config("[projects]\n" + "".join(f'app{n} = "/{"x" * 200}{n}"\n' for n in range(300)))
    return qk_mcp


@pytest.mark.parametrize("command", [["projects", "list"], ["projects", "list", "--json"], ["--help"], ["--version"]])
def test_a_reader_that_leaves_early_is_no_error(full: CommandLine, command: list[str]) -> None:
    process = full.start(*command)
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 0
    process.stderr.close()


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(full: CommandLine, closing: str) -> None:
    before = full.config.read_bytes()
    for args, code in ((["projects", "list"], 0), (["projects", "remove", "none"], 1), (["--helb"], 2)):
        outcome = full(*args, shell=f'exec "$@" {closing}')
        assert outcome.code == code
        assert ">&-" not in closing.split() or outcome.stdout == ""
        assert "Traceback" not in outcome.stderr
    assert full.config.read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error(full: CommandLine) -> None:
    for args in (["projects", "list"], ["projects", "path"], ["--version"], ["--help"]):
        outcome = full(*args, shell='exec "$@" >/dev/full')
        assert outcome == Outcome(1, "", "error: No space left on device\n")
    assert full("projects", "remove", "none", shell='exec "$@" 2>/dev/full').code == 1


def test_an_interrupt_ends_it_quietly(qk_mcp: CommandLine) -> None:
    qk_mcp.write_config('[projects]\napp = "/x"\n')
    lock = qk_mcp.config.with_name(".config.toml.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as another process does that edits the config
        process = qk_mcp.start("projects", "remove", "app")
        until(lambda: process.poll() is not None or _has_open(process.pid, lock), what="it to wait for the lock")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, b"")


def _has_open(pid: int, file: Path) -> bool:
    return str(file) in (each.path for each in psutil.Process(pid).open_files())


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}])
def test_any_name_can_be_written_in_any_encoding(qk_mcp: CommandLine, locale: dict[str, str]) -> None:
    qk_mcp.write_config('[projects]\n"日本 é" = "/日本"\n')
    for args, code in ((["projects", "list"], 0), (["projects", "remove", "日"], 1)):
        process = qk_mcp.start(*args, env=locale)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == code
        assert b"Traceback" not in stderr


@pytest.mark.parametrize("args", [["projects", "list"], ["projcts"], ["--help"]])
def test_colours_are_for_terminals_that_want_them(qk_mcp: CommandLine, args: list[str]) -> None:
    qk_mcp.write_config('[projects]\napp = "/x"\n')
    colour = re.compile(rb"\x1b\[[\d;]*3\dm")
    assert b"\x1b[" in qk_mcp.on_terminal(*args, TERM="xterm")
    assert not colour.search(qk_mcp.on_terminal(*args, TERM="xterm", NO_COLOR="1"))
    assert b"\x1b[" not in qk_mcp.on_terminal(*args, TERM="dumb")
    piped = qk_mcp(*args, env={"TERM": "xterm"})
    assert "\x1b[" not in piped.stdout + piped.stderr
