"""Where a server may find itself: odd directories, poor environments, closed descriptors."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import qk_mcp
from tests.conftest import Serve
from tests.support.client import Client
from tests.support.environment import QK_MCP, scrubbed
from tests.support.environments import make_venv
from tests.support.namespaces import FEW_PROCESSES, needs_namespaces
from tests.support.processes import descriptors, read_pid, until
from tests.support.projects import make_project
from tests.support.serving import serving

SOURCE = """
    import os
    from quickie import task

    @task
    def hello():
        print("hello")

    @task
    def environment():
        for name in sorted(os.environ):
            print(f"{name}={os.environ[name]}")
"""


def works(client: Client) -> bool:
    """Say whether the server lists and runs."""
    listed = [task["name"] for task in client.call("list_tasks").data[0]["tasks"]]
    return listed == ["environment", "hello"] and client.run("hello").data["stdout"] == "hello\n"


def test_from_the_root_directory(serve: Serve) -> None:
    assert works(serve(SOURCE, cwd="/"))


def test_from_a_directory_that_was_deleted(serve: Serve, tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    shell = ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *QK_MCP, "serve"]
    assert works(serve(SOURCE, cwd=doomed, command=shell))


@pytest.mark.long
def test_from_a_directory_that_may_not_be_read(serve: Serve, tmp_path: Path) -> None:
    """Whoever runs the tests as root may read it all the same; then the test says less."""
    closed = tmp_path / "closed"
    closed.mkdir()
    shell = ["/bin/sh", "-c", 'chmod 0 "$PWD" && exec "$@"', "sh", *QK_MCP, "serve"]
    try:
        assert works(serve(SOURCE, cwd=closed, command=shell))
    finally:
        closed.chmod(0o700)


def test_from_a_project_with_an_env_file_for_something_else(serve: Serve, project: Callable[..., Path]) -> None:
    """FastMCP reads `.env` in the current directory, which is the project's and not for it."""
    root = project(SOURCE)
    (root / ".env").write_text("FASTMCP_TRANSPORT=http\nFASTMCP_LOG_LEVEL=DEBUG\nFASTMCP_PORT=1\nPATH=/nowhere\n")
    assert works(serve(root, cwd=root))


@pytest.mark.long
def test_with_settings_of_other_fastmcp_servers_in_the_environment(serve: Serve) -> None:
    """They are not for this one, but perhaps for the project's own: its tasks have them."""
    settings = {"FASTMCP_TRANSPORT": "http", "FASTMCP_LOG_LEVEL": "bogus", "fastmcp_port": "abc"}
    client = serve(SOURCE, environ=settings)
    assert works(client)
    lines = client.run("environment").data["stdout"].splitlines()
    assert {f"{name}={value}" for name, value in settings.items()} <= set(lines)


@pytest.mark.long
@pytest.mark.parametrize("kept", [[], pytest.param(["HOME"], marks=pytest.mark.long)], ids=["nothing", "HOME"])
def test_with_next_to_no_environment(serve: Serve, tmp_path: Path, kept: list[str]) -> None:
    own = {"XDG_STATE_HOME", "XDG_CONFIG_HOME", *kept}  # without a HOME, the account's own home would be used
    keep = [f"{name}={value}" for name, value in scrubbed(tmp_path / "home").items() if name in own]
    command = ["/usr/bin/env", "-i", *keep, *QK_MCP, "serve"]
    client = serve(SOURCE, command=command)
    assert works(client)
    assert client.run("environment").data["exit_code"] == 0


def test_without_a_home_that_exists(serve: Serve, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    environ = dict.fromkeys(["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"], nowhere)
    assert works(serve(SOURCE, environ=environ))


def test_where_nothing_can_be_kept(serve: Serve, tmp_path: Path) -> None:
    """Output that cannot be kept is bounded all the same, and the answer says why the rest is lost."""
    (tmp_path / "file").touch()
    client = serve(
        """
        from quickie import task

        @task
        def much():
            print("x" * 100_000)
        """,
        environ={"XDG_STATE_HOME": str(tmp_path / "file"), "HOME": str(tmp_path / "file")},
    )
    answer = client.run("much").data
    assert answer["exit_code"] == 0
    assert answer["truncated"]["stdout"]["file"] is None
    assert "irectory" in answer["truncated"]["stdout"]["error"]


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_with_a_standard_error_that_takes_nothing(serve: Serve, closed: str) -> None:
    if closed.endswith("full") and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *QK_MCP, "serve", "-vv"]
    assert works(serve(SOURCE, command=shell))


