"""Running tasks: their input, arguments, names, exit codes and timeouts."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Demo, Serve
from tests.support.processes import gone


def whole(answer: dict[str, Any], stream: str) -> str:
    """Return everything that a task wrote to `stream`, including what the answer omits."""
    if stream in answer.get("truncated", {}):
        return Path(answer["truncated"][stream]["file"]).read_text()
    text: str = answer[stream]
    return text


# Standard input


def test_without_stdin_a_task_and_its_children_read_an_end_of_file(demo: Demo) -> None:
    client = demo("""
        import subprocess, sys
        from quickie import task

        @task
        def read():
            child = subprocess.run([sys.executable, "-c", "print(repr(__import__('sys').stdin.read()))"])
            print(repr(sys.stdin.read()), child.returncode)
    """)
    assert client.run("read").data == {"exit_code": 0, "stdout": "''\n'' 0\n", "stderr": ""}


def test_without_stdin_a_task_reads_dev_null(demo: Demo) -> None:
    """A program such as `rg` searches its stdin if that is a pipe, and otherwise the directory."""
    client = demo("""
        import os, subprocess, sys
        from quickie import task

        def is_null():
            return os.path.samestat(os.fstat(0), os.stat(os.devnull))

        IMPORTED = is_null()
        CHILD = "import os; print(os.path.samestat(os.fstat(0), os.stat(os.devnull)))"

        def kinds():
            child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True).stdout.strip()
            return f"{IMPORTED} {is_null()} {child}"

        @task
        def look():
            "Looks."
            print(kinds())

        look.__wrapped__.__doc__ = kinds()
    """)
    for _ in range(2):  # cold, then warm
        assert client.run("look").data["stdout"] == "True True True\n"
        assert client.run("look", stdin="").data["stdout"] == "True True True\n"
        assert client.run("look", stdin="x").data["stdout"] == "False False False\n"
    [task] = client.call("list_tasks").data[0]["tasks"]
    assert task["help"] == "True True True"


def test_a_prompt_without_stdin_fails_only_the_task(demo: Demo) -> None:
    client = demo("""
        from quickie import task

        @task
        def ask():
            input("Name? ")
    """)
    answer = client.run("ask").data
    assert answer["exit_code"] == 1
    assert "EOFError" in answer["stderr"]
    assert answer["stdout"] == "Name? "


def test_a_task_cannot_read_the_servers_stdin(demo: Demo) -> None:
    client = demo("""
        import os
        from quickie import task

        @task
        def swallow():
            os.read(0, 1 << 20)
    """)
    calls = [client.start("run_task", task_name="swallow") for _ in range(3)]
    ping = client.request("ping")
    assert ping.wait().result == {}
    assert [call.wait().data["exit_code"] for call in calls] == [0, 0, 0]


def test_an_import_that_reads_stdin_gets_an_end_of_file(demo: Demo) -> None:
    client = demo("""
        import sys
        from quickie import task

        EARLY = sys.stdin.read()

        @task
        def late():
            print(repr(EARLY), repr(sys.stdin.read()))
    """)
    assert [task["name"] for task in client.call("list_tasks").data[0]["tasks"]] == ["late"]
    assert client.run("late").data["stdout"] == "'' ''\n"


def test_stdin_reaches_the_task_unchanged(demo: Demo) -> None:
    client = demo("""
        import sys
        from quickie import task

        @task
        def cat():
            sys.stdout.write(sys.stdin.read())
    """)
    text = 'two lines\n{"jsonrpc": "2.0"}\nno end: é 🎉 \t'
    assert client.run("cat", stdin=text).data["stdout"] == text
    assert client.run("cat", stdin="").data["stdout"] == ""


BIG = """
    import os, sys
    from quickie import task

    @task
    def cat():
        while chunk := os.read(0, 1 << 12):
            os.write(1, chunk)
            os.write(2, chunk)

    @task
    def ignore():
        os.write(1, b"x" * 3_000_000)

    @task
    def shut():
        os.close(0)
        os.write(1, b"x" * 3_000_000)

    @task
    def flood(stream="1"):
        for _ in range(100):
            os.write(int(stream), b"0123456789abcdef" * 4096)
        print("done", file=sys.stdout if stream == "2" else sys.stderr)
