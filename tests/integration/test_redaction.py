"""Secrets of the environment: everything that leaves a run shows a variable's name instead of its value."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import CommandLine
from tests.support.client import Client
from tests.support.projects import make_project
from tests.support.serving import serving

SECRET = "s3cr3t/value+of=7"
OTHER = "other-secret-value"
ENVIRON = {"SHOP_TOKEN": SECRET, "NORMAL": "normal-value"}

SOURCE = """
    import base64, os, subprocess, sys, time
    from quickie import Arg, task

    TOKEN = os.environ["SHOP_TOKEN"]

    @task
    def both():
        for part in (b"token ", TOKEN[:9].encode(), TOKEN[9:].encode(), b" and ", os.environ["NORMAL"].encode()):
            os.write(1, part)
            time.sleep(0.01)
        print(base64.b64encode(f"me:{TOKEN}".encode()).decode(), os.environ["STRIPE_ID"], file=sys.stderr)

    @task
    def ask():
        print(TOKEN, flush=True)
        os.write(1, b"Password: ")
        time.sleep(60)

    @task
    def flood():
        for number in range(20_000):
            print(number, "ERROR " + TOKEN if number in (3, 10_000, 19_998) else "line")
        raise SystemExit(3)

    @task
    def leave():
        command = [sys.executable, "-c", "import time; time.sleep(60)", "--token", TOKEN]
        print(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)

    @task
    def report():
        with open("junit.xml", "w") as file:
            file.write(f'<testsuite><testcase name="t"><failure message="got {TOKEN}"/></testcase></testsuite>')

    def greet(name, words):
        pass

    greet.__doc__ = f"Greets people with {TOKEN}, as long as that is needed."  # quickie cuts it in the secret
    greet = task(args=[Arg("--name", default=TOKEN), Arg("words", nargs="*")])(greet)
"""


def write_config(directory: Path, root: Path, *lines: str) -> Path:
    file = directory / "config.toml"
    file.write_text("\n".join(["[projects.demo]", f"path = '{root}'", *lines, ""]))
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
def config(home: Path) -> Path:
    """A config for a project with two secrets: one in the server's environment, one in the config itself."""
    lines = ['redact = ["stripe_*"]', 'tools = ["greet"]', 'reports = ["junit.xml"]', f'env.STRIPE_ID = "{OTHER}"']
    return write_config(home, make_project(home / "project", SOURCE), *lines)


@pytest.fixture(scope="module")
def shared(home: Path, config: Path) -> Iterator[Client]:
    options = ["--config", str(config), "--log-file", str(home / "log"), "-vv"]
    with serving(home / "home", None, *options, environ=ENVIRON) as client:
        yield client


@pytest.fixture
def client(shared: Client, home: Path) -> Iterator[Client]:
    """A server; after the test, no message, log or file of it has a secret."""
    shared.messages.clear()
    yield shared
    written = [json.dumps(message.frame) for message in shared.messages]
    written += [file.read_text() for file in (home / "log", *(home / "home").rglob("*")) if file.is_file()]
    assert [text for text in written if SECRET in text or OTHER in text] == []


def test_both_streams_are_redacted_across_writes_and_as_base64(client: Client) -> None:
    answer = client.run("both").data
    assert answer["stdout"] == "token [SHOP_TOKEN] and normal-value"
    assert answer["stderr"].endswith("[SHOP_TOKEN] [STRIPE_ID]\n")
    assert answer["redacted"] == ["SHOP_TOKEN", "STRIPE_ID"]


def test_a_run_without_a_secret_names_none(client: Client) -> None:
    assert client.run("greet").data == {"exit_code": 0, "stdout": "", "stderr": ""}


def test_live_lines_progress_and_the_error_of_a_timeout_are_redacted(client: Client) -> None:
    call = client.start("run_task", progress=True, task_name="ask", timeout=2.5)
    client.hear("[SHOP_TOKEN]")
    client.hear("Password: ")  # although no line end follows
    refusal = call.wait().refusal
    assert "[SHOP_TOKEN]\nPassword:" in refusal
    assert "asked 'Password:'" in refusal
    assert call.progress


def test_a_running_task_is_redacted_in_answers_and_files(client: Client) -> None:
    started = client.run("ask", background=True).data
    found = client.call("get_run", run_id=started["run_id"], until="SHOP_TOKEN", wait=50).data
    assert found["stdout"].startswith("[SHOP_TOKEN]")
    assert found["redacted"] == ["SHOP_TOKEN"]
    assert "[SHOP_TOKEN]" in Path(found["files"]["stdout"]).read_text()
    assert "[SHOP_TOKEN]" in client.call("stop_run", run_id=started["run_id"]).data["stdout"]