@pytest.mark.long
def test_with_signals_ignored_by_whoever_started_it(serve: Serve) -> None:
    """Tasks start with default dispositions, even if `nohup` or a client made the server ignore signals.

    With SIGCHLD ignored, the exit code of every child would be 0.
    """
    ignore = "import os, signal, sys\nfor n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)"
    client = serve(
        """
        import signal, subprocess
        from quickie import script, task

        @task
        def ignored():
            print(*sorted(n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN))
            print(subprocess.run(["false"]).returncode)

        @script
        def seven():
            return "exit 7"
        """,
        command=[sys.executable, "-c", f"{ignore}\nos.execv(sys.argv[1], sys.argv[1:])", *QK_MCP, "serve"],
    )
    by_python = sorted(int(number) for number in (signal.SIGPIPE, signal.SIGXFSZ))  # which children do not inherit
    assert client.run("ignored").data["stdout"] == "{} {}\n1\n".format(*by_python)
    assert client.run("seven").data["exit_code"] == 7


def test_with_signals_blocked_by_whoever_started_it(serve: Serve) -> None:
    block = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    client = serve(
        """
        import signal
        from quickie import task

        @task
        def blocked():
            print(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        """,
        command=[sys.executable, "-c", f"{block}; os.execv(sys.argv[1], sys.argv[1:])", *QK_MCP, "serve"],
    )
    assert client.run("blocked", timeout=20).data["stdout"] == "0\n"
    client.process.terminate()
    assert client.process.wait(20) == 128 + signal.SIGTERM


@pytest.mark.long
def test_with_a_standard_error_that_nobody_reads(serve: Serve) -> None:
    client = serve(SOURCE, "-vv", stderr=subprocess.PIPE)
    for number in range(40):
        assert client.run(f"{number}" * 3000).is_error
    assert works(client)