"""


def test_input_and_output_larger_than_the_pipes(demo: Demo) -> None:
    client = demo(BIG)
    answer = client.run("cat", stdin="0123456789\n" * 300_000).data
    assert answer["exit_code"] == 0
    for stream in ("stdout", "stderr"):
        assert answer["truncated"][stream]["characters"] == 3_300_000


@pytest.mark.parametrize("task", ["ignore", "shut"])
def test_a_task_may_ignore_its_input(demo: Demo, task: str) -> None:
    client = demo(BIG)
    answer = client.run(task, stdin="y\n" * 1_000_000).data
    assert answer["exit_code"] == 0, answer["stderr"]
    assert answer["truncated"]["stdout"]["characters"] == 3_000_000


@pytest.mark.parametrize("stream", [1, 2])
def test_one_full_stream_does_not_block_the_other(demo: Demo, stream: int) -> None:
    client = demo(BIG.replace('flood(stream="1")', f'flood(stream="{stream}")'))
    answer = client.run("flood").data
    full, other = ("stdout", "stderr") if stream == 1 else ("stderr", "stdout")
    assert answer["exit_code"] == 0
    assert answer["truncated"][full]["characters"] == 100 * 65536
    assert answer[other] == "done\n"


# Arguments

WORDS = """
    import json
    from quickie import Arg, Task, task

    class Raw(Task):
        "Prints the words that reach the task, before its parser."

        def parse_and_run(self, args):
            print(json.dumps(list(args)))

    raw = Raw(name="raw")

    @task(args=[Arg("--name"), Arg("-n", type=int), Arg("words", nargs="*")])
    def parsed(name=None, n=None, words=()):
        print(json.dumps([name, n, words]))
"""


@pytest.mark.parametrize(
    "args",
    [
        ["--help", "-h", "--version", "-m", "x", ":list"],
        ["--", "-x", "--", "--name=--"],
        ["", " ", "\n", "two\nlines", "\t"],
        ["'", '"', "$HOME", "*", "~", "\\", "`id`", "a;b", "@file"],
        ["é🎉", "\x1b[1m", "\u200b\u202e", "\uffff"],
        ["x" * 200_000],
        [str(number) for number in range(20_000)],
    ],
    ids=lambda args: args[0][:8],
)
def test_arguments_reach_the_task_unchanged(demo: Demo, args: list[str]) -> None:
    client = demo(WORDS)
    answer = client.call("run_task", task_name="raw", args=args, stdin=None)
    assert json.loads(whole(answer.data, "stdout")) == args


def test_options_reach_the_parser_of_the_task(demo: Demo) -> None:
    client = demo(WORDS)
    answer = client.run("parsed", "-n", "3", "--name", "--", "a", "b").data
    assert answer["exit_code"] == 2, "argparse requires a value for --name"
    answer = client.run("parsed", "-n", "3", "--name=--x", "a", "b").data
    assert json.loads(answer["stdout"]) == ["--x", 3, ["a", "b"]]


def test_wrong_arguments_exit_with_2_and_the_usage(demo: Demo) -> None:
    client = demo(WORDS)
    answer = client.run("parsed", "-n", "three").data
    assert answer["exit_code"] == 2
    assert answer["stdout"] == ""
    assert answer["stderr"].startswith("usage: ")
    assert "invalid int value: 'three'" in answer["stderr"]


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (None, []),
        ([], []),
        ("", []),
        ('["--name", "x y"]', ["--name", "x y"]),
        ("--name 'x y' z", ["--name", "x y", "z"]),
        ('[1, "a"]', ["1", "a"]),
        ([1, 2.5, "a"], ["1", "2.5", "a"]),
    ],
    ids=repr,
)
def test_args_as_lenient_models_send_them(demo: Demo, sent: Any, received: list[str]) -> None:
    client = demo(WORDS)
    answer = client.call("run_task", task_name="raw", args=sent)
    assert json.loads(answer.data["stdout"]) == received


@pytest.mark.parametrize("sent", ["--name 'open", [["nested"]], {"name": "x"}, ["a\0b"], "a\0b"], ids=repr)
def test_ambiguous_args_are_refused(demo: Demo, sent: Any) -> None:
    client = demo(WORDS)
    refusal = client.call("run_task", task_name="raw", args=sent).refusal
    assert "args" in refusal or "argument" in refusal


def test_null_means_the_default(demo: Demo) -> None:
    client = demo(WORDS)
    answer = client.call("run_task", task_name="raw", args=None, stdin=None, timeout=None, project=None)
    assert answer.data["exit_code"] == 0
    listing = client.call("list_tasks", project=None, filter=None).data
    assert [task["name"] for task in listing[0]["tasks"]] == ["parsed", "raw"]
    assert client.call("list_tasks", project="", filter="").data == listing


# Names

NAMES = """
    from quickie import namespace, task

    @task
    def plain():
        print("plain")

    @task(name="with spaces: and — ünïcode", aliases=["--dashes", "a:b:c", "-m x", "Plain"])
    def strange():
        print("strange")

    @task(private=True)
    def hidden():
        print("hidden")

    @namespace
    def group():
        @task
        def inner():
            print("inner")

        return [inner]
