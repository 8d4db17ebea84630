"""The instructions name the projects, within bounds."""

from pathlib import Path

import pytest

from qk_mcp.projects.project import Project
from qk_mcp.projects.registry import Registry
from qk_mcp.projects.served import ServedProjects
from qk_mcp.server.instructions import server_instructions


@pytest.mark.parametrize("length", [1, 10, 60])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 100, 2_000])
def test_the_instructions_are_bounded_and_name_projects(count: int, length: int) -> None:
    projects = tuple(Project(alias=f"{'x' * length}{number}", path=Path("/")) for number in range(count))
    text = server_instructions(ServedProjects(Registry(projects, projects[0] if count == 1 else None)))
    assert len(text) <= 1_500
    assert all(word in text for word in ("list_tasks", "run_task"))
    shown = [project for project in projects if repr(project.alias) in text]
    assert len(shown) == count or f"and {count - len(shown)} more" in text
    assert shown or not count
