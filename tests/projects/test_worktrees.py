"""What the files of git tell of checkouts, submodules and linked worktrees."""

from pathlib import Path

import pytest

from qk_mcp.projects.worktrees import Checkout, checkout_at, enclosing_checkouts, linked_worktrees
from tests.support.git import commit_all, git, needs_git
from tests.support.projects import make_project

pytestmark = needs_git


@pytest.fixture
def main(tmp_path: Path) -> Path:
    root = make_project(tmp_path / "main", {"deep/down/file": ""})
    commit_all(root)
    return root


def test_a_main_checkout_and_its_worktrees_share_a_repository(main: Path) -> None:
    git(main, "worktree", "add", "-q", "../feat")
    feat, repository = main.parent / "feat", main / ".git"
    assert checkout_at(main) == Checkout(main, repository)
    assert checkout_at(feat) == Checkout(feat, repository, worktree="feat")
    assert checkout_at(main / "deep") is None
    assert linked_worktrees(repository) == {"feat": feat}
    assert linked_worktrees(main / "nowhere") == {}


def test_checkouts_are_found_from_inside_out(main: Path) -> None:
    inner = main / "deep"
    git(inner, "init", "-q")
    assert [each.top for each in enclosing_checkouts(inner / "down" / "file")] == [inner, main]


def test_a_submodule_is_distinguished_from_a_nested_repository(main: Path) -> None:
    commit_all(make_project(main.parent / "lib", {"file": ""}))
    git(main, "submodule", "--quiet", "add", str(main.parent / "lib"), "lib")
    submodule = checkout_at(main / "lib")
    assert submodule == Checkout(main / "lib", main / ".git" / "modules" / "lib", submodule=True)
    commit_all(make_project(main / "embedded", {"file": ""}))
    embedded = checkout_at(main / "embedded")
    assert embedded is not None
    assert not embedded.submodule
    with (main / ".gitmodules").open("a") as modules:
        modules.write('[submodule "embedded"]\n\tpath = embedded\n\turl = ../embedded\n')
    embedded = checkout_at(main / "embedded")
    assert embedded is not None
    assert embedded.submodule, "a submodule may keep its repository inside"


def test_a_mark_that_is_not_gits_is_none(main: Path) -> None:
    (main / "deep" / ".git").write_bytes(b"\xff\xfe nonsense")
    assert checkout_at(main / "deep") is None
    (main / "deep" / ".git").write_text("gitdir: /gone/away\n")
    gone = checkout_at(main / "deep")
    assert gone == Checkout(main / "deep", Path("/gone/away"))