@pytest.mark.long
def test_with_a_thread_that_was_started_before_everything(serve: Serve, tmp_path: Path) -> None:
    """As agents that watch Python programs do, by a sitecustomize or a .pth file."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='agent', daemon=True).start()\n"
    )
    client = serve(
        """
        import threading
        from quickie import task

        @task
        def threads():
            print(*sorted(thread.name for thread in threading.enumerate()))
        """,
        environ={"PYTHONPATH": str(tmp_path / "site")},
    )
    assert client.run("threads").data == {"exit_code": 0, "stdout": "MainThread agent\n", "stderr": ""}
    assert client.run("none").is_error


def test_what_a_task_sees_of_the_environment(serve: Serve) -> None:
    client = serve(SOURCE, environ={"CUSTOM": "kept", "VIRTUAL_ENV_PROMPT": "(x)"})
    lines = client.run("environment").data["stdout"].splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    assert seen["CUSTOM"] == "kept"
    assert seen["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent), "as in an activated environment"
    assert seen["VIRTUAL_ENV"] == sys.prefix
    assert seen["PYTHONUNBUFFERED"] == "1", "children print at once, too"
    ours = {name for name in seen if name.startswith(("FASTMCP", "QK_MCP"))}
    assert len(ours) <= 1, "only the mark of the run"
    assert "QK_LAUNCHER_RUNNING" not in seen


@pytest.mark.skipif(sys.platform != "linux", reason="looks at descriptors by way of /proc")
def test_a_task_holds_no_descriptor_of_the_servers(serve: Serve) -> None:
    client = serve("""
        import os, time
        from pathlib import Path
        from quickie import task

        @task
        def look():
            Path("leader.pid").write_text(f"{os.getpid()}\\n")
            while not Path("go").exists():
                time.sleep(0.01)
    """)
    root = Path(client.call("list_tasks").data[0]["project_root"])
    call = client.start("run_task", task_name="look")
    task = descriptors(read_pid(root / "leader.pid"))
    server = descriptors(client.pid)
    (root / "go").touch()
    call.wait()
    wire = {server[0], server[1]} - {"/dev/null"}
    assert not wire & set(task.values())
    assert len(task) <= 5, task


@pytest.mark.long
def test_with_few_descriptors(serve: Serve) -> None:
    """A shell's limit serves many runs one after the other, for none keeps any; too many at once are refused."""
    client = serve(
        """
        import time
        from quickie import Arg, task

        @task(args=[Arg("seconds", type=float)])
        def wait(seconds):
            time.sleep(seconds)
        """,
        command=["/bin/sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *QK_MCP, "serve"],
    )
    for _ in range(10):
        assert client.run("wait", "0").data["exit_code"] == 0
    crowd = [client.start("run_task", task_name="wait", args=["1"]) for _ in range(20)]
    for answer in [call.wait() for call in crowd]:
        assert answer.is_error or answer.data["exit_code"] == 0
    assert client.run("wait", "0").data["exit_code"] == 0, "afterwards there is room again"


def test_both_ways_of_starting_are_the_same_program(tmp_path: Path) -> None:
    script = shutil.which("qk-mcp", path=str(Path(sys.executable).parent))
    assert script, "the package is installed next to the Python that runs the tests"
    environ = scrubbed(tmp_path / "home")
    outputs = [
        subprocess.run([*command, "--version"], env=environ, capture_output=True, text=True, check=True).stdout
        for command in ([script], QK_MCP)
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].strip()


def test_a_rejected_environment_of_the_project_is_noted(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project", SOURCE)
    make_venv(root / ".venv")  # without quickie
    with serving(tmp_path / "home", root) as client:
        note = client.run("hello").data["note"]
        assert "the .venv in the project's root" in note
        assert "quickie is not installed there" in note
        assert f"tasks run with {sys.executable}" in note
        assert client.call("list_tasks").data[0]["note"] == note


def test_a_missing_temporary_directory_is_named(serve: Serve, tmp_path: Path) -> None:
    client = serve(SOURCE)
    client.call("list_tasks")
    temporary = next((tmp_path / "home").glob("tmp-*"))
    shutil.rmtree(temporary)
    (tmp_path / "project" / "_qk" / "__init__.py").write_text("# changed\n")
    refusal = client.call("list_tasks", project="demo").refusal
    assert "cannot make a file in the temporary directory" in refusal
    assert str(temporary) in refusal
    assert "TMPDIR" in refusal


@needs_namespaces
def test_a_full_temporary_directory_is_not_the_projects_fault(serve: Serve, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    command = ["unshare", "--mount", "/bin/sh", "-c", f'mount -t tmpfs -o size=64k none {small}; exec "$@"', "sh"]
    client = serve(SOURCE, command=[*command, *QK_MCP, "serve"], environ={"TMPDIR": str(small)})
    assert works(client)
    module = tmp_path / "project" / "_qk" / "__init__.py"
    module.write_text(f"import os; os.system('head -c 1M /dev/zero >{small}/filler')\n{module.read_text()}")
    refusal = client.call("list_tasks", project="demo").refusal
    assert "the temporary directory, where its description goes" in refusal
    assert "No space left" in refusal
    assert "TMPDIR" in refusal
    assert "Traceback" not in refusal
    assert client.run("hello").data["stdout"] == "hello\n"


def test_a_server_without_its_own_files_says_so(serve: Serve, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(Path(qk_mcp.__file__).parent, copy / "qk_mcp")
    start = (
        f"import sys; sys.path.insert(0, {str(copy)!r}); sys.argv[0] = 'qk-mcp'\n"
        # An editable install puts its own finder first.
        "sys.meta_path[:] = [each for each in sys.meta_path if 'Redirecting' not in repr(each)]\n"
        "from qk_mcp.__main__ import main; main()"
    )
    client = serve(SOURCE, command=(sys.executable, "-P", "-c", start, "serve", "--no-warm"))
    assert works(client)
    shutil.rmtree(copy)
    refusal = client.run("hello").refusal
    assert f"{copy}/qk_mcp/guest/__main__.py no longer exists" in refusal
    assert "restart the server" in refusal


USES_UP = """
    import os, signal, time
    from pathlib import Path
    from quickie import task

    @task
    def use_up():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while not Path("enough").exists():
            try:
                if os.fork() == 0:
                    time.sleep(600)
                    os._exit(0)
            except BlockingIOError:
                Path("full").touch()
                time.sleep(0.05)

    @task
    def hello():
        print("hello")
"""


@pytest.mark.long
@needs_namespaces
def test_a_server_answers_although_no_process_can_be_started(serve: Serve, project: Callable[..., Path]) -> None:
    """Longer than idle threads of a pool live: a new one could not start."""
    root = project(USES_UP)
    client = serve(root, "--no-warm", command=[*FEW_PROCESSES, *QK_MCP, "serve"])
    assert client.run("hello").data["stdout"] == "hello\n"
    client.start("run_task", task_name="use-up", timeout=600)
    until((root / "full").exists, what="all processes to be used up")
    for _ in range(2):
        assert client.request("ping").wait().result == {}
        refusal = client.run("hello").refusal
        assert "no process can be started" in refusal
        assert "ulimit -u" in refusal
        assert "Traceback" not in refusal
        time.sleep(11)
    call = client.start("run_task", task_name="use-up", timeout=1)
    assert client.request("ping").wait().result == {}
    assert "no process can be started" in call.wait().refusal
    client.process.terminate()
    assert client.exit_code(within=20) == 128 + signal.SIGTERM
