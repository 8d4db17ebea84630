"""Completion: what the program answers, and what real shells make of it."""

import json
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qk_mcp.cli.completion.scripts import FILES
from qk_mcp.cli.completion.table import generated_files
from tests.support.cli import CommandLine
from tests.support.processes import until
from tests.support.shells import SHELLS, Shell

SOURCE = """
    from quickie import Arg, Namespace, task
    from . import db

    open("imported", "a").write(".")

    @task(aliases=["b"], args=[
        Arg("target", choices=["debug", "release"]),
        Arg("--jobs", type=int),
        Arg("--colour", choices=["always", "never"], help="When to use colours."),
        Arg("--pair", nargs=2),
        Arg("--fast", action="store_true"),
        Arg("files", nargs="*"),
    ])
    def build(**options):
        \"\"\"Build the program.\"\"\"

    @task(name="with space")
    def spaced():
        pass

    @task(name="étude")
    def study():
        pass

    @task(name="it's $HOME; *")
    def odd():
        pass

    spaces = Namespace({"db": db})
"""
DB = """
    from quickie import task

    @task
    def migrate():
        \"\"\"Migrate the database.\"\"\"

    @task
    def seed():
        pass
"""
COMPLETIONS = Path(__file__).parents[3] / "completions"
TASKS = ["b", "build", "db:migrate", "db:seed", "it's $HOME; *", "with space", "étude"]


@pytest.fixture
def root(project: Callable[..., Path], qk_mcp: CommandLine) -> Path:
    """A project named `demo` in the user's config; the user's only one."""
    root = project({"_qk/__init__.py": SOURCE, "_qk/db.py": DB})
    qk_mcp.write_config(f"[projects]\ndemo = {json.dumps(str(root))}\n")
    return root


@pytest.fixture
def known(qk_mcp: CommandLine, root: Path) -> Path:
    """The same, whose tasks were asked for already: on a busy machine, the first Tab may not wait for them."""
    until(lambda: "build" in _words(qk_mcp, "run", ""))
    return root


def _answer(qk_mcp: CommandLine, *words: str, cwd: Path | None = None) -> tuple[str, dict[str, str]]:
    """Return whether files may follow `words`, and the candidates with their descriptions."""
    outcome = qk_mcp("__complete", "fish", *words, cwd=cwd)
    assert (outcome.code, outcome.stderr) == (0, "")
    kind, *lines = outcome.stdout.splitlines()
    return kind, dict(line.split("\t") for line in lines)


def _words(qk_mcp: CommandLine, *words: str, cwd: Path | None = None) -> list[str]:
    kind, answer = _answer(qk_mcp, *words, cwd=cwd)
    assert kind == "words"
    return sorted(answer)


def test_generated_files_are_up_to_date() -> None:
    stale = [str(path) for path, text in generated_files().items() if path.read_text() != text]
    assert not stale, "write them again: qk completions"


