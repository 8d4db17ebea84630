"""`qk-mcp doctor`, run as a user would: what is right, what is wrong, and the remedies."""

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qk_mcp import __version__
from qk_mcp.cli.doctor.checks import check_scripts
from qk_mcp.runs.record import append_run
from tests.runs.test_record import made
from tests.support.cli import CommandLine
from tests.support.environment import BARE_PATH, PROGRAM, QK_MCP, scrubbed
from tests.support.environments import make_venv, site_of
from tests.support.processes import until
from tests.support.projects import make_project

_TASKS = """
    from quickie import task

    @task
    def hello():
        print("hello")
"""

QUICKIES = "#!/usr/bin/python3\nimport sys\nfrom quickie.mcp import main\nsys.exit(main())\n"
"""The console script that quickie-runner installs under our name."""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return make_project(tmp_path / "app", _TASKS)


def _write_script(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


class Doctor:
    """The output of `doctor --json`."""

    def __init__(self, qk_mcp: CommandLine, *args: str, **more: Any) -> None:
        done = qk_mcp("doctor", "--json", *args, **more)
        assert done.stderr == ""
        report = json.loads(done.stdout)
        self.ok: bool = report["ok"]
        self.checks: list[dict[str, str]] = report["checks"]
        assert done.code == (0 if self.ok else 1)
        assert self.ok is not any(check["status"] == "wrong" for check in self.checks)

    def of(self, name: str) -> dict[str, str]:
        [found] = [check for check in self.checks if check["check"] == name]
        return found


@pytest.mark.long
def test_a_healthy_installation(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp.write_config(f'[projects]\napp = "{app}"\n')
    assert qk_mcp("install", "cursor", "--write").code == 0
    done = qk_mcp("doctor")
    assert done.code == 0, done.stdout
    assert done.stderr == ""
    assert done.stdout.endswith("\nnothing is wrong\n")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"ok     program: qk-mcp {__version__} on Python 3.")
    assert "ok     config: valid, with 1 project" in lines
    assert f"       {qk_mcp.config}" in lines
    assert any(re.fullmatch(r"ok     project app: 1 task, described in \d+\.\d\d s", line) for line in lines)
    assert f"       root {app}" in lines
    assert any(line.startswith("       Python ") and ", quickie 1." in line for line in lines)
    assert any(
        re.fullmatch(r"(ok  |note)   server: answered in \S+ s, listed 1 task, ended in \S+ s", line) for line in lines
    )
    assert f"ok     Cursor: qk-mcp in {qk_mcp.home}/.cursor/mcp.json" in lines
    assert "\033" not in done.stdout


@pytest.mark.long
def test_json_has_the_same_checks(qk_mcp: CommandLine, app: Path) -> None:
    doctor = Doctor(qk_mcp, "--project", f"app:{app}")
    assert doctor.ok
    assert [check["check"] for check in doctor.checks] == [
        *("program", "command", "record", "project app", "server", "clients")
    ]
    assert all(list(check) == ["check", "status", "what", "remedy"] for check in doctor.checks)
    assert doctor.of("clients")["remedy"] == f"{PROGRAM} install CLIENT --write"


@pytest.mark.long
def test_nothing_is_wrong_for_a_new_user(qk_mcp: CommandLine) -> None:
    doctor = Doctor(qk_mcp)
    assert doctor.ok
    assert "none is needed" in doctor.of("config")["what"]
    assert "qk-mcp projects add" in doctor.of("projects")["what"]


def test_wrong_usage_is_reported_at_once(qk_mcp: CommandLine) -> None:
    for args in (["--project", "x"], ["--describe-timeout", "0"]):
        done = qk_mcp("doctor", *args)
        assert (done.code, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")


# The command


def test_quickies_script_on_path(qk_mcp: CommandLine, tmp_path: Path) -> None:
    script = _write_script(tmp_path / "bin" / "qk-mcp", QUICKIES)
    doctor = Doctor(qk_mcp, env={"PATH": f"{script.parent}:{BARE_PATH}"})
    check = doctor.of("command")
    assert check["status"] == "wrong"
    assert "quickie's own server" in check["what"]
    assert str(script) in check["what"]
    assert check["remedy"] == f"start this one as {PROGRAM}, or put its directory first on PATH"


@pytest.mark.parametrize(
    ("text", "status", "summary"),
    [
        (f"#!{sys.executable}\nfrom qk_mcp.__main__ import main\nmain()\n", "ok", "is this one"),
        ("#!/opt/other/bin/python\nfrom qk_mcp.__main__ import main\nmain()\n", "note", "another installation"),
        ('#!/bin/sh\nexec pyenv exec qk-mcp "$@"\n', "note", "cannot identify"),
    ],
)
def test_other_scripts_on_path(tmp_path: Path, text: str, status: str, summary: str) -> None:
    script = _write_script(tmp_path / "bin" / "qk-mcp", text)
    check, *_ = check_scripts({"PATH": str(script.parent)})
    assert check.status == status
    assert summary in check.what
    assert check.what.endswith(f"\n{script}")


@pytest.mark.long
def test_quickies_script_in_our_place(qk_mcp: CommandLine, tmp_path: Path) -> None:
    """As after an installer wrote quickie's script last: the record is ours, the file is theirs."""
    python = make_venv(tmp_path / "venv")
    site = site_of(tmp_path / "venv")
    (site / "ours.pth").write_text(f"{Path(__file__).parents[3]}\n{site_of(Path(sys.prefix))}\n")
    record = site / f"qk_mcp-{__version__}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: qk-mcp\nVersion: {__version__}\n")
    (record / "RECORD").write_text("../../../bin/qk-mcp,,\n")
    script = _write_script(python.parent / "qk-mcp", QUICKIES)

    def check() -> list[dict[str, str]]:
        done = subprocess.run(
            [python, "-P", "-m", "qk_mcp", "doctor", "--json"],
            capture_output=True,
            cwd="/",
            env=scrubbed(qk_mcp.home),
            timeout=120,
            check=False,
        )
        return [check for check in json.loads(done.stdout)["checks"] if check["check"] == "command"]

    missing, wrong = check()
    assert missing["status"] == "note"
    assert missing["remedy"] == f"add {python.parent} to PATH"
    assert wrong["status"] == "wrong"
    assert wrong["what"].endswith(str(script))
    assert wrong["remedy"].startswith(f"{python} -m ")

    (tmp_path / "venv" / "uv-receipt.toml").touch()
    assert check()[1]["remedy"] == "uv tool install --force --reinstall qk-mcp"


# The config


def test_a_config_that_others_may_change(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp.write_config(f"[projects]\napp = '{app}'\n")
    qk_mcp.config.chmod(0o666)
    doctor = Doctor(qk_mcp)
    exposed = doctor.of("config")
    assert exposed["what"] == f"{qk_mcp.config} can be changed by everybody"
    assert exposed["remedy"] == f"chmod go-w {qk_mcp.config}"
    assert doctor.of("project app")["status"] == "ok"


@pytest.mark.parametrize("text", ["[projects", "[projects]\n'a/b' = 'x'\n", b"\xff"])
def test_a_broken_config(qk_mcp: CommandLine, text: str | bytes) -> None:
    qk_mcp.write_config(text)
    doctor = Doctor(qk_mcp)
    assert doctor.of("config")["status"] == "wrong"
    assert str(qk_mcp.config) in doctor.of("config")["what"]
    assert doctor.of("config")["remedy"] == "correct it by hand"
    assert doctor.of("server")["status"] == "note"


def test_the_config_that_serve_would_take(qk_mcp: CommandLine, app: Path, tmp_path: Path) -> None:
    team = tmp_path / "team.json"
    team.write_text(json.dumps({"projects": {"team": str(app)}}))
    team.chmod(0o600)
    for doctor in (
        Doctor(qk_mcp, env={"QK_MCP_CONFIG": str(team)}),
        Doctor(qk_mcp, "--config", "team.json", cwd=tmp_path),
    ):
        assert str(team) in doctor.of("config")["what"]
        assert doctor.of("project team")["status"] == "ok"
        assert "listed 1 task" in doctor.of("server")["what"]
    gone = Doctor(qk_mcp, "--config", "nowhere.toml")
    assert "There is no such file." in gone.of("config")["what"]


# Projects


def test_projects_are_checked_one_by_one(qk_mcp: CommandLine, app: Path, tmp_path: Path) -> None:
    make_project(tmp_path / "bad", "import nowhere_to_be_found\n")
    doctor = Doctor(
        qk_mcp, "--project", f"app:{app}", "--project", f"bad:{tmp_path / 'bad'}", "--project", "gone:/nowhere/at/all"
    )
    assert doctor.of("project app")["status"] == "ok"
    bad = doctor.of("project bad")
    assert bad["status"] == "wrong"
    assert "nowhere_to_be_found" in bad["what"]
    assert "_qk/__init__.py:1" in bad["what"]
    assert "ask the user which package provides it" in bad["remedy"]
    assert "there is no /nowhere/at/all" in doctor.of("project gone")["what"]
    assert doctor.of("server")["status"] != "wrong"


@pytest.mark.long
def test_a_project_that_takes_too_long(qk_mcp: CommandLine, tmp_path: Path) -> None:
    make_project(tmp_path / "slow", "import time\ntime.sleep(60)\n")
    doctor = Doctor(qk_mcp, "--project", f"slow:{tmp_path / 'slow'}", "--describe-timeout", "1")
    assert doctor.of("project slow")["status"] == "wrong"
    assert "within 1 s" in doctor.of("project slow")["what"]
    assert doctor.of("server")["status"] != "wrong"


def test_a_python_that_a_graphical_client_would_not_find(qk_mcp: CommandLine, app: Path, tmp_path: Path) -> None:
    make_venv(tmp_path / "venv", quickie="1.0.0")
    (site_of(tmp_path / "venv") / "what-quickie-needs.pth").write_text(str(site_of(Path(sys.prefix))))
    doctor = Doctor(qk_mcp, "--project", f"app:{app}", env={"VIRTUAL_ENV": str(tmp_path / "venv")})
    check = doctor.of("project app")
    assert check["status"] == "note"
    assert str(tmp_path / "venv" / "bin" / "python") in check["what"]
    assert "a server started by a graphical client uses " in check["what"]
    assert "`python` in your config" in check["remedy"]


# The record


@pytest.mark.long
def test_the_record_of_runs(qk_mcp: CommandLine) -> None:
    state = qk_mcp.home / ".local" / "state" / "qk-mcp"
    file = state / "runs.jsonl"
    check = Doctor(qk_mcp).of("record")
    assert (check["status"], check["what"]) == ("ok", f"0 runs, 0 bytes\n{file}")
    append_run(file, made(state="ended"))
    (state / "outputs").mkdir()
    (state / "outputs" / "some.stdout").write_bytes(b"x" * 1500)
    check = Doctor(qk_mcp).of("record")
    size = file.stat().st_size
    assert (check["status"], check["what"]) == (
        "ok",
        f"1 run, {size} bytes\n{file}\ntheir outputs: 1.5 kB in {state}/outputs",
    )
    with file.open("a") as stream:
        stream.write("torn\n" * 2)
    check = Doctor(qk_mcp).of("record")
    assert check["status"] == "note"
    assert "2 of its lines are torn or foreign" in check["what"]
    until(lambda: Doctor(qk_mcp).of("record")["status"] == "ok")


def test_a_record_that_cannot_be_used(qk_mcp: CommandLine) -> None:
    state = qk_mcp.home / ".local" / "state"
    (state / "qk-mcp").mkdir(parents=True)
    (state / "qk-mcp" / "runs.jsonl").mkdir()
    check = Doctor(qk_mcp).of("record")
    assert (check["status"], check["what"].splitlines()[0]) == ("wrong", "cannot be read: it is a directory")


# Rules


def test_rules_that_match_nothing_are_noted(qk_mcp: CommandLine, app: Path) -> None:
    assert qk_mcp("projects", "add", f"app:{app}").code == 0
    for words in (["deny", "helo"], ["allow", "hel*", "xyz"]):
        assert qk_mcp("projects", "set", "app", *words).code == 0
    check = Doctor(qk_mcp).of("project app")
    assert check["status"] == "note"
    assert check["what"].splitlines()[-2:] == [
        "allow has 'xyz', which matches no task",
        "deny has 'helo', which matches no task; did you mean 'hello'?",
    ]
    assert check["remedy"] == "correct it: qk-mcp projects set app RULE GLOB"


# The server


@pytest.mark.long
def test_without_projects_nothing_is_wrong(qk_mcp: CommandLine) -> None:
    doctor = Doctor(qk_mcp)
    assert doctor.of("server")["status"] != "wrong"
    assert "qk-mcp projects add" in doctor.of("projects")["what"]


def test_a_server_that_cannot_start(qk_mcp: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "fastmcp.py").write_text("raise ImportError('this is not the fastmcp you look for')")
    check = Doctor(qk_mcp, env={"PYTHONPATH": str(tmp_path)}).of("server")
    assert check["status"] == "wrong"
    assert "ended before initialize was answered" in check["what"]
    assert "not the fastmcp you look for" in check["what"]
    assert "serve -vv" in check["remedy"]


# Clients


@pytest.mark.long
def test_servers_in_the_files_of_clients_are_started(qk_mcp: CommandLine, app: Path, tmp_path: Path) -> None:
    hello = {"serverInfo": {"name": "qk-mcp", "version": "0.0.1"}}
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": hello})
    other = _write_script(tmp_path / "other", f"#!/bin/sh\nread hello; echo '{answer}'; read end\n")
    empty = _write_script(tmp_path / "empty", "#!/bin/sh\necho 'No module named qk_mcp' >&2\nexit 1\n")
    ours = [sys.executable, "-E", "-P", "-m", "qk_mcp", "serve"]
    entries = {
        "well": ours,
        "gone": ["/gone/bin/python", "-m", "qk_mcp", "serve", "--project", f"app:{app}"],
        "empty": [str(empty), "-m", "qk_mcp", "serve"],
        "older": [str(other), "-m", "qk_mcp", "serve"],
        "moved": [*ours, "--project", "app:/moved/away"],
        "relative": [*ours, "--project", "app:app"],
        "config": [*ours, "--config", "/moved/config.toml"],
        "bare": [_write_script(tmp_path / "path" / "my-python", other.read_text()).name, "-m", "qk_mcp"],
        "bogus": [*ours, "--bogus"],
        "quickies": [
            str(_write_script(tmp_path / "bin" / "qk-mcp", QUICKIES.replace("/usr/bin/python3", sys.executable)))
        ],
        "nowhere": ["qk-mcp", "serve"],
    }
    servers: dict[str, Any] = {name: {"command": words[0], "args": words[1:]} for name, words in entries.items()}
    servers["off"] = {"command": "x", "args": ["-m", "qk_mcp"], "disabled": True}
    servers["foreign"] = {"command": str(other), "args": ["/home/me/qk-mcp"]}
    servers["theirs"] = {"command": "/gone/npx", "args": ["-y", "something"]}
    servers["remote"] = {"url": "https://example.com/qk-mcp"}
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": servers}))

    found = {}
    for check in Doctor(qk_mcp, env={"PATH": f"{tmp_path}/path:{BARE_PATH}"}).checks:
        if check["check"] == "Cursor":
            name, _, what = check["what"].partition(f" in {file}")
            found[name] = (check["status"], what, check["remedy"])
    correct = f"correct it in {file}"
    unstarted = " does not start: it ended before initialize was answered"
    assert found == {
        "well": ("ok", f"\n{' '.join(ours)}", ""),
        "gone": (
            "wrong",
            ": its command does not exist: /gone/bin/python",
            f"{PROGRAM} install cursor --project app:{app} --name gone --write --force",
        ),
        "empty": (
            "wrong",
            f"{unstarted}: No module named qk_mcp\n{empty} -m qk_mcp serve",
            f"{PROGRAM} install cursor --name empty --write --force",
        ),
        "older": (
            "note",
            f" starts qk-mcp 0.0.1, not {__version__}",
            f"{PROGRAM} install cursor --name older --write --force",
        ),
        "moved": ("wrong", ": project 'app': there is no /moved/away", correct),
        "relative": ("wrong", ": cannot resolve the relative path 'app'", correct),
        "config": ("wrong", ": its config does not exist: /moved/config.toml", correct),
        "bare": (
            "note",
            ": my-python must be on PATH, and a graphical client may have another PATH",
            f"{PROGRAM} install cursor --name bare --write --force",
        ),
        "bogus": (
            "wrong",
            f"{unstarted}: qk-mcp serve has no option --bogus\n{' '.join(ours)} --bogus",
            f"{PROGRAM} install cursor --name bogus --write --force",
        ),
        "quickies": (
            "wrong",
            f" starts another server, quickie\n{tmp_path}/bin/qk-mcp",
            f"{PROGRAM} install cursor --name quickies --write --force",
        ),
        "nowhere": (
            "wrong",
            ": its command does not exist: qk-mcp",
            f"{PROGRAM} install cursor --name nowhere --write --force",
        ),
        "off": ("note", " is switched off", "switch it on in Cursor"),
    }


def test_the_fix_of_an_entry_keeps_its_options(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = {"command": "/gone/python", "args": ["-m", "qk_mcp", "serve", "--config=/moved.toml"]}
    file.write_text(json.dumps({"mcpServers": {"x": entry}}))
    assert Doctor(qk_mcp).of("Cursor")["remedy"].endswith("--config /moved.toml --name x --write --force")


@pytest.mark.long
def test_a_yaml_file_must_be_corrected_by_hand(qk_mcp: CommandLine) -> None:
    file = qk_mcp.home / ".config" / "goose" / "config.yaml"
    file.parent.mkdir(parents=True)
    entry = "extensions:\n  tasks:\n    cmd: /gone/python\n    args: [-m, qk_mcp]\n    enabled: {}\n"
    file.write_text(entry.format("true").replace("[-m, qk_mcp]", '["-m", "qk_mcp"]'))
    assert Doctor(qk_mcp).of("Goose") == {
        "check": "Goose",
        "status": "wrong",
        "what": f"tasks in {file}: its command does not exist: /gone/python",
        "remedy": f"correct it in {file}",
    }
    file.write_text(file.read_text().replace("true", "false"))
    assert Doctor(qk_mcp).of("Goose")["remedy"] == "switch it on in Goose"


@pytest.mark.long
def test_files_of_the_current_directory_count(qk_mcp: CommandLine, app: Path) -> None:
    command = [sys.executable, "-m", "qk_mcp", "serve", "--project", "app:."]
    (app / ".mcp.json").write_text(json.dumps({"mcpServers": {"tasks": {"command": command[0], "args": command[1:]}}}))
    doctor = Doctor(qk_mcp, "--project-files", cwd=app)
    assert doctor.of("Claude Code")["status"] == "ok"
    assert doctor.of("project app")["status"] == "ok"


@pytest.mark.long
def test_a_command_that_only_a_repository_names_is_not_started(qk_mcp: CommandLine, app: Path, tmp_path: Path) -> None:
    script = _write_script(tmp_path / "evil", f"#!/bin/sh\ntouch '{tmp_path}/started'\n")
    servers = {"mcpServers": {"tasks": {"command": str(script), "args": ["-m", "qk_mcp", "serve"]}}}
    (app / ".mcp.json").write_text(json.dumps(servers))
    check = Doctor(qk_mcp, cwd=app).of("Claude Code")
    assert check["status"] == "note"
    assert "was not started" in check["what"]
    assert "doctor --project-files" in check["remedy"]
    assert not (tmp_path / "started").exists()
    (qk_mcp.home / ".claude.json").write_text(json.dumps(servers))
    statuses = [check["status"] for check in Doctor(qk_mcp, cwd=app).checks if check["check"] == "Claude Code"]
    assert statuses == ["wrong", "wrong"], "a command of the user's own file is started"
    assert (tmp_path / "started").exists()


def test_broken_files_of_clients_matter_only_if_they_are_ours(qk_mcp: CommandLine) -> None:
    (qk_mcp.home / ".gemini").mkdir()
    (qk_mcp.home / ".gemini" / "settings.json").write_text('{"mcpServers": ')
    (qk_mcp.home / ".codex").mkdir()
    (qk_mcp.home / ".codex" / "config.toml").write_text('[mcp_servers.x]\ncommand = "qk-mcp"\nbroken\n')
    (qk_mcp.home / ".cursor").symlink_to(".cursor")  # it cannot be looked into
    doctor = Doctor(qk_mcp)
    assert doctor.of("Cursor")["status"] == "wrong"
    assert doctor.of("Codex")["status"] == "wrong"
    assert "config.toml" in doctor.of("Codex")["what"]
    assert not [check for check in doctor.checks if check["check"] == "Gemini CLI"]


# The terminal


@contextmanager
def _terminal(columns: int) -> Iterator[tuple[int, Callable[[], str]]]:
    """Yield the far end of a terminal, and what reads all that was written to it."""
    near, far = pty.openpty()
    subprocess.run(["stty", "cols", str(columns)], stdin=far, check=True)

    def read() -> str:
        os.close(far)
        data = b""
        while select.select([near], [], [], 30)[0]:
            try:
                data += os.read(near, 1 << 16)
            except OSError:  # how Linux says that the far end is closed
                break
        return data.decode()

    try:
        yield far, read
    finally:
        os.close(near)


@pytest.mark.long
@pytest.mark.parametrize(
    "columns", [80, pytest.param(60, marks=pytest.mark.long), pytest.param(160, marks=pytest.mark.long)]
)
def test_in_a_terminal(qk_mcp: CommandLine, app: Path, columns: int) -> None:
    qk_mcp.write_config(f'[projects]\napp = "{app}"\n')
    for environ, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
        with _terminal(columns) as (far, read):
            process = subprocess.Popen(
                [*QK_MCP, "doctor"], stdin=far, stdout=far, stderr=far, env=scrubbed(qk_mcp.home, **environ), cwd="/"
            )
            process.wait(timeout=120)
            text = read()
        assert process.returncode == 0, text
        assert ("\033[" in text) is coloured
        plain = re.sub(r"\033\[[\d;]*m", "", text).replace("\r\n", "\n")
        for line in plain.splitlines():
            words = line.split()
            assert len(line) <= min(columns, 100) or len(words) == 1, (
                f"only a word that fits nowhere sticks out: {line}"
            )
        assert "nothing is wrong" in plain
