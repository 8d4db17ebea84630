"""Projects on another machine or in a container: the same answers, and clear errors when the way there is broken."""

import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from qk_mcp.runs.record import read_runs
from tests.support.cli import CommandLine
from tests.support.client import LEGACY, MODERN, Client
from tests.support.environment import BARE_PATH, QK_MCP
from tests.support.processes import gone, read_pid, until
from tests.support.serving import serving
from tests.support.sshd import SSHD, Sshd, running_sshd

SOURCE = """
    import os, sys, time
    from pathlib import Path
    from quickie import Arg, task

    @task(aliases=["hi"], args=[Arg("--name", default="world")])
    def hello(name="world"):
        print("hello", name)
        print("greeted", file=sys.stderr)

    @task
    def fail():
        sys.exit(3)

    @task(args=[Arg("name")])
    def show(name):
        print(os.environ[name])

    @task
    def read():
        print(sys.stdin.read().upper())

    @task
    def hang():
        Path("hang.pid").write_text(f"{os.getpid()}\\n")
        print("hanging", flush=True)
        time.sleep(600)

    @task(args=[Arg("name")])
    def wait(name):
        while not Path(f"go{name}").exists():
            time.sleep(0.01)
        print("waited")
        sys.exit(7)

    @task
    def long():
        for number in range(20_000):
            print("line", number)
"""
HELLO = {"exit_code": 0, "stdout": "hello world\n", "stderr": "greeted\n"}
VIA = ["sh", "-c", 'exec "$@"', "sh"]
"""Stands for `docker exec -i app`: runs its arguments with its own pipes."""


def config_of(directory: Path, root: Path, **settings: object) -> Path:
    """Write a config whose project `far` is at `root` in another place."""
    file = directory / "config.json"
    entry = {"path": str(root).replace("$", "$$"), "command": [*QK_MCP]} | settings
    file.write_text(json.dumps({"projects": {"far": entry}}))
    return file


@pytest.fixture
def far(tmp_path: Path, project: Callable[..., Path]) -> Iterator[Client]:
    config = config_of(tmp_path, project(SOURCE), via=VIA)
    with serving(tmp_path / "home", None, "--config", str(config)) as client:
        yield client


@pytest.mark.long
def test_a_project_in_another_place_is_listed_and_run(far: Client, project: Callable[..., Path]) -> None:
    [entry] = far.call("list_tasks").data
    assert entry["project_root"] == str(project(SOURCE))
    assert [task["name"] for task in entry["tasks"]] == ["fail", "hang", "hello", "long", "read", "show", "wait"]
    hello = entry["tasks"][2]
    assert hello["aliases"] == ["hi"]
    assert hello["args_schema"][0]["flags"] == ["--name"]
    assert hello["location"].startswith("_qk/__init__.py:")

    run = far.start("run_task", task_name="hi")
    assert run.wait().data == HELLO
    assert far.logs() == ["hello world", "greeted"]
    assert far.run("fail").data["exit_code"] == 3
    assert far.run("read", stdin="abc").data["stdout"] == "ABC\n"
    assert "'no'" in far.run("no").refusal
    truncated = far.run("long").data["truncated"]["stdout"]
    place, _, path = truncated["file"].partition(":/")
    assert place == shlex.join(VIA)
    assert Path(f"/{path}").stat().st_size == truncated["bytes"]


