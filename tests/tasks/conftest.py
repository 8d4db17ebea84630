"""Fixtures for tests of descriptions."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from qk_mcp.interpreters.plan import resolve
from qk_mcp.projects.project import Project
from qk_mcp.tasks.catalog import Catalog
from qk_mcp.tasks.describe import describe
from tests.support.environment import scrubbed
from tests.support.projects import make_project

type Describe = Callable[..., Catalog]


@pytest.fixture
def described(tmp_path: Path) -> Describe:
    """Write a project and describe it with a real guest; raise `ProjectBroken` if it cannot be loaded."""

    def write_and_describe(source: str | Mapping[str, str], seconds: float = 15.0) -> Catalog:
        root = make_project(tmp_path / "project", source)
        project = Project(alias="app", path=root, python=sys.executable)

        async def work() -> Catalog:
            async with asyncio.timeout(60):
                return (await describe(resolve(project, scrubbed(tmp_path / "home")), seconds)).catalog()

        return asyncio.run(work())

    return write_and_describe
