"""`qk-mcp inspect`: what an agent would see, for people."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Serve
from tests.support.cli import CommandLine, Outcome
from tests.support.environment import PROGRAM, QK_MCP
from tests.support.processes import until
from tests.support.projects import make_project

FILES = {
    "_qk/__init__.py": '''
        from quickie import Arg, Namespace, task
        from . import db

        @task(aliases=["b"], args=[
            Arg("target", choices=["debug", "release"], help="What to build."),
            Arg("--fast", action="store_true", help="Skip the checks."),
            Arg("-j", "--jobs", type=int, default=4, help="Parallel jobs."),
        ])
        def build(target, fast, jobs):
            """Build the program for one target.

            At length.
            """
            print(target, fast, jobs)

        @task(extra_args=True)
        def test(*args):
            """Run the tests."""

        spaces = Namespace({"db": db})
        ''',
    "_qk/db.py": '''
        from quickie import Arg, task

        @task(args=[Arg("--to", required=True), Arg("names", nargs="*"), Arg("--pair", nargs=2),
                    Arg("--maybe", nargs="?"), Arg("--level", type=int, choices=range(100))])
        def migrate(**options):
            """Migrate the database."""
            print(options)
        ''',
}

VERSION = ".".join(map(str, sys.version_info[:3]))


@pytest.fixture
def root(project: Callable[..., Path], qk_mcp: CommandLine) -> Path:
    """A project named `demo` in the user's config; the user's only one."""
    root = project(FILES)
    qk_mcp.write_config(f"[projects]\ndemo = {json.dumps(str(root))}\n")
    return root


def _facts(root: Path, tasks: str) -> str:
    return (
        f"demo\n  root     {root}\n  python   {sys.executable} ({VERSION}, the Python that runs qk-mcp)\n"
        f"  quickie  1.0.0\n  tasks    {tasks}\n"
    )


def test_in_a_pipe_each_task_is_one_line(qk_mcp: CommandLine, root: Path) -> None:
    long = "--to TO [--pair PAIR PAIR] [--maybe [MAYBE]] [--level LEVEL] [NAMES...]"
    outcome = qk_mcp("inspect")
    assert outcome == Outcome(
        0,
        _facts(root, "3; cached until a file changes")
        + f"""
  build, b    {"[--fast] [--jobs JOBS] debug|release":71}  Build the program for one target.  _qk/__init__.py:4
  db:migrate  {long}  Migrate the database.              _qk/db.py:3
  test        {"[EXTRA...]":71}  Run the tests.                     _qk/__init__.py:16
""",
        "",
    )


def _usage(length: int) -> dict[str, str]:
    """Return the arguments of the tasks, cut to a length."""
    whole = {
        "build": "[--fast] [--jobs JOBS] debug|release",
        "db:migrate": "--to TO [--pair PAIR PAIR] [--maybe [MAYBE]] [--level LEVEL] [NAMES...]",
        "test": "[EXTRA...]",
    }
    return {task: text if len(text) <= length else f"{text[: length - 1]}…" for task, text in whole.items()}


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(("width", "usage", "place"), [(60, 15, False), (80, 31, False), (160, 71, True)])
def test_a_terminal_has_one_line_for_each_task(qk_mcp: CommandLine, width: int, usage: int, place: bool) -> None:
    lines = qk_mcp("inspect", env={"COLUMNS": str(width)}).stdout.splitlines()
    shown = lines[lines.index("") + 1 :]
    assert len(shown) == 3
    assert max(map(len, shown)) <= width
    for line, (task, arguments) in zip(shown, _usage(usage).items(), strict=True):
        assert line.startswith(f"  {task}")
        assert f"  {arguments:{usage}}  " in line
        assert ("_qk/" in line) == place
    about = "Build the program for one target."
    assert about in shown[0] if width > 60 else shown[0].endswith("  Build the program for one ta…")


def test_the_first_line_of_a_help_is_whole_where_it_fits(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    line = f"{'A long first line of help ' * 4}👩\u200d💻 ends."
    root = project(f"from quickie import task\n\n@task\ndef build():\n    '''{line}\n\n    More.\n    '''\n")
    for env in ({}, {"COLUMNS": "200"}):
        shown = qk_mcp("inspect", "--project", f"demo:{root}", env=env).stdout
        assert f"  build  {line}  _qk/" in shown


def _on_a_terminal(qk_mcp: CommandLine, *args: str, **env: str) -> str:
    """Return what it writes to a terminal with colours and 100 columns."""
    return qk_mcp.on_terminal(*args, **{"TERM": "xterm", "COLUMNS": "100"} | env).decode()


def test_a_terminal_gets_colours_and_links_to_the_sources(qk_mcp: CommandLine, root: Path) -> None:
    link = rf"\x1b\]8;id=\d+;file://[^/]*{root}/_qk/__init__\.py#4\x1b\\"
    colour = re.compile(r"\x1b\[(\d;)*3\dm")
    shown = _on_a_terminal(qk_mcp, "inspect")
    assert colour.search(shown)
    assert re.search(link + r"(\x1b\[\d+m)?build", shown)
    plain = _on_a_terminal(qk_mcp, "inspect", NO_COLOR="1")
    assert not colour.search(plain)
    assert re.search(link, plain)
    assert "\x1b" not in _on_a_terminal(qk_mcp, "inspect", TERM="dumb").replace("\x1b[?25h", "")


# One task


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("words", [["demo", "build"], ["build"], ["b"], ["demo", "b"]])
def test_one_task_is_shown_in_full(qk_mcp: CommandLine, words: list[str]) -> None:
    outcome = qk_mcp("inspect", *words, env={"COLUMNS": "80"})
    assert (outcome.code, outcome.stderr) == (0, "")
    before, _, rest = outcome.stdout.partition("\nwhat an agent gets\n")
    assert (
        before
        == """\
