"""The project's own tasks: `qk test`, or an agent's run_task("test")."""

import sys

from quickie import command, group

PYTHON = sys.executable


@command(extra_args=True)
def test(*args: str) -> list[str]:
    """Run the tests; arguments go to pytest."""
    return [PYTHON, "-m", "pytest", *args]


@command(extra_args=True)
def lint(*args: str) -> list[str]:
    """Check the code with ruff; try `--fix`."""
    return [PYTHON, "-m", "ruff", "check", *args]


@command(name="format", extra_args=True)
def format_code(*args: str) -> list[str]:
    """Format the code with ruff."""
    return [PYTHON, "-m", "ruff", "format", *args]


@command(extra_args=True)
def types(*args: str) -> list[str]:
    """Check the types with mypy."""
    return [PYTHON, "-m", "mypy", *args]


@command
def completions() -> list[str]:
    """Generate the shell completions."""
    return [PYTHON, "-m", "qk_mcp.cli.completion.table"]


@command
def picture() -> list[str]:
    """Draw the README's picture again."""
    return [PYTHON, "-m", "tests.picture"]


@command
def reference() -> list[str]:
    """Write the generated parts of the documents."""
    return [PYTHON, "-m", "tests.reference"]


@command(extra_args=True)
def bench(*args: str) -> list[str]:
    """Compare the speed with quickie's own server."""
    return [PYTHON, "-m", "tests.bench", *args]


@group
def check():
    """Run lint, types and tests."""
    return [lint, types, test]
