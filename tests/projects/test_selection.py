"""The search for tasks from a directory upward; `tests/integration/test_worktrees.py` has the selection by path."""

from pathlib import Path

from qk_mcp.projects.selection import tasks_above
from tests.support.git import git, needs_git
from tests.support.projects import make_project


def test_tasks_are_searched_from_a_directory_upward(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project", "")
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    assert tasks_above(deep) == tasks_above(root) == tasks_above(root / "_qk") == root / "_qk"
    make_project(root / "a", "", single_file=True)
    assert tasks_above(deep) == root / "a" / "_qk.py"
    assert tasks_above(Path("/nowhere")) is None


@needs_git
def test_the_top_of_a_repository_ends_the_search(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project", {"_qk.py": "", "nested/src/file": ""})
    git(root / "nested", "init", "-q")
    assert tasks_above(root / "nested" / "src") is None
    make_project(root / "nested", "", single_file=True)
    assert tasks_above(root / "nested" / "src") == root / "nested" / "_qk.py"