@pytest.mark.long
def test_a_timeout_and_a_cancelled_call_stop_the_run_there(far: Client, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    error = far.run("hang", timeout=1).refusal
    assert "hanging" in error
    gone(read_pid(root / "hang.pid"))
    (root / "hang.pid").unlink()
    call = far.start("run_task", task_name="hang")
    pid = read_pid(root / "hang.pid")
    call.cancel()
    gone(pid)
    assert far.run("hello").data == HELLO


@pytest.mark.long
def test_a_run_in_the_background_is_watched_and_stopped_there(far: Client, project: Callable[..., Path]) -> None:
    run = far.run("hang", background=True).data
    pid = read_pid(project(SOURCE) / "hang.pid")
    answer = far.call("get_run", run_id=run["run_id"], until="^hang", wait=60).data
    assert (answer["state"], answer["exit_code"], answer["stdout"]) == ("running", None, "hanging\n")
    assert answer["files"]["stdout"].startswith(f"{shlex.join(VIA)}:/")
    assert far.run("hello").data == HELLO, "meanwhile"
    assert far.call("stop_run", run_id=run["run_id"]).data["state"] == "stopped"
    gone(pid)


def _servers(client: Client) -> list[psutil.Process]:
    """Return the servers over there that a server has started."""
    found = psutil.Process(client.pid).children(recursive=True)
    return [each for each in found if "serve" in each.cmdline() and any("far:" in word for word in each.cmdline())]


def test_a_call_is_handed_over_and_the_end_is_recorded(tmp_path: Path, project: Callable[..., Path]) -> None:
    root = project(SOURCE)
    config = config_of(tmp_path, root, via=VIA)
    home = tmp_path / "home"
    with serving(home, None, "--config", str(config), "--hand-over", "1") as client:
        answer = client.run("wait", "1").data
        assert (answer["state"], answer["exit_code"]) == ("running", None)
        assert f"get_run(run_id='{answer['run_id']}', wait=50)" in answer["note"]
        [listed] = client.call("get_run").data["runs"]
        assert (listed["run_id"], listed["state"], listed["task"]) == (answer["run_id"], "running", "wait")
        (root / "go1").touch()
        ended = client.call("get_run", run_id=answer["run_id"], wait=60).data
        assert (ended["state"], ended["exit_code"], ended["stdout"]) == ("ended", 7, "waited\n")
        silent = client.run("wait", "2", background=True).data["run_id"]
        hanging = client.run("hang", background=True).data["run_id"]
        stopped = client.run("hang", background=True).data["run_id"]
        assert client.call("stop_run", run_id=stopped).data["state"] == "stopped"
        (root / "go2").touch()
        until(lambda: _state(home, silent) == ("ended", 7), 60, "the end to be recorded though nobody asks")
        assert _state(home, answer["run_id"]) == ("ended", 7)
        assert _state(home, stopped) == ("stopped", None)
        assert _state(home, hanging) == ("running", None)
    assert _state(home, hanging) == ("stopped", None)


def test_a_person_sees_and_stops_a_run_there(tmp_path: Path, project: Callable[..., Path]) -> None:
    root, qk_mcp = project(SOURCE), CommandLine(tmp_path / "home")
    over_there = {"XDG_STATE_HOME": str(tmp_path / "there")}
    via = ["env", *(f"{name}={value}" for name, value in over_there.items())]
    config = config_of(tmp_path, root, via=via)
    with serving(qk_mcp.home, None, "--config", str(config)) as client:
        run_id = client.run("hang", background=True).data["run_id"]
        pid = read_pid(root / "hang.pid")
        here = {"QK_MCP_CONFIG": str(config)}
        shown = qk_mcp("runs", "show", run_id, env=here)
        assert (shown.code, shown.stdout) == (0, "hanging\n")
        refused = qk_mcp("runs", "stop", run_id)
        assert refused.code == 1
        assert "use `qk-mcp runs` over there, where its id is r" in refused.stderr
        assert qk_mcp("runs", "stop", run_id, env=here).code == 0
        gone(pid)
        until(lambda: _state(qk_mcp.home, run_id) == ("stopped", None), 60, "the end to be recorded")
        assert "a person stopped it" in client.call("get_run", run_id=run_id).data["note"]


def _state(home: Path, run_id: str) -> tuple[str, int | None]:
    records = read_runs(home / ".local" / "state" / "qk-mcp" / "runs.jsonl").records
    [record] = [each for each in records if each.run == run_id]
    return record.state, record.exit_code


def test_tasks_in_another_place_are_tools_of_their_own(tmp_path: Path, project: Callable[..., Path]) -> None:
    source = """
        import sys
        from quickie import Arg, task

        @task(args=[Arg("--loud", action="store_true"), Arg("--times", type=int, default=1), Arg("words", nargs="*")])
        def say(loud=False, times=1, words=()):
            print(sys.argv[2:], loud, times, words)

        @task
        def deploy():
            print("deployed")
    """
    root = project(source)
    here = tmp_path / "here.json"
    here.write_text(json.dumps({"projects": {"far": {"path": str(root), "tools": ["*"]}}}))
    config = config_of(tmp_path, root, via=VIA, tools=["*"], deny=["deploy"])
    home = tmp_path / "home"
    with serving(home, None, "--config", str(here)) as local, serving(home, None, "--config", str(config)) as client:
        [wanted] = [tool for tool in local.request("tools/list").wait().result["tools"] if tool["name"] == "say"]
        names = [tool["name"] for tool in client.request("tools/list").wait().result["tools"]]
        assert "say" in names
        assert "deploy" not in names
        [tool] = [tool for tool in client.request("tools/list").wait().result["tools"] if tool["name"] == "say"]
        assert tool == wanted
        arguments = {"loud": True, "times": 3, "words": ["-a", "b c"]}
        answer = client.call("say", **arguments).data
        assert answer["exit_code"] == 0
        assert answer == local.call("say", **arguments).data
        assert "syntax" not in client.call("list_tasks").text


def test_a_server_that_ended_while_nothing_ran_is_replaced(far: Client, project: Callable[..., Path]) -> None:
    assert far.run("hello").data == HELLO
    for server in _servers(far):
        server.kill()
    assert far.run("hello").data == HELLO
    run_id = far.run("hang", background=True).data["run_id"]
    pid = read_pid(project(SOURCE) / "hang.pid")
    for server in _servers(far):
        server.kill()
    assert far.run("hello").data == HELLO
    assert far.call("get_run", run_id=run_id).data["state"] == "lost"
    gone(pid)


def test_the_record_here_has_no_secret(tmp_path: Path, project: Callable[..., Path]) -> None:
    config = config_of(tmp_path, project(SOURCE), via=VIA, env={"MY_TOKEN": "tomato-and-basil"})
    home = tmp_path / "home"
    with serving(home, None, "--config", str(config)) as client:
        assert client.run("show", "MY_TOKEN").data["stdout"] == "[MY_TOKEN]\n"
        assert client.run("show", "tomato-and-basil").data["exit_code"] == 1
    assert "tomato-and-basil" not in (home / ".local" / "state" / "qk-mcp" / "runs.jsonl").read_text()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_there_when_this_server_ends(
    far: Client, project: Callable[..., Path], number: signal.Signals
) -> None:
    far.start("run_task", task_name="hang")
    pid = read_pid(project(SOURCE) / "hang.pid")
    os.kill(far.pid, number)
    gone(pid)


@pytest.mark.long
def test_a_broken_connection_is_an_error_and_the_next_call_connects_again(
    far: Client, project: Callable[..., Path]
) -> None:
    call = far.start("run_task", task_name="hang")
    pid = read_pid(project(SOURCE) / "hang.pid")
    [server] = [each for each in psutil.Process(far.pid).children() if f"far:{project(SOURCE)}" in each.cmdline()]
    server.kill()
    error = call.wait().refusal
    assert "cannot use the project 'far' on sh -c" in error
    assert "the run has ended with its server" in error
    gone(pid)
    assert far.run("hello").data == HELLO


@pytest.mark.long
def test_rules_and_settings_apply_to_a_project_in_another_place(tmp_path: Path, project: Callable[..., Path]) -> None:
    settings = {"via": VIA, "deny": ["hello"], "confirm": ["fail"], "env": {"MY_TOKEN": "a-secret-of-mine"}}
    config = config_of(tmp_path, project(SOURCE), **settings)
    with serving(tmp_path / "home", None, "--config", str(config)) as client:
        assert "hello" not in client.call("list_tasks").text
        for name in ("hello", "hi"):
            assert f"{name!r} is not allowed for agents in 'far'" in client.run(name).refusal
        assert "confirm" in client.run("fail").refusal
        answer = client.run("show", "MY_TOKEN").data
        assert answer["stdout"] == "[MY_TOKEN]\n"
        assert answer["redacted"] == ["MY_TOKEN"]
        assert "a-secret-of-mine" not in client.stderr()


@pytest.mark.parametrize(
    ("settings", "messages"),
    [
        ({"via": ["no-such-program"]}, ["No such file or directory", "see what this prints: no-such-program"]),
        ({"via": ["env"], "command": ["no-qk-mcp"]}, ["install it there: env pipx install", "`command`"]),
        ({"via": ["env"], "command": ["true"]}, ["the connection broke", "see what this prints: env true --version"]),
        ({"via": ["echo"], "command": ["qk-mcp"]}, ["the connection broke", "see what this prints: echo qk-mcp"]),
    ],
)
def test_a_place_without_a_server_is_explained(
    tmp_path: Path, project: Callable[..., Path], settings: dict[str, object], messages: list[str]
) -> None:
    config = config_of(tmp_path, project(SOURCE), **settings)
    with serving(tmp_path / "home", None, "--config", str(config)) as client:
        error = client.run("hello").refusal
        assert "cannot use the project 'far' on" in error
        for message in messages:
            assert message in error
        assert client.call("list_tasks").data[0]["error"]
        assert "Traceback" not in client.stderr()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "projects.far must have `host` or `via`, and not both"),
        ({"host": "a", "via": ["b"]}, "projects.far must have `host` or `via`, and not both"),
        ({"host": "-oProxyCommand=x"}, "must be a name that ssh knows"),
        ({"via": "docker"}, "projects.far.via must be an array of words, not a text"),
        ({"host": "box", "path": "relative"}, "projects.far.path is on box: it must begin with / or ~"),
    ],
)
def test_a_wrong_entry_is_explained(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    config = config_of(tmp_path, Path("/x"), **settings)
    outcome = CommandLine(tmp_path / "home")("inspect", "--config", config)
    assert outcome.code == 1
    assert message in outcome.stderr


@pytest.mark.long
def test_people_add_inspect_run_and_check_a_project_in_another_place(
    tmp_path: Path, project: Callable[..., Path]
) -> None:
    command = CommandLine(tmp_path / "home")
    root = project(SOURCE)
    added = command("projects", "add", f"far:{root}", "--via", "env", "--command", shlex.join(QK_MCP))
    assert added.code == 0
    assert "it has 7 tasks" in added.stderr
    assert "env" in command("projects", "list").stdout
    assert "hello" in command("inspect", "far").stdout
    outcome = command("run", "far", "hello", "--name", "x")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, "hello x\n", "greeted\n")
    assert command("run", "far", "fail").code == 3
    assert json.loads(command("run", "--json", "far", "hello").stdout) == HELLO
    assert "7 tasks" in command("doctor").stdout


