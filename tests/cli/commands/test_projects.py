"""`qk-mcp projects`, on a real command line."""

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.cli import CommandLine, Outcome
from tests.support.projects import make_project

_REPORT = (
    "it has 0 tasks: `qk-mcp inspect {}` shows them\n"
    "next: `qk-mcp install CLIENT` connects an agent; a server that runs already serves it in the next call\n"
)


@pytest.fixture
def app(qk_mcp: CommandLine) -> Path:
    return make_project(qk_mcp.home / "code" / "app", "")


# add


def test_a_project_is_added_by_name_and_path(qk_mcp: CommandLine, app: Path) -> None:
    added = qk_mcp("projects", "add", f"mine:{app}")
    assert added == Outcome(0, "", f"added mine ({app}) to {qk_mcp.config}\n" + _REPORT.format("mine"))
    assert qk_mcp.config.read_text() == f'[projects]\nmine = "{app}"\n'


def test_a_bare_path_is_named_after_its_roots_directory(qk_mcp: CommandLine, app: Path) -> None:
    odd = make_project(qk_mcp.home / "code" / "-odd: one ", "", single_file=True)
    for path in (app, odd / "_qk.py"):
        assert qk_mcp("projects", "add", "--", path).code == 0
    assert qk_mcp.config.read_text() == f'[projects]\napp = "{app}"\n"odd- one" = "{odd}/_qk.py"\n'


@pytest.mark.parametrize(
    ("declaration", "path"),
    [
        (".", "{app}"),
        ("app:.", "{app}"),
        ("app:_qk", "{app}/_qk"),
        ("_qk", "{app}/_qk"),
        ("app:../app/", "{app}"),
        ("app:~/code/app", "~/code/app"),
        ("~/code/app", "~/code/app"),
        ("app:$WORK/app", "{app}"),
        ("app:~/$SUB/app", "{app}"),
    ],
)
def test_a_path_is_kept_in_a_form_that_works_from_everywhere(
    qk_mcp: CommandLine, app: Path, declaration: str, path: str
) -> None:
    env = {"WORK": str(app.parent), "SUB": "code"}
    assert qk_mcp("projects", "add", declaration, cwd=app, env=env).code == 0
    assert qk_mcp.config.read_text() == f'[projects]\napp = "{path.format(app=app)}"\n'
    [entry] = json.loads(qk_mcp("projects", "list", "--json", cwd=Path("/")).stdout)
    assert entry["root"] == str(app)


@pytest.mark.parametrize(
    "declaration", [".", "app:.", "app:{app}", "{app}", "app:../cost$HOME", "app:~/code/cost$HOME"]
)
def test_a_dollar_in_a_path_is_literal(qk_mcp: CommandLine, declaration: str) -> None:
    app = make_project(qk_mcp.home / "code" / "cost$HOME", "")
    done = qk_mcp("projects", "add", declaration.format(app=app), cwd=app)
    assert f"({app}) to " in done.stderr
    [entry] = json.loads(qk_mcp("projects", "list", "--json", cwd=Path("/")).stdout)
    assert (entry["path"], entry["root"]) == (str(app), str(app))
    added = qk_mcp("projects", "add", f"{entry['alias']}:{app}", cwd=app)
    assert "already" in added.stderr
    installed = json.loads(qk_mcp("install", "cursor", "--project", "a:.", cwd=app).stdout)
    assert installed["mcpServers"]["qk-mcp"]["args"][-1] == f"a:{str(app).replace('$', '$$')}"


def test_a_path_without_tasks_is_not_added(qk_mcp: CommandLine, app: Path) -> None:
    for path, why in {
        app.parent / "ap": f"error: project 'x': there is no {app.parent}/ap\nhint: did you mean {app}?\n",
        app.parent: f"error: project 'x': no tasks at {app.parent}\n  It contains neither _qk/ nor _qk.py.\n"
        f"hint: tasks are in {app}: use that path\n",
    }.items():
        assert qk_mcp("projects", "add", f"x:{path}") == Outcome(1, "", why)
        bare = qk_mcp("projects", "add", path)
        assert bare == Outcome(1, "", why.replace("project 'x': ", ""))
    assert not qk_mcp.config.exists()


@pytest.mark.parametrize(
    ("declaration", "why"),
    [("", "it is empty"), (":/x", "it is empty"), ("a:", "no path after the colon"), ("a b :/x", "a blank at an end")],
)
def test_a_malformed_declaration_is_wrong_usage(qk_mcp: CommandLine, declaration: str, why: str) -> None:
    outcome = qk_mcp("projects", "add", declaration)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error: ")
    assert why in outcome.stderr
    assert "\nhint: " in outcome.stderr


