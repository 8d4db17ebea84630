"""Every test that asks for `python` runs with each version of quickie: those between the oldest and newest are long."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.projects import make_project
from tests.support.quickies import VERSIONS, quickie_python


@pytest.fixture(
    scope="session",
    params=[VERSIONS[0], *(pytest.param(version, marks=pytest.mark.long) for version in VERSIONS[1:-1]), VERSIONS[-1]],
)
def python(request: pytest.FixtureRequest) -> Path:
    """A Python with one version of quickie."""
    return quickie_python(request.config.cache, request.param)


@pytest.fixture(scope="session")
def newest(request: pytest.FixtureRequest) -> Path:
    """A Python with the newest quickie alone."""
    return quickie_python(request.config.cache, VERSIONS[-1])


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Make a project of the test's own."""

    def project(source: object, name: str = "project", **more: bool) -> Path:
        return make_project(tmp_path / name, source, **more)  # type: ignore[arg-type]

    return project
