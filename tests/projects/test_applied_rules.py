"""Which rules apply to a project that is declared more than once."""

import os
from dataclasses import replace
from pathlib import Path

from qk_mcp.projects.applied_rules import apply_rules
from qk_mcp.projects.project import Project
from qk_mcp.projects.rules import Rules, decide
from tests.support.projects import make_project

DENY = Rules(deny=("deploy",), origin="config")


def _refuses(project: Project, others: list[Project], common: Rules | None = None) -> bool:
    return decide(apply_rules([project], others, common or Rules())[0].rules, ["deploy"]).decision == "refuse"


def test_every_alias_of_the_same_tasks_has_the_rules_of_all(tmp_path: Path) -> None:
    root = make_project(tmp_path / "shop", "")
    strict = Project(alias="strict", path=root, rules=DENY)
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "_qk").symlink_to(root / "_qk")
    paths = [
        root,
        root / "_qk",
        root / "_qk" / "__init__.py",
        tmp_path / "link",
        tmp_path / "other",
        root / "." / ".." / "shop",
    ]
    for path in paths:
        assert _refuses(Project(alias="loose", path=path), [strict])
    worktree = Project(alias="loose@x", path=make_project(tmp_path / "tree", ""), main_root=root)
    assert _refuses(worktree, [strict])


def test_other_tasks_keep_their_own_rules(tmp_path: Path) -> None:
    root = make_project(tmp_path / "shop", {"_qk.py": "", "more.py": ""})
    strict = Project(alias="strict", path=root, rules=DENY)
    gone = Project(alias="gone", path=tmp_path / "gone", rules=DENY)
    for path in (make_project(tmp_path / "web", ""), root / "more.py", tmp_path / "gone"):
        loose = Project(alias="loose", path=path)
        assert apply_rules([loose], [strict, gone, loose], Rules())[0] is loose


def test_a_path_that_leads_elsewhere_gets_the_rules_of_that_place(tmp_path: Path) -> None:
    root, web = make_project(tmp_path / "shop", ""), make_project(tmp_path / "web", "")
    strict = Project(alias="strict", path=root, rules=DENY)
    link = tmp_path / "link"
    link.symlink_to(web)
    loose = Project(alias="loose", path=link)
    assert not _refuses(loose, [strict])
    link.unlink()
    link.symlink_to(root)
    assert _refuses(loose, [strict])


def test_a_hard_link_to_a_module_is_the_same_module(tmp_path: Path) -> None:
    root = make_project(tmp_path / "shop", {"_qk.py": ""})
    copy = make_project(tmp_path / "copy", {"file": ""})
    os.link(root / "_qk.py", copy / "_qk.py")
    assert _refuses(Project(alias="loose", path=copy), [Project(alias="strict", path=root, rules=DENY)])


def test_the_rules_of_the_command_line_are_for_every_project(tmp_path: Path) -> None:
    root = make_project(tmp_path / "shop", "")
    common = replace(DENY, origin="the server's command line")
    own = Project(alias="shop", path=root, rules=Rules(allow=("*",), origin="config"))
    assert _refuses(Project(alias="web", path=tmp_path), [], common)
    assert _refuses(own, [own], common)