def test_an_existing_name_needs_force_for_another_path(qk_mcp: CommandLine, app: Path) -> None:
    web = make_project(qk_mcp.home / "web", "")
    qk_mcp.write_config(f'[projects]\napp = "{app}" # mine\n')
    again = qk_mcp("projects", "add", f"app:{app}/")
    assert again == Outcome(0, "", f"app ({app}) is in {qk_mcp.config} already\n" + _REPORT.format("app"))
    refused = qk_mcp("projects", "add", f"app:{web}")
    assert refused == Outcome(
        1,
        "",
        f"error: there is already a project named 'app'\n  Its path is {app}.\n"
        "hint: choose another name, or replace it with --force\n",
    )
    assert qk_mcp("projects", "add", f"App:{web}", "--force").code == 1
    forced = qk_mcp("projects", "add", f"app:{web}", "--force")
    assert forced == Outcome(0, "", f"app is now {web} in {qk_mcp.config}\n" + _REPORT.format("app"))
    assert qk_mcp.config.read_text() == f'[projects]\napp = "{web}" # mine\n'


def test_a_project_without_an_interpreter_is_added_with_a_warning(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp.write_config(f'[projects.app]\npython = "{app}/none"\npath = "/elsewhere"\n')
    outcome = qk_mcp("projects", "add", f"app:{app}", "--force")
    assert outcome.code == 0
    assert "warning: " in outcome.stderr
    assert f"{app}/none" in outcome.stderr


def test_a_project_is_added_to_a_config_that_is_broken_elsewhere_with_a_warning(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp.write_config("[projects]\nbad = 1\n")
    outcome = qk_mcp("projects", "add", f"app:{app}")
    assert outcome.code == 0
    assert outcome.stderr.splitlines()[0] == f"added app ({app}) to {qk_mcp.config}"
    assert "warning: the config" in outcome.stderr
    assert "line 2: projects.bad" in outcome.stderr


def test_a_project_is_added_with_its_python_and_variables(qk_mcp: CommandLine, app: Path) -> None:
    options = ["--python", sys.executable, "--env", "A=b", "--env", "C=d=e"]
    assert qk_mcp("projects", "add", f"app:{app}", *options).code == 0
    entry = {"path": str(app), "python": sys.executable, "env": {"A": "b", "C": "d=e"}}
    assert tomllib.loads(qk_mcp.config.read_text()) == {"projects": {"app": entry}}
    assert "already\n" in qk_mcp("projects", "add", f"app:{app}", "--env", "A=b").stderr
    assert "--force" in qk_mcp("projects", "add", f"app:{app}", "--env", "A=x").stderr
    assert qk_mcp("projects", "add", f"app:{app}", "--env", "A=x", "--force").code == 0
    entry["env"] = {"A": "x", "C": "d=e"}
    assert tomllib.loads(qk_mcp.config.read_text()) == {"projects": {"app": entry}}
    wrong = qk_mcp("projects", "add", f"app:{app}", "--env", "A")
    assert (wrong.code, wrong.stderr) == (2, "error: option --env: 'A' is not NAME=VALUE\n")


def test_a_project_that_does_not_load_is_added_with_a_warning(qk_mcp: CommandLine) -> None:
    app = make_project(qk_mcp.home / "app", "import nothing_of_that_name")
    outcome = qk_mcp("projects", "add", f"app:{app}")
    assert outcome.code == 0
    assert "warning: project 'app' could not be loaded" in outcome.stderr
    assert "nothing_of_that_name" in outcome.stderr


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_config_that_is_no_regular_file_does_not_hang(qk_mcp: CommandLine, app: Path, kind: str) -> None:
    config = qk_mcp.home / "config"
    os.mkfifo(config) if kind == "fifo" else config.symlink_to("/dev/zero")
    for command in (["projects", "list"], ["projects", "add", f"app:{app}"], ["serve"]):
        outcome = qk_mcp(*command, "--config", config)
        assert outcome.code == 1
        assert "t is not a regular file" in outcome.stderr


# remove


def test_projects_are_removed_all_or_none(qk_mcp: CommandLine) -> None:
    text = '# mine\n[projects]\napp = "/x"\nweb = "/y"\n"a b" = "/z"\n'
    qk_mcp.write_config(text)
    refused = qk_mcp("projects", "remove", "app", "wbe")
    assert refused == Outcome(
        1, "", "error: no project is named 'wbe'\n  Projects: app, web, a b.\nhint: did you mean 'web'?\n"
    )
    assert qk_mcp.config.read_text() == text
    removed = qk_mcp("projects", "remove", "app", "a b")
    assert removed == Outcome(0, "", f"removed app, a b from {qk_mcp.config}\n")
    assert qk_mcp.config.read_text() == '# mine\n[projects]\nweb = "/y"\n'
    assert qk_mcp("projects", "remove").code == 2


# list


def test_a_list_shows_where_each_project_is_and_what_is_wrong(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp.write_config(
        '[projects]\napp = "~/code/app"\ngone = "~/code/gone"\nlost = { path = "~/code/app" }\n[other]\n'
    )
    outcome = qk_mcp("projects", "list")
    python = f"{sys.executable} (the Python that runs qk-mcp, quickie "
    blocks = outcome.stdout.split("\n\n")
    assert outcome.code == 0
    assert blocks[0].startswith(f"app\n  path    {app}\n  root    {app}\n  python  {python}")
    assert blocks[1] == (
        f"gone\n  path    {app.parent}/gone\n  error   project 'gone': there is no {app.parent}/gone\n"
        f"          Declared by {qk_mcp.config}.\n          hint: correct the path, or remove the project"
    )
    assert blocks[2].startswith("lost\n")
    assert outcome.stderr == (
        f"warning: {qk_mcp.config}, line 5: the unknown key 'other' is ignored; known here: projects\n"
    )


def test_a_list_as_json_is_json_only(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp.write_config('[projects]\n"日本" = "~/code/app"\ngone = "/gone"\n')
    outcome = qk_mcp("projects", "list", "--json", env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    good, bad = json.loads(outcome.stdout)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert good["quickie"]
    assert good == {
        "alias": "日本",
        "path": str(app),
        "root": str(app),
        "python": sys.executable,
        "reason": "the Python that runs qk-mcp",
        "quickie": good["quickie"],
        "error": None,
        "rules": {},
    }
    assert [name for name, value in bad.items() if value] == ["alias", "path", "error"]
    assert "there is no /gone" in bad["error"]


def test_an_empty_list_says_how_to_add_a_project(qk_mcp: CommandLine) -> None:
    outcome = qk_mcp("projects", "list")
    assert (outcome.code, outcome.stdout) == (0, "")
    assert "qk-mcp projects add NAME:PATH" in outcome.stderr
    assert qk_mcp("projects", "list", "--json") == Outcome(0, "[]\n", "")
    assert not qk_mcp.config.exists()


def test_an_inaccessible_config_is_an_error(qk_mcp: CommandLine) -> None:
    qk_mcp.config.parent.parent.mkdir(exist_ok=True)
    qk_mcp.config.parent.symlink_to(
        qk_mcp.config.parent.name
    )  # like a directory that may not be searched, also to root
    for command in (["projects", "list"], ["inspect"], ["serve"], ["run", "greet"]):
        outcome = qk_mcp(*command)
        assert (outcome.code, outcome.stdout) == (1, "")
        assert f"error: cannot read the config {qk_mcp.config}\n  Too many levels of symbolic links." in outcome.stderr
    assert "cannot read the config" in qk_mcp("doctor").stdout


def test_a_broken_config_is_reported_with_its_faults(qk_mcp: CommandLine) -> None:
    qk_mcp.write_config("[projects]\na = 1\nb = {}\n")
    outcome = qk_mcp("projects", "list")
    assert outcome == Outcome(
        1,
        "",
        f"error: the config {qk_mcp.config} is broken\n"
        "  line 2: projects.a must be a path or a table, not a number\n"
        "  line 3: projects.b has no path\nhint: correct it by hand\n",
    )


def test_a_name_cannot_reach_the_terminal(qk_mcp: CommandLine) -> None:
    qk_mcp.write_config('[projects]\na = "/x\\u001b[31m\\u202e\\u0007"\n')
    outcome = qk_mcp("projects", "list")
    assert not set("\x1b\u202e\x07") & set(outcome.stdout + outcome.stderr)


def test_a_list_imports_no_large_library(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp.write_config(f'[projects]\napp = "{app}"\n')
    outcome = qk_mcp("projects", "list", env={"PYTHONPROFILEIMPORTTIME": "1"})
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in outcome.stderr.splitlines()}
    assert "qk_mcp" in loaded
    assert not loaded & {"fastmcp", "mcp", "pydantic", "asyncio", "anyio", "rich", "psutil", "subprocess", "tomli_w"}


# path, and another config


@pytest.mark.long
def test_the_config_can_be_another_file(qk_mcp: CommandLine, app: Path) -> None:
    own = f"{qk_mcp.config}\n"
    assert qk_mcp("projects", "path") == Outcome(0, own, "")
    work = qk_mcp.home / "work"
    work.mkdir()
    ways: list[tuple[list[str], dict[str, str]]] = [
        (["--config", "qk.toml"], {}),
        (["--config=~/work/qk.toml"], {}),
        ([], {"QK_MCP_CONFIG": str(work / "qk.toml")}),
        (["--config", "qk.toml"], {"QK_MCP_CONFIG": "/none"}),
    ]
    for options, env in ways:
        assert qk_mcp("projects", "path", *options, cwd=work, env=env).stdout == f"{work}/qk.toml\n"
        assert qk_mcp("projects", "list", *options, cwd=work, env=env).code == 1
        assert qk_mcp("projects", "add", f"app:{app}", *options, cwd=work, env=env).code == 0
        assert (work / "qk.toml").read_text() == f'[projects]\napp = "{app}"\n'
        assert "app" in qk_mcp("projects", "list", *options, cwd=work, env=env).stdout
        assert qk_mcp("projects", "remove", "app", *options, cwd=work, env=env).code == 0
        (work / "qk.toml").unlink()
    assert not qk_mcp.config.exists()


def test_a_json_config_is_listed_but_not_edited(qk_mcp: CommandLine, app: Path) -> None:
    file = qk_mcp.home / "qk.json"
    file.write_text(json.dumps({"projects": {"app": str(app)}}))
    assert "app" in qk_mcp("projects", "list", "--config", file).stdout
    refused = qk_mcp("projects", "add", f"web:{app}", "--config", file)
    assert (refused.code, refused.stdout) == (1, "")
    assert f'hint: write this by hand under "projects": "web": "{app}"' in refused.stderr


def test_a_deleted_current_directory_matters_only_to_relative_paths(qk_mcp: CommandLine, app: Path) -> None:
    gone = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    assert qk_mcp("projects", "add", f"app:{app}", shell=gone).code == 0
    assert qk_mcp("projects", "list", shell=gone).stdout.startswith("app\n")
    outcome = qk_mcp("projects", "add", "app:x", shell=gone)
    assert outcome == Outcome(
        2,
        "",
        "error: cannot resolve the relative path 'x'\n  The current directory was deleted or is not readable.\n"
        "hint: give an absolute path\n",
    )


def test_rules_are_set_shown_and_removed(qk_mcp: CommandLine, app: Path) -> None:
    qk_mcp("projects", "add", f"app:{app}")
    outcome = qk_mcp("projects", "set", "app", "deny", "deploy*", "db:*")
    assert outcome.stderr == f'app has deny = ["deploy*", "db:*"] in {qk_mcp.config}\n'
    qk_mcp("projects", "set", "app", "redact", "false")
    assert '  rules   deny = ["deploy*", "db:*"]\n          redact = false' in qk_mcp("projects", "list").stdout
    [entry] = json.loads(qk_mcp("projects", "list", "--json").stdout)
    assert entry["rules"] == {"deny": ["deploy*", "db:*"], "redact": False}
    assert qk_mcp("projects", "unset", "app", "redact").stderr == f"app has no redact any more in {qk_mcp.config}\n"
    assert qk_mcp("projects", "unset", "app", "deny", "db:*").code == 0
    assert qk_mcp("projects", "set", "app", "deny").code == 2
    wrong = qk_mcp("projects", "set", "app", "denny", "x")
    assert (wrong.code, "did you mean deny?" in wrong.stderr) == (2, True)
    assert 'deny = ["deploy*"]' in qk_mcp.config.read_text()


# Mistakes in words

MISTAKES = {
    ("add", "v:/x", "--via", 'sh -c "'): "option --via: 'sh -c \"' cannot be split into words: No closing quotation",
    ("add", "v:/x", "--via", " "): "option --via: it is empty",
    ("add", "v:/x", "--host", "box", "--command", "'"): 'option --command: "\'" cannot be split into words',
    ("set", "app", "redact", "true"): "setting 'redact': it is on unless it is false",
    ("set", "app", "env", "A=1"): "setting 'env': `qk-mcp projects add NAME:PATH --env NAME=VALUE --force` sets it",
}


@pytest.mark.parametrize(("words", "message"), MISTAKES.items(), ids=[" ".join(words) for words in MISTAKES])
def test_a_mistake_in_words_changes_nothing(
    qk_mcp: CommandLine, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert qk_mcp("projects", "add", f"app:{make_project(tmp_path / 'app', '')}").code == 0
    before = qk_mcp.config.read_bytes()
    outcome = qk_mcp("projects", *words)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error: {message}")
    assert qk_mcp.config.read_bytes() == before