def test_the_kept_file_and_the_rescued_lines_are_redacted(client: Client) -> None:
    answer = client.run("flood").data
    assert "10001: 10000 ERROR [SHOP_TOKEN]" in answer["stdout"]
    kept = Path(answer["truncated"]["stdout"]["file"]).read_text()
    assert kept.count("[SHOP_TOKEN]") == 3
    assert SECRET not in kept


def test_command_lines_of_processes_left_running_are_redacted(client: Client) -> None:
    answer = client.run("leave").data
    [process] = answer["left_running"]
    os.kill(process["pid"], signal.SIGKILL)
    assert process["command"].endswith("--token [SHOP_TOKEN]")
    assert answer["redacted"] == ["SHOP_TOKEN"]


def test_messages_of_reports_are_redacted(client: Client) -> None:
    answer = client.run("report").data
    assert answer["tests"]["failures"][0]["message"] == "got [SHOP_TOKEN]"
    assert answer["redacted"] == ["SHOP_TOKEN"]


def test_listings_are_redacted_even_where_a_text_is_cut(client: Client) -> None:
    [entry] = client.call("list_tasks", filter="greet", detail="full").data
    [task] = entry["tasks"]
    assert task["help"] == "Greets people with [SHOP_TOKEN], as long as that is needed."
    assert task["args_schema"][0]["default"] == "[SHOP_TOKEN]"
    assert SECRET[:8] not in json.dumps(task)


def test_the_record_has_no_secret_arguments(client: Client, home: Path) -> None:
    client.run("greet", f"--name={SECRET}", "again", SECRET)
    [record] = home.rglob("runs.jsonl")
    last = json.loads(record.read_text().splitlines()[-1])
    assert last["args"] == ["--name=[SHOP_TOKEN]", "again", "[SHOP_TOKEN]"]
    assert SECRET not in record.read_text()


def test_the_record_has_no_arguments_if_the_project_says_so(home: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, home / "project", "log_args = false", f'env.STRIPE_ID = "{OTHER}"')
    with serving(tmp_path / "home", None, "--config", str(config), environ=ENVIRON) as client:
        client.run("greet", "private")
    [record] = tmp_path.rglob("runs.jsonl")
    assert "private" not in record.read_text()


def test_the_command_that_shows_a_run_has_no_secret(client: Client, home: Path) -> None:
    client.run("both")
    command_line = CommandLine(home / "home")
    [latest, *_] = json.loads(command_line("runs", "--json").stdout)
    shown = command_line("runs", "show", latest["run"])
    assert "token [SHOP_TOKEN] and normal-value" in shown.stdout
    assert SECRET not in shown.stdout + shown.stderr


def test_the_schema_of_a_task_tool_has_no_secret(client: Client) -> None:
    [tool] = [each for each in client.request("tools/list").wait().result["tools"] if each["name"] == "greet"]
    assert "[SHOP_TOKEN]" in json.dumps(tool["inputSchema"])


def test_a_broken_project_is_explained_without_its_secrets(home: Path) -> None:
    source = """
        import os, sys
        print("connecting with", os.environ["SHOP_TOKEN"], flush=True)
        sys.exit(f"cannot connect with {os.environ['SHOP_TOKEN']}")
    """
    root = make_project(home / "broken", source)
    with serving(home / "home", root, environ=ENVIRON) as client:
        for answer in (client.call("list_tasks", project="demo"), client.run("any")):
            assert "cannot connect with [SHOP_TOKEN]" in answer.refusal
            assert "connecting with [SHOP_TOKEN]" in answer.refusal
            assert SECRET not in answer.refusal


def test_redact_false_hides_nothing(home: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, home / "project", "redact = false", f'env.STRIPE_ID = "{OTHER}"')
    make_project(home / "project", SOURCE)
    with serving(tmp_path / "home", None, "--config", str(config), environ=ENVIRON) as client:
        answer = client.run("both").data
    assert answer["stdout"] == f"token {SECRET} and normal-value"
    assert "redacted" not in answer


def test_a_person_at_the_terminal_sees_the_original_and_json_is_what_an_agent_gets(home: Path, config: Path) -> None:
    command_line = CommandLine(home / "home")
    typed = command_line("run", "--config", str(config), "demo", "both", env=ENVIRON)
    assert typed.stdout == f"token {SECRET} and normal-value"
    as_json = command_line("run", "--config", str(config), "--json", "demo", "both", env=ENVIRON)
    assert json.loads(as_json.stdout)["stdout"] == "token [SHOP_TOKEN] and normal-value"


def test_inspect_names_the_secrets(home: Path, config: Path) -> None:
    command_line = CommandLine(home / "home")
    options = ("--config", str(config))
    shown = command_line("inspect", *options, "demo", env=ENVIRON)
    assert "SHOP_TOKEN, STRIPE_ID" in shown.stdout
    [entry] = json.loads(command_line("inspect", *options, "--json", env=ENVIRON).stdout)
    assert entry["redacted"] == ["SHOP_TOKEN", "STRIPE_ID"]