"""


@pytest.mark.parametrize("name", ["with spaces: and — ünïcode", "--dashes", "a:b:c", "-m x", "Plain"])
def test_a_task_runs_under_each_of_its_names(demo: Demo, name: str) -> None:
    client = demo(NAMES)
    assert client.run(name).data["stdout"] == "strange\n"


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "--version",
        "-m",
        "-h",
        ":init",
        ":list",
        ":run",
        "hidden",
        "_qk",
        "./_qk",
        "/bin/sh",
        "plain ",
        "PLAIN",
    ],
)
def test_only_listed_names_run(demo: Demo, name: str) -> None:
    client = demo(NAMES)
    refusal = client.run(name).refusal
    assert "list_tasks" in refusal, "the refusal points to the names"


@pytest.mark.parametrize(("name", "near"), [("plian", "plain"), ("inner", "group:inner"), ("dashes", "--dashes")])
def test_the_refusal_suggests_near_names(demo: Demo, name: str, near: str) -> None:
    assert repr(near) in demo(NAMES).run(name).refusal


# Exit codes

ENDS = """
    import os, signal, sys
    from quickie import command, script, task
    from quickie.errors import QuickieError, Skip, Stop

    @task
    def text(): sys.exit("the reason")

    @task
    def nothing(): sys.exit(None)

    @task
    def high(): sys.exit(300)

    @task
    def negative(): sys.exit(-1)

    @task
    def stop(): raise Stop()

    @task
    def skip(): raise Skip("not today")

    @task
    def known(): raise QuickieError("[/broken] markup", exit_code=9)

    @task
    def unknown(): raise ValueError("plain [x]")

    @task
    def noted():
        error = ValueError("with")
        error.add_note("a note of it")
        raise error

    @task
    def group(): raise ExceptionGroup("several", [KeyError("one"), OSError("two")])

    @task
    def caused():
        try:
            int("x")
        except ValueError as error:
            raise RuntimeError("outer") from error

    @task
    def deep():
        def down(): down()
        down()

    @task
    def memory(): raise MemoryError

    @task
    def at_once():
        print("before")
        os._exit(41)

    @task
    def killed():
        print("before")
        os.kill(os.getpid(), signal.SIGKILL)

    @task
    def terminated(): os.kill(os.getpid(), signal.SIGTERM)

    @task
    def aborted(): os.abort()

    @task
    def interrupted(): raise KeyboardInterrupt

    @task
    def closed():
        os.closerange(0, 256)

    @script
    def child(): return "echo out; echo err >&2; exit 130"

    @script
    def child_killed(): return "kill -9 $$"

    @command
    def missing(): return ["no-such-program-anywhere"]

    @task
    def value(): return 7