def test_the_wheel_installs_the_scripts() -> None:
    source = Path(__file__).parents[3]
    wheel = tomllib.loads((source / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(wheel["shared-data"].values()) == {
        "share/bash-completion/completions/qk-mcp",
        "share/fish/vendor_completions.d/qk-mcp.fish",
        "share/zsh/site-functions/_qk-mcp",
    }
    assert all((source / file).is_file() for file in wheel["shared-data"])


# Words


def test_commands_are_completed_with_their_help(qk_mcp: CommandLine) -> None:
    kind, answer = _answer(qk_mcp, "")
    assert kind == "words"
    assert {"serve", "projects", "inspect", "run"} <= set(answer)
    assert answer["run"] == "Run a task as an agent would."
    assert _words(qk_mcp, "projects", "") == ["add", "list", "path", "remove", "set", "unset"]


@pytest.mark.long
def test_options_are_those_of_the_command(qk_mcp: CommandLine) -> None:
    assert _words(qk_mcp, "projects", "list", "-") == ["--config", "--help", "--json", "-h"]
    assert _words(qk_mcp, "projects", "list", "--json", "-") == ["--config", "--help", "-h"]
    assert {"--project", "--config", "--filter", "--watch", "--json"} <= set(_words(qk_mcp, "inspect", "--"))
    assert {"--project", "--log-file", "--version", "--install-completion"} <= set(_words(qk_mcp, "-"))
    assert "--version" not in _words(qk_mcp, "serve", "-")
    assert "--project" in _words(qk_mcp, "--project", "a:/x", "-v", "-")  # the form without a command
    assert _words(qk_mcp, "projects", "list", "--", "-") == []
    assert _words(qk_mcp, "--install-completion", "") == ["bash", "fish", "zsh"]
    assert "claude-code" in _words(qk_mcp, "install", "")
    assert _words(qk_mcp, "install", "--scope", "") == ["project", "user"]
    assert _words(qk_mcp, "install", "cursor", "--launcher=") == [
        "--launcher=python",
        "--launcher=this",
        "--launcher=uvx",
    ]
    assert "add" in _words(qk_mcp, "help", "projects", "")
    assert _words(qk_mcp, "help", "run", "") == []


@pytest.mark.long
@pytest.mark.usefixtures("known")
def test_projects_and_tasks(qk_mcp: CommandLine, root: Path) -> None:
    kind, answer = _answer(qk_mcp, "run", "")
    assert (kind, sorted(answer)) == ("words", sorted(["demo", *TASKS]))
    assert answer["demo"] == str(root)
    assert answer["b"] == answer["build"] == "Build the program."
    assert _words(qk_mcp, "inspect", "") == sorted(["demo", *TASKS])
    for command in ("run", "inspect"):
        assert _words(qk_mcp, command, "demo", "") == TASKS
        assert _words(qk_mcp, command, str(root), "") == TASKS
        assert _words(qk_mcp, command, "--json", "demo", "") == TASKS
        assert _words(qk_mcp, command, "--project", f"x:{root}", "") == sorted(["x", *TASKS])
        assert _words(qk_mcp, command, f"--project=x:{root}", "x", "") == TASKS
        assert _answer(qk_mcp, command, "./") == ("files", {})
    assert _words(qk_mcp, "inspect", "--filter", "") == TASKS
    assert _words(qk_mcp, "inspect", "demo", "build", "") == []
    assert _words(qk_mcp, "projects", "remove", "") == ["demo"]
    assert _words(qk_mcp, "projects", "remove", "demo", "") == []


@pytest.mark.long
@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("before", [["build"], ["demo", "b"], ["--timeout", "5", "demo", "build"]])
def test_the_arguments_of_a_task_follow_it(qk_mcp: CommandLine, before: list[str]) -> None:
    def answer(*words: str) -> tuple[str, list[str]]:
        kind, answer = _answer(qk_mcp, "run", *before, *words)
        return kind, sorted(answer)

    assert answer("-") == ("words", ["--colour", "--fast", "--jobs", "--pair"])
    assert _answer(qk_mcp, "run", *before, "--")[1]["--colour"] == "When to use colours."
    assert answer("") == ("words", ["debug", "release"])
    assert answer("--fast", "") == ("words", ["debug", "release"])
    assert answer("--jobs", "3", "") == ("words", ["debug", "release"])
    assert answer("--pair", "1", "2", "") == ("words", ["debug", "release"])
    assert answer("debug", "") == answer("debug", "a", "b", "") == ("files", [])
    assert answer("--jobs", "") == answer("--pair", "1", "") == ("files", [])
    assert answer("--colour", "") == ("words", ["always", "never"])
    assert answer("--colour=") == ("words", ["--colour=always", "--colour=never"])
    assert answer("--jobs=") == ("files", [])
    assert answer("--", "-") == ("words", ["debug", "release"])
    assert answer("--unknown", "-")[1] == ["--colour", "--fast", "--jobs", "--pair"]


@pytest.mark.long
def test_a_declaration_is_a_name_and_a_path(qk_mcp: CommandLine, root: Path) -> None:
    (root / "single.py").touch()
    (root / "notes.txt").touch()
    for before in (["projects", "add"], ["serve", "--project"], ["--project"], ["inspect", "--project"]):
        assert "project:" in _words(qk_mcp, *before, "", cwd=root)
        assert _words(qk_mcp, *before, f"x:{root}/", cwd=root) == [f"x:{root}/_qk/", f"x:{root}/single.py"]
        assert _words(qk_mcp, *before, "x:", cwd=root) == ["x:_qk/", "x:single.py"]
        assert _words(qk_mcp, *before, "x:~/../pro", cwd=root) == ["x:~/../home/", "x:~/../project/"]
    assert _words(qk_mcp, "serve", f"--project=x:{root}/_") == [
        f"--project=x:{root}/_qk/",
        f"--project=x:{root}/single.py",
    ]
    assert _words(qk_mcp, "projects", "add", f"{root}/") == [f"{root}/_qk/", f"{root}/single.py"]
    assert _answer(qk_mcp, "serve", "--config", "") == ("files", {})
    assert _answer(qk_mcp, "serve", "--max-output", "") == ("words", {})


@pytest.mark.parametrize(
    "words", [[], ["bash"], ["bash", "qk-mcp run x"], ["csh"], ["fish"], ["fish", "frobnicate", ""]]
)
def test_it_prints_nothing_if_it_cannot_complete(qk_mcp: CommandLine, words: list[str]) -> None:
    outcome = qk_mcp("__complete", *words)
    assert outcome.stdout in ("", "words\n")
    assert outcome.stderr == ""


# Tasks, remembered


@pytest.mark.long
def test_a_project_is_loaded_once_until_a_file_changes(qk_mcp: CommandLine, known: Path) -> None:
    imported = known / "imported"
    until(lambda: _words(qk_mcp, "run", "demo", "") == TASKS and time.time() - (known / "_qk").stat().st_mtime > 3)
    before = len(imported.read_text())
    assert [_words(qk_mcp, "run", "demo", "") for _ in range(3)] == [TASKS] * 3
    assert len(imported.read_text()) <= before + 1  # once more if a file was too new to tell
    (known / "_qk" / "db.py").write_text("from quickie import task\n@task\ndef drop():\n    pass\n")
    until(lambda: "db:drop" in _words(qk_mcp, "run", "demo", ""))
    assert "db:seed" not in _words(qk_mcp, "run", "demo", "")


def test_a_broken_project_completes_its_previous_tasks(qk_mcp: CommandLine, known: Path) -> None:
    (known / "_qk" / "db.py").write_text("1 / 0")
    assert [_words(qk_mcp, "run", "demo", "") for _ in range(2)] == [TASKS] * 2


def test_a_slow_project_delays_no_other(qk_mcp: CommandLine, project: Callable[..., Path]) -> None:
    root = project("""
        import time
        from pathlib import Path
        from quickie import task

        while not Path("go").exists():
            time.sleep(0.02)

        @task
        def late():
            pass
    """)
    option = f"--project=demo:{root}"
    assert _words(qk_mcp, "run", option, "demo", "") == []
    (root / "go").touch()
    until(lambda: _words(qk_mcp, "run", option, "demo", "") == ["late"])


@pytest.mark.usefixtures("known")
def test_it_imports_no_large_library(qk_mcp: CommandLine) -> None:
    _words(qk_mcp, "run", "demo", "build", "")
    imports = qk_mcp("__complete", "fish", "run", "demo", "", env={"PYTHONPROFILEIMPORTTIME": "1"}).stderr
    modules = {line.rpartition("|")[2].strip() for line in imports.splitlines()}
    assert "qk_mcp.cli.completion.cache" in modules
    assert not modules & {"asyncio", "cyclopts", "fastmcp", "mcp", "pydantic", "rich", "psutil"}


@pytest.mark.usefixtures("known")
def test_the_cache_is_private(qk_mcp: CommandLine) -> None:
    files = list((qk_mcp.home / ".cache" / "qk-mcp" / "completion").iterdir())
    assert files
    assert all(file.stat().st_mode & 0o77 == 0 for file in [*files, files[0].parent])


# Installing


PLACES = {
    "bash": ".local/share/bash-completion/completions/qk-mcp",
    "fish": ".config/fish/completions/qk-mcp.fish",
    "zsh": ".local/share/zsh/site-functions/_qk-mcp",
}


@pytest.mark.parametrize("shell", PLACES)
def test_the_script_is_installed_where_the_shell_looks(qk_mcp: CommandLine, shell: str) -> None:
    startup = [qk_mcp.home / name for name in (".bashrc", ".zshrc", ".profile")]
    for file in startup:
        file.write_text("# mine\n")
    for _ in range(2):
        outcome = qk_mcp("--install-completion", shell)
        assert (outcome.code, outcome.stdout) == (0, "")
        assert outcome.stderr.startswith(f"wrote {qk_mcp.home}/{PLACES[shell]}\nnew shells load it")
    assert (qk_mcp.home / PLACES[shell]).read_text() == (COMPLETIONS / FILES[shell]).read_text()
    assert {file.read_text() for file in startup} == {"# mine\n"}


def test_the_shell_is_that_of_the_parent_process(qk_mcp: CommandLine) -> None:
    in_bash = 'bash -c \'"$@"; true\' bash "$@"'
    assert PLACES["bash"] in qk_mcp("--install-completion", shell=in_bash, env={"SHELL": "/bin/zsh"}).stderr


def test_an_unknown_shell_is_reported(qk_mcp: CommandLine) -> None:
    outcome = qk_mcp("--install-completion", "csh")
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr == (
        "error: there is no completion for the shell 'csh'\n"
        "  Shells: bash, fish, zsh.\n"
        "hint: name one of them: qk-mcp --install-completion bash\n"
    )


# In real shells


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, qk_mcp: CommandLine, known: Path) -> Iterator[Shell]:
    """A shell in the project's directory."""
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    shell = Shell(request.param, qk_mcp.home, known)
    yield shell
    shell.close()


def test_a_shell_completes_each_word(shell: Shell, known: Path) -> None:
    (known / "settings.toml").touch()
    for typed, words in (
        ("insp\t --fil\tx", ["inspect", "--filter", "x"]),
        ("proj\tremo\tde\t", ["projects", "remove", "demo"]),
        ("run de\tdb:mi\t", ["run", "demo", "db:migrate"]),
        ("run db\tse\t", ["run", "db:seed"]),
        ('run "db:mi\t', ["run", "db:migrate"]),
        ("run w\t", ["run", "with space"]),
        ("run é\t", ["run", "étude"]),
        ("run it\tx", ["run", "it's $HOME; *", "x"]),
        ("run build --col\tal\trel\t", ["run", "build", "--colour", "always", "release"]),
        ("run b debug set\t", ["run", "b", "debug", "settings.toml"]),
        (f"inspect --project x:{known.parent}/pro\t", ["inspect", "--project", f"x:{known.parent}/project/"]),
        ("serve --config=sett\t", ["serve", "--config=settings.toml"]),
        ("serve --config sett\t", ["serve", "--config", "settings.toml"]),
        ("run --config ~/.con\tqk\tx", ["run", "--config", f"{known.parent}/home/.config/qk-mcp/x"]),
        ("frobnicate xyz\t", ["frobnicate", "xyz"]),
        ("run demo nothing\t", ["run", "demo", "nothing"]),
    ):
        assert shell.complete(typed) == words, (typed, shell.shown.decode(errors="replace"))
    assert b"rror" not in shell.shown
    assert b"Traceback" not in shell.shown


def test_a_shell_is_silent_about_a_broken_project(shell: Shell, known: Path, qk_mcp: CommandLine) -> None:
    shutil.rmtree(known / "_qk")
    qk_mcp.write_config("nonsense")
    assert shell.complete("run bui\t") == ["run", "bui"]
    assert shell.complete("run bui\tld de\t") == ["run", "build", "de"]
    assert b"rror" not in shell.shown


def test_settings_and_globs_of_a_project(qk_mcp: CommandLine, known: Path) -> None:
    qk_mcp.write_config(f'[projects.app]\npath = "{known}"\ndeny = ["x*", "y"]\n')
    assert _words(qk_mcp, "projects", "set", "") == ["app"]
    assert {"deny", "confirm", "grace"} <= set(_words(qk_mcp, "projects", "set", "app", ""))
    assert _words(qk_mcp, "projects", "set", "app", "log_args", "") == ["false", "true"]
    assert _words(qk_mcp, "projects", "unset", "app", "deny", "y", "") == ["x*"]
    until(lambda: "build" in _words(qk_mcp, "projects", "set", "app", "deny", ""))
