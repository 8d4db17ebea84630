"""Fixtures for the command line."""

from pathlib import Path

import pytest

from tests.support.cli import CommandLine


@pytest.fixture
def qk_mcp(tmp_path: Path) -> CommandLine:
    """The command line of a user whose home is new."""
    return CommandLine(tmp_path / "home")