"""


@pytest.mark.parametrize(
    ("task", "code", "stderr"),
    [
        ("text", 1, "the reason"),
        ("nothing", 0, ""),
        ("high", 300 & 255, ""),
        ("negative", 255, ""),
        ("stop", 0, ""),
        ("skip", 0, ""),
        ("known", 9, "[/broken] markup"),
        ("unknown", 1, "ValueError: plain [x]"),
        ("noted", 1, "a note of it"),
        ("group", 1, "KeyError: 'one'"),
        ("group", 1, "OSError: two"),
        ("caused", 1, "invalid literal for int()"),
        ("caused", 1, "RuntimeError: outer"),
        ("deep", 1, "RecursionError"),
        ("memory", 1, "MemoryError"),
        ("at-once", 41, ""),
        ("killed", -9, ""),
        ("terminated", -15, ""),
        ("aborted", -6, ""),
        ("interrupted", 1, ""),
        ("closed", 0, ""),
        ("child", 130, "err"),
        ("child-killed", 247, "exit code -9"),
        ("missing", 1, "no-such-program-anywhere"),
        ("value", 0, ""),
    ],
)
def test_exit_codes(demo: Demo, task: str, code: int, stderr: str) -> None:
    answer = demo(ENDS).run(task).data
    assert answer["exit_code"] == code, answer
    assert stderr in answer["stderr"]
    if not stderr:
        assert answer["stderr"] == ""


def test_the_output_of_a_killed_task_is_kept(demo: Demo) -> None:
    client = demo(ENDS)
    assert client.run("killed").data["stdout"] == "before\n"
    assert client.run("at-once").data["stdout"] == "before\n"


def test_a_traceback_shows_only_frames_of_the_project(demo: Demo) -> None:
    stderr = demo(ENDS).run("caused").data["stderr"]
    files = {line.split('"')[1] for line in stderr.splitlines() if line.lstrip().startswith("File ")}
    assert files == {str(demo.root / "_qk" / "__init__.py")}
    assert 'int("x")' in stderr


def test_a_task_runs_in_the_projects_root(demo: Demo) -> None:
    client = demo("""
        import os, sys
        from quickie import script, task

        @task
        def here():
            print(os.getcwd(), sys.argv)

        @script
        def shell():
            return "pwd"
    """)
    where, _, argv = client.run("here").data["stdout"].partition(" ")
    assert where == str(demo.root)
    assert argv.endswith("/qk', 'here']\n")
    assert client.run("shell").data["stdout"] == f"{demo.root}\n"


def test_a_task_does_not_see_the_clients_directory(serve: Serve, tmp_path: Path) -> None:
    """`rm -rf $(PWD)/build` in a Makefile must not delete another directory's build."""
    client = serve(
        """
        import os
        from quickie import script, task

        @task
        def seen():
            print(*(os.environ.get(name) for name in ("PWD", "OLDPWD", "_")))

        @script
        def shell():
            return 'echo "$PWD"'
        """,
        environ={"PWD": "/usr", "OLDPWD": "/etc", "_": "/bin/client"},
    )
    root = tmp_path / "project"
    assert client.run("seen").data["stdout"] == f"{root} None None\n"
    assert client.run("shell").data["stdout"] == f"{root}\n"


# Timeouts

TRACE = """
    from pathlib import Path
    from quickie import task

    @task
    def leave_a_trace():
        Path("trace").touch()
"""


@pytest.mark.parametrize("timeout", [0, -1, -0.0, "nan", "inf", "-inf", "soon", [], 10**400])
def test_an_invalid_timeout_is_refused_before_the_task_starts(demo: Demo, timeout: Any) -> None:
    client = demo(TRACE)
    assert "timeout" in client.call("run_task", task_name="leave-a-trace", timeout=timeout).refusal
    assert not (demo.root / "trace").exists()


