"""A path means the tree that it is in: linked worktrees, submodules and nested repositories."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.answers import Answer
from tests.support.cli import CommandLine
from tests.support.client import Client
from tests.support.environments import make_venv, site_of
from tests.support.git import commit_all, git, needs_git
from tests.support.projects import make_project
from tests.support.serving import serving

pytestmark = needs_git

SHOW = """
import os, sys
from quickie import task

@task
def where():
    print(os.getcwd())
    print(sys.prefix)
"""


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """The main checkout of a repository with a project at its top."""
    root = make_project(tmp_path / "main", {"_qk/__init__.py": SHOW, "src/code.py": "", ".gitignore": ".venv\n"})
    commit_all(root)
    return root


@pytest.fixture
def client(tmp_path: Path, main: Path) -> Iterator[Client]:
    with serving(tmp_path / "home", {"app": main}) as client:
        yield client


@pytest.fixture
def add(main: Path) -> Callable[..., Path]:
    """Adds a linked worktree to the repository."""

    def add_worktree(place: str, *options: str) -> Path:
        git(main, "worktree", "add", "-q", *options, place)
        return (main / place).resolve()

    return add_worktree


def _where(answer: Answer) -> str:
    assert not answer.is_error, answer.text
    return str(answer.data["stdout"]).splitlines()[0]


def _environment(directory: Path) -> None:
    """Make a virtual environment that also has what the tests run with."""
    make_venv(directory)
    (site_of(directory) / "more.pth").write_text(f"{site_of(Path(sys.prefix))}\n")


@pytest.mark.parametrize("place", [".claude/worktrees/feat", "../feat"])
def test_a_path_in_a_worktree_selects_the_worktree(
    client: Client, main: Path, add: Callable[..., Path], place: str
) -> None:
    worktree = add(place)
    for project in (worktree, worktree / "src" / "code.py", worktree / "_qk" / "__init__.py", "app@feat"):
        assert _where(client.run("where", project=str(project))) == str(worktree)
    listed = client.call("list_tasks", project=str(worktree)).data[0]
    assert (listed["project"], listed["project_root"]) == ("app@feat", str(worktree))
    for project in ("app", str(main), str(main / "_qk")):
        answer = client.run("where", project=project)
        assert (_where(answer), answer.data.get("note")) == (str(main), None)


def test_each_worktree_has_its_own_tasks(client: Client, add: Callable[..., Path]) -> None:
    worktree = add("../feat")
    make_project(worktree, SHOW + "\n@task\ndef extra():\n    print('only here')\n")
    assert client.run("extra", project="app@feat").data["stdout"] == "only here\n"
    assert "extra" in client.run("extra", project="app").refusal


def test_a_moved_a_locked_and_a_detached_worktree(client: Client, main: Path, add: Callable[..., Path]) -> None:
    add("../old")
    git(main, "worktree", "move", "../old", "../new")
    add("../locked", "--lock")
    add("../detached", "--detach")
    for alias, place in {"app@old": "new", "app@locked": "locked", "app@detached": "detached"}.items():
        worktree = main.parent / place
        assert _where(client.run("where", project=alias)) == str(worktree)
        assert _where(client.run("where", project=f"{worktree}/src")) == str(worktree)


def test_a_removed_worktree_never_runs_the_main_checkout(client: Client, main: Path, add: Callable[..., Path]) -> None:
    removed, kept = add(".claude/worktrees/gone"), add("../kept")
    git(main, "worktree", "remove", str(removed))
    assert "It does not exist." in client.run("where", project=f"{removed}/src").refusal
    (removed / "build").mkdir(parents=True)
    left = client.run("where", project=str(removed)).data
    assert left["note"] == f"ran in {main}, the root of the project that contains {removed}"
    refusal = client.run("where", project="app@gone").refusal
    assert "Git knows no worktree 'gone'" in refusal
    assert "its worktrees: app@kept" in refusal
    shutil.rmtree(kept)
    refusal = client.run("where", project="app@kept").refusal
    assert "It was moved or removed." in refusal


def test_a_worktree_without_tasks_at_that_place(client: Client, main: Path, add: Callable[..., Path]) -> None:
    worktree = add(".claude/worktrees/bare")
    shutil.rmtree(worktree / "_qk")
    for project in (str(worktree), "app@bare"):
        refusal = client.run("where", project=project).refusal
        assert "cannot run in the worktree 'bare'" in refusal
        assert f"There is nothing at {worktree}/_qk" in refusal
    assert main.exists()


def test_a_branch_may_have_the_other_form_of_the_tasks_module(client: Client, add: Callable[..., Path]) -> None:
    worktree = add("../file")
    shutil.rmtree(worktree / "_qk")
    make_project(worktree, SHOW, single_file=True)
    for project in (str(worktree), "app@file"):
        assert _where(client.run("where", project=project)) == str(worktree)


def test_repositories_inside_that_are_not_served(client: Client, main: Path) -> None:
    vendored = make_project(main / "vendor" / "lib", SHOW)
    commit_all(vendored)
    refusal = client.run("where", project=str(vendored)).refusal
    assert f"qk-mcp projects add lib:{vendored}" in refusal
    plain = main / "vendor" / "plain"
    plain.mkdir()
    commit_all(make_project(plain, {"file": ""}))
    assert f"The nearest repository is {plain}" in client.run("where", project=f"{plain}/file").refusal
    nested = make_project(main / "examples" / "one", SHOW)
    assert f"qk-mcp projects add one:{nested}" in client.run("where", project=str(nested)).refusal
    bare = main / "vendor" / "bare.git"
    git(main, "init", "-q", "--bare", str(bare))
    for directory in (bare / "refs", main / ".git" / "refs"):
        assert "which has no tasks" in client.run("where", project=str(directory)).refusal
    (main / "vendor" / "hg" / ".hg").mkdir(parents=True)
    assert "which has no tasks" in client.run("where", project=f"{main}/vendor/hg").refusal
    other = make_project(main.parent / "other", SHOW)
    commit_all(other)
    git(other, "worktree", "add", "-q", str(main / "theirs"))
    assert f"qk-mcp projects add theirs:{main}/theirs" in client.run("where", project=f"{main}/theirs").refusal


def test_a_submodule_belongs_to_the_project_around_it_unless_it_has_tasks(
    client: Client, main: Path, add: Callable[..., Path]
) -> None:
    for name, source in {"bare": {"file": ""}, "own": {"_qk/__init__.py": SHOW}}.items():
        commit_all(make_project(main.parent / name, source))
        git(main, "submodule", "--quiet", "add", str(main.parent / name), f"vendor/{name}")
    git(main, "commit", "-qm", "submodules")
    assert _where(client.run("where", project=f"{main}/vendor/bare/file")) == str(main)
    assert f"qk-mcp projects add own:{main}/vendor/own" in client.run("where", project=f"{main}/vendor/own").refusal
    worktree = add("../feat")
    git(worktree, "submodule", "--quiet", "update", "--init")
    assert _where(client.run("where", project=f"{worktree}/vendor/bare")) == str(worktree)


def test_projects_below_the_top_of_one_repository(tmp_path: Path) -> None:
    top = make_project(tmp_path / "mono", {"web/_qk/__init__.py": SHOW, "api/_qk.py": SHOW, "README": ""})
    commit_all(top)
    git(top, "worktree", "add", "-q", "../feat")
    feat = tmp_path / "feat"
    with serving(tmp_path / "home", {"web": top / "web", "api": top / "api" / "_qk.py"}) as client:
        assert _where(client.run("where", project=f"{feat}/web")) == f"{feat}/web"
        assert _where(client.run("where", project=f"{feat}/api/_qk.py")) == f"{feat}/api"
        assert _where(client.run("where", project="api@feat")) == f"{feat}/api"
        assert "web@feat, api@feat" in client.run("where", project=f"{feat}/README").refusal
    with serving(tmp_path / "home", {"web": top / "web"}) as client:
        assert _where(client.run("where", project=str(feat))) == f"{feat}/web"


def test_the_worktrees_own_python_comes_first_and_the_main_checkouts_is_noted(
    client: Client, main: Path, add: Callable[..., Path]
) -> None:
    _environment(main / ".venv")
    worktree = add("../feat")
    borrowed = client.run("where", project="app@feat")
    assert borrowed.data["stdout"].splitlines() == [str(worktree), f"{main}/.venv"]
    assert f"from {main}, not from this worktree" in borrowed.data["note"]
    listed = client.call("list_tasks", project="app@feat").data[0]
    assert f"from {main}, not from this worktree" in listed["note"]
    _environment(worktree / ".venv")
    own = client.run("where", project="app@feat")
    assert own.data["stdout"].splitlines() == [str(worktree), f"{worktree}/.venv"]
    assert "note" not in own.data
    assert "note" not in client.call("list_tasks", project="app@feat").data[0]


def test_the_current_directory_may_be_a_worktree(tmp_path: Path, main: Path, add: Callable[..., Path]) -> None:
    worktree = add(".claude/worktrees/feat")
    config = tmp_path / "home" / ".config" / "qk-mcp" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[projects.app]\npath = "{main}"\nenv = {{ STAGE = "dev" }}\n')
    make_project(worktree, SHOW + "\n@task\ndef stage():\n    print(os.environ['STAGE'])\n")
    with serving(tmp_path / "home", None, cwd=worktree / "src") as client:
        assert _where(client.run("where")) == str(worktree)
        assert client.run("stage").data["stdout"] == "dev\n"


def test_the_command_line_selects_worktrees_too(tmp_path: Path, main: Path, add: Callable[..., Path]) -> None:
    qk_mcp = CommandLine(tmp_path / "home")
    worktree = add("../feat")
    for project in (worktree / "src", "app@feat"):
        outcome = qk_mcp("run", "--project", f"app:{main}", str(project), "where")
        assert outcome.stdout.splitlines()[0] == str(worktree)
    assert f"root     {worktree}" in qk_mcp("inspect", "--project", f"app:{main}", str(worktree)).stdout