# Over ssh


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if SSHD is None:
        pytest.skip("openssh-server is not installed")
    with running_sshd(tmp_path_factory.mktemp("ssh") / "sshd") as sshd:
        yield sshd


@pytest.mark.long
def test_a_project_is_used_over_ssh_and_a_broken_connection_ends_the_run(
    tmp_path: Path, project: Callable[..., Path], sshd: Sshd
) -> None:
    root = project(SOURCE, "a project with 'quotes' and $HOME")
    config = config_of(tmp_path, root, host="box")
    environ = {"PATH": f"{sshd.write_config('usual')}:{BARE_PATH}"}
    for version in (LEGACY, MODERN):
        with serving(tmp_path / "home", None, "--config", str(config), version=version, environ=environ) as client:
            assert client.run("hello").data == HELLO
            call = client.start("run_task", task_name="hang")
            pid = read_pid(root / "hang.pid")
            sshd.break_connections()
            assert "the run has ended with its server" in call.wait().refusal
            gone(pid)
            (root / "hang.pid").unlink()
            assert client.run("hello").data == HELLO


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("UserKnownHostsFile /dev/null", "connect once by hand to check and accept the key: ssh box"),
        ("PubkeyAuthentication no", "ssh-copy-id box"),
        ("Port 1", "see what this prints: ssh -T"),
    ],
)
def test_what_stops_ssh_is_explained(
    tmp_path: Path, project: Callable[..., Path], sshd: Sshd, option: str, remedy: str
) -> None:
    config = config_of(tmp_path, project(SOURCE), host="box")
    environ = {"PATH": f"{sshd.write_config(option.split()[0], option)}:{BARE_PATH}"}
    with serving(tmp_path / "home", None, "--config", str(config), environ=environ) as client:
        assert remedy in client.run("hello").refusal