@pytest.mark.parametrize("timeout", [1e300, 10**12, "30", 30, 29.5])
def test_valid_timeouts(demo: Demo, timeout: Any) -> None:
    assert demo(WORDS).call("run_task", task_name="raw", timeout=timeout).data["exit_code"] == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_an_invalid_number_starts_nothing(demo: Demo, number: str) -> None:
    """Python's own json writes the first two; the third is JSON and too large for a float."""
    client = demo(TRACE)
    call = client.expect("tools/call", f"with {number}")
    client.send(
        b'{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":'
        b'{"name":"run_task","arguments":{"task_name":"leave-a-trace","timeout":%s}}}\n'
        % (str(call.id).encode(), number.encode())
    )
    answer = call.wait().frame
    assert "error" in answer or answer["result"]["isError"], answer
    assert not (demo.root / "trace").exists()


# Concurrent calls and hostile modules


def test_two_runs_and_a_ping_between_them(demo: Demo) -> None:
    client = demo("""
        import time
        from pathlib import Path
        from quickie import task

        @task
        def first():
            Path("first").touch()
            while not Path("second").exists():
                time.sleep(0.01)

        @task
        def second():
            while not Path("first").exists():
                time.sleep(0.01)
            Path("second").touch()
    """)
    first, second = client.start("run_task", task_name="first"), client.start("run_task", task_name="second")
    assert client.request("ping").wait().result == {}
    assert client.call("list_tasks").data[0]["project"] == "demo"
    assert [first.wait().data["exit_code"], second.wait().data["exit_code"]] == [0, 0]


def test_the_answer_does_not_wait_for_a_child_of_a_failed_import(demo: Demo) -> None:
    """The child ends, too: no task has begun that could have left it on purpose."""
    client = demo("""
        import os, time

        if child := os.fork():
            print(child, flush=True)
            os._exit(3)
        os.setsid()
        time.sleep(20)
    """)
    began = time.monotonic()
    answer = client.run("any")
    assert "ended with exit code 3 while the tasks were loaded" in answer.text
    assert time.monotonic() - began < 15, "the answer waited for a process that holds the guest's sockets"
    [child] = re.findall(r"^\d+$", answer.text, re.MULTILINE)
    gone(int(child))


def test_a_module_that_writes_to_every_descriptor(demo: Demo) -> None:
    client = demo("""
        import os
        from quickie import task

        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b"garbage\\n")
            except OSError:
                pass

        @task
        def work():
            print("done")
    """)
    assert client.run("work").data["stdout"] == "done\n"


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("os._exit(7)", "ended with exit code 7"),
        ("os._exit(0)", "ended with exit code 0"),
        ("os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
        ("os.closerange(3, 256); os._exit(7)", "ended with exit code 7"),
    ],
)
def test_a_module_that_ends_its_interpreter_fails_to_load(demo: Demo, end: str, how: str) -> None:
    client = demo(f"""
        import os
        print("so far", flush=True)
        {end}
    """)
    answer = client.run("work")
    assert answer.is_error
    assert f"its interpreter {how} while the tasks were loaded" in answer.text
    assert "so far" in answer.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its privileges")
def test_a_module_that_gives_up_root_privileges(demo: Demo) -> None:
    client = demo("""
        import os, time
        from quickie import task

        os.setgid(12345)
        os.setuid(12345)

        @task
        def who():
            print(os.getuid())

        @task
        def wait():
            print("waits")
            time.sleep(600)
    """)
    assert [task["name"] for task in client.call("list_tasks").data[0]["tasks"]] == ["wait", "who"]
    assert client.run("who").data == {"exit_code": 0, "stdout": "12345\n", "stderr": ""}
    assert "waits" in client.run("wait", timeout=2).refusal


def test_a_module_that_closes_every_descriptor(demo: Demo) -> None:
    client = demo("""
        import os, sys
        from quickie import task

        os.closerange(3, 256)

        @task
        def work():
            print("done")

        @task
        def killed():
            os.kill(os.getpid(), 9)
    """)
    assert client.run("work").data["stdout"] == "done\n"
    assert client.run("killed").data["exit_code"] == -9