build  demo

  Build the program for one target.

  At length.

  usage    build [-h] [--fast] [-j JOBS] {debug,release}
  aliases  b
  source   _qk/__init__.py:4

arguments
  debug|release    required        What to build.
  --fast                           Skip the checks.
  -j, --jobs JOBS  int, default 4  Parallel jobs.
"""
    )
    entry, _, calls = rest.partition("\nto run it\n")
    (project,) = json.loads(qk_mcp("inspect", "--json", *words).stdout)
    assert project["tasks"] == [json.loads(entry)]
    assert calls == (
        '  run_task  {"project": "demo", "task_name": "build", "args": ["debug"]}\n'
        f"  shell     {PROGRAM} run demo build debug\n"
    )


def test_the_command_to_copy_has_the_options(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    options = ["--project", f"my app:{project(FILES)}"]
    line = qk_mcp("inspect", *options, "my app", "test").stdout.splitlines()[-1]
    assert line == f"  shell     {PROGRAM} run --project 'my app:{project(FILES)}' 'my app' test"
    assert qk_mcp(*shlex.split(line)[1 + len(QK_MCP) :]).code == 0


@pytest.mark.usefixtures("root")
def test_the_call_to_copy_can_be_run(qk_mcp: CommandLine) -> None:
    shown = qk_mcp("inspect", "demo", "db:migrate").stdout.splitlines()
    call, shell = (line.split(maxsplit=1)[1] for line in shown[-2:])
    assert json.loads(call) == {"project": "demo", "task_name": "db:migrate", "args": ["--to", "TO"]}
    words = shlex.split(shell)
    assert words[: len(QK_MCP)] == QK_MCP
    assert qk_mcp(*words[len(QK_MCP) :]).code == 0
    assert "  --level LEVEL" in "\n".join(shown)
    assert "  --maybe [MAYBE]" in "\n".join(shown)


@pytest.mark.usefixtures("root")
def test_a_usage_of_several_lines_stays_aligned(qk_mcp: CommandLine) -> None:
    lines = qk_mcp("inspect", "demo", "db:migrate").stdout.splitlines()
    first = next(line for line in lines if line.startswith("  usage    "))
    second = lines[lines.index(first) + 1]
    assert (first.index("[-h]"), first[11:18]) == (19, "migrate")
    assert second.index("[") == 19


# Data


def test_json_is_what_list_tasks_answers_and_the_interpreter(qk_mcp: CommandLine, root: Path, serve: Serve) -> None:
    broken = make_project(root.parent / "broken", "1 / 0")
    projects = {"demo": root, "broken": broken}
    options = [f"--project={name}:{path}" for name, path in projects.items()]
    outcome = qk_mcp("inspect", "--json", *options)
    assert (outcome.code, outcome.stderr) == (1, "")
    printed: list[dict[str, Any]] = json.loads(outcome.stdout)
    found = {"python": sys.executable, "quickie": "1.0.0", "reason": "the Python that runs qk-mcp", "passed_over": []}
    assert [each.pop("interpreter") for each in printed] == [
        found | {"version": VERSION},
        found | {"version": VERSION.rpartition(".")[0]},
    ]
    assert [each.pop("uncacheable") for each in printed] == [None, None]
    assert [each.pop("redacted") for each in printed] == [[], []]
    assert [each.pop("rules") for each in printed] == [{}, {}]
    assert printed == serve(projects).call("list_tasks").data


@pytest.mark.parametrize(
    ("pattern", "names"), [("DB", ["db:migrate"]), ("b", ["build", "db:migrate"]), ("*t", ["test"]), ("zzz", [])]
)
def test_a_filter_is_that_of_list_tasks(qk_mcp: CommandLine, root: Path, pattern: str, names: list[str]) -> None:
    (entry,) = json.loads(qk_mcp("inspect", "--json", "--filter", pattern).stdout)
    assert [task["name"] for task in entry["tasks"]] == names
    outcome = qk_mcp("inspect", "demo", "--filter", pattern)
    count = f"{len(names) or 'none'} matching '{pattern}'; cached until a file changes"
    assert outcome.code == 0
    assert outcome.stdout.startswith(_facts(root, count))
    assert [line.split()[0].rstrip(",") for line in outcome.stdout.splitlines()[6:]] == names


# Many tasks, many projects


def test_many_tasks_are_shown_by_namespace(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    module = "from quickie import task\n" + "".join(f"@task\ndef t{n}(): 'Number {n}.'\n" for n in range(6))
    modules = {"a": "a", "a:b": "b", "c:d": "d", "e": "e"}
    spaces = ", ".join(f"{namespace!r}: {name}" for namespace, name in modules.items())
    main = f"from quickie import Namespace, task\nfrom . import a, b, d, e\nspaces = Namespace({{{spaces}}})\n"
    root = project(
        {f"_qk/{name}.py": module for name in modules.values()}
        | {"_qk/__init__.py": main + "@task\ndef zero(): 'None.'\n"}
    )
    lines = qk_mcp("inspect", "--project", f"demo:{root}").stdout.splitlines()
    names = [line[: line.find("  ", 8)].rstrip() if ":t" in line or "zero" in line else line for line in lines[6:]]
    assert names == [
        "  zero",
        "  a",
        *(f"    a:t{n}" for n in range(6)),
        "    b",
        *(f"      a:b:t{n}" for n in range(6)),
        "  c",
        "    d",
        *(f"      c:d:t{n}" for n in range(6)),
        "  e",
        *(f"    e:t{n}" for n in range(6)),
    ]
    assert len({line.index("Number") for line in lines if "Number" in line}) == 1


def test_a_broken_project_says_what_to_fix_and_the_rest_is_shown(qk_mcp: CommandLine, root: Path) -> None:
    make_project(root.parent / "broken", "from quickie import task\nimport nowhere_to_be_found\n")
    (root.parent / "empty").mkdir()
    options = [f"--project={name}:{root.parent / name}" for name in ("broken", "empty", "gone")]
    outcome = qk_mcp("inspect", *options, f"--project=demo:{root}")
    assert (outcome.code, outcome.stderr) == (1, "")
    broken, empty, gone, good = outcome.stdout.split("\n\n", 3)
    assert broken.splitlines()[4:7] == [
        "  error    project 'broken' could not be loaded: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        "             _qk/__init__.py:2: import nowhere_to_be_found",
        f"           Loaded with {sys.executable} (the Python that runs qk-mcp), quickie 1.0.0.",
    ]
    assert broken.splitlines()[7].startswith("           hint: if 'nowhere_to_be_found' is not a typing error, ask ")
    assert f"  path     {root.parent}/empty\n  error    project 'empty': no tasks at" in empty
    assert f"  error    project 'gone': there is no {root.parent}/gone" in gone
    assert good.startswith("demo\n")
    assert "db:migrate" in good


def test_the_default_project_is_marked(qk_mcp: CommandLine, root: Path) -> None:
    other = make_project(root.parent / "other", "")
    shown = qk_mcp("inspect", cwd=other).stdout
    assert "other  the default project\n" in shown
    assert "demo\n" in shown
    assert "  tasks    none; cached until a file changes\n" in shown


def test_an_uncacheable_project_says_why(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    root = project("import subprocess\nsubprocess.run(['true'])\n")
    shown = qk_mcp("inspect", "--project", f"demo:{root}").stdout
    assert "  tasks    none; described again for each listing, because loading them uses a program\n" in shown


WRONG = {
    "nope": (1, "project 'demo' has no task named 'nope'", "There is no project of that name either."),
    "dem": (1, "project 'demo' has no task named 'dem'", "did you mean the project 'demo'?"),
    "demo biuld": (1, "project 'demo' has no task named 'biuld'", "did you mean 'build'?"),
    "dmo build": (1, "no project is named 'dmo'", "Projects: demo.", "did you mean 'demo'?"),
    "/nowhere": (1, "no project is served for the path '/nowhere'", "It does not exist."),
    "demo build --filter x": (2, "a task and --filter exclude each other", "leave out one of them"),
    "--describe-timeout -1": (
        2,
        "option --describe-timeout: it must be more than 0 and less than 86400 seconds, not -1",
    ),
    "--fliter x": (2, "qk-mcp inspect has no option --fliter", "did you mean --filter?"),
    "demo build more": (2, "qk-mcp inspect does not take 'more'"),
    "--config /nowhere": (1, "cannot read the config /nowhere"),
}


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(("line", "expected"), WRONG.items(), ids=WRONG)
def test_a_mistake_is_reported_with_its_remedy(qk_mcp: CommandLine, line: str, expected: tuple[int, str]) -> None:
    code, *parts = expected
    outcome = qk_mcp("inspect", *line.split())
    assert (outcome.code, outcome.stdout) == (code, "")
    assert outcome.stderr.startswith("error: ")
    for part in parts:
        assert str(part) in outcome.stderr


def test_without_projects_it_says_how_to_add_one(qk_mcp: CommandLine) -> None:
    warning = "warning: there are no projects: `qk-mcp projects add NAME:PATH` adds one\n"
    assert qk_mcp("inspect") == Outcome(0, "", warning)
    assert qk_mcp("inspect", "--json") == Outcome(0, "[]\n", warning)
    assert qk_mcp("inspect", "app").code == 1


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("words", [[], ["build"], ["--json"]])
def test_a_reader_that_leaves_early_is_no_error(qk_mcp: CommandLine, words: list[str]) -> None:
    process = qk_mcp.start("inspect", *words)
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    assert process.stderr.read() == b""
    assert process.wait(60) == 0
    process.stderr.close()


# While it works


SLOW = "import time\ntime.sleep(2)\n"


@pytest.mark.long
def test_a_terminal_shows_what_it_waits_for(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    option = f"--project=demo:{project(SLOW)}"
    assert "describing demo" in _on_a_terminal(qk_mcp, "inspect", option)
    assert qk_mcp("inspect", option).stderr == ""


def test_an_interrupt_stops_the_description_in_progress(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    root = project("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    (temporary := root / "tmp").mkdir()
    process = qk_mcp.start("inspect", "--project", f"demo:{root}", env={"TMPDIR": str(temporary)})
    pid = int(until(lambda: (root / "pid").exists() and (root / "pid").read_text()))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list(temporary.iterdir())


@pytest.mark.long
def test_watching_shows_each_change(qk_mcp: CommandLine, root: Path) -> None:
    process = qk_mcp.start("inspect", "--watch", "--filter", "build", stdin=subprocess.DEVNULL)
    assert process.stdout
    os.set_blocking(process.stdout.fileno(), False)
    shown = b""

    def shows(text: str) -> bool:
        nonlocal shown
        shown += process.stdout.read() or b""  # type: ignore[union-attr]
        return text.encode() in shown

    def write(text: str) -> None:  # atomically: the program must not see half of it
        (root / "new").write_text(text)
        (root / "new").replace(module)

    module = root / "_qk" / "__init__.py"
    source = module.read_text() + "import time\ntime.sleep(1)\n"  # which must not make the next look late
    module.write_text(source)
    until(lambda: shows("Build the program for one target."))
    write(source.replace("Build the program", "Build another thing"))
    until(lambda: shows("Build another thing for one target.") and shows("  changed: build; press Ctrl+C to exit"))
    write("1 / 0")
    until(lambda: shows("ZeroDivisionError") and shows("  no longer loads; press"))
    write(source)
    until(lambda: shows("  loads again; press") and shown.count(b"Build the program") == 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_watching_writes_nothing_while_nothing_changes(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    source = """
        import subprocess
        from quickie import task

        subprocess.run(["true"])  # so that no cache is used
        open("loads", "a").write(".")

        @task
        def build():
            pass
    """
    root = project(source)
    ours, theirs = pty.openpty()
    command = ("inspect", "--watch", "--project", f"demo:{root}")
    env = {"TERM": "xterm", "COLUMNS": "100"}
    with qk_mcp.start(*command, env=env, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.set_blocking(ours, False)
        shown = b""

        def read() -> bytes:
            nonlocal shown
            with suppress(BlockingIOError):
                shown += os.read(ours, 65536)
            return shown

        until(lambda: b"press Ctrl+C to exit" in read())
        loads = (root / "loads").stat().st_size
        until(
            lambda: (root / "loads").stat().st_size >= loads + 2
        )  # it writes a file that it reads: described each time
        assert read().count(b"press Ctrl+C to exit") == 1
        assert read().count(b"\x1b[2J") == 1
        process.send_signal(signal.SIGINT)
    os.close(ours)


@pytest.mark.usefixtures("root")
def test_it_does_without_the_servers_libraries(qk_mcp: CommandLine) -> None:
    imports = qk_mcp("inspect", env={"PYTHONPROFILEIMPORTTIME": "1"}).stderr
    modules = {line.rpartition("|")[2].strip() for line in imports.splitlines()}
    assert "qk_mcp.tasks.cache" in modules
    assert not modules & {"fastmcp", "mcp", "pydantic", "httpx"}


# Rules


@pytest.fixture
def ruled(qk_mcp: CommandLine, project: Callable[..., Path]) -> Path:
    """A project in the user's config, with rules for some of its tasks."""
    root = project(
        """
        from quickie import task

        @task(aliases=["ship"])
        def deploy(): "Deploy it."

        @task
        def lint(): "Check the style."

        @task
        def release(): "Release it."

        @task
        def test(): "Run the tests."
        """
    )
    assert qk_mcp("projects", "add", f"shop:{root}").code == 0
    for words in (["deny", "ship"], ["confirm", "release"], ["read_only", "l*"], ["tools", "lint"]):
        assert qk_mcp("projects", "set", "shop", *words).code == 0
    return root


def test_the_rules_are_beside_the_tasks(qk_mcp: CommandLine, ruled: Path) -> None:
    printed = qk_mcp("inspect", "shop").stdout
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "tasks 4, 1 of them not for agents; cached until a file changes" in lines
    assert "deploy, ship (not for agents) Deploy it. _qk/__init__.py:3" in lines
    assert "lint (read only, own tool) Check the style. _qk/__init__.py:6" in lines
    assert "release (asks a person) Release it. _qk/__init__.py:9" in lines
    assert "test Run the tests. _qk/__init__.py:12" in lines
    by_path = qk_mcp("inspect", str(ruled / "_qk")).stdout
    assert "(not for agents)" in by_path


def test_the_rule_of_one_task_is_named(qk_mcp: CommandLine, ruled: Path) -> None:
    denied = qk_mcp("inspect", "shop", "deploy").stdout
    assert f'rules    not for agents; deny = "ship" in {qk_mcp.config}' in denied
    assert "what an agent gets" not in denied
    assert "run_task" not in denied
    asked = qk_mcp("inspect", "shop", "release").stdout
    assert f'rules    asks a person; confirm = "release" in {qk_mcp.config}' in asked
    assert "what an agent gets" in asked
    [entry] = json.loads(qk_mcp("inspect", "--json", "shop").stdout)
    assert entry["rules"] == {
        "deploy": ["not for agents"],
        "lint": ["read only", "own tool"],
        "release": ["asks a person"],
    }
    assert ruled


def test_a_person_may_run_what_agents_may_not(qk_mcp: CommandLine, ruled: Path) -> None:
    for task in ("deploy", "ship", "release", "lint"):
        assert qk_mcp("run", "shop", task).code == 0
    assert ruled
