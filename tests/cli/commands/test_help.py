"""`qk-mcp help COMMAND`."""

import pytest

from tests.support.cli import CommandLine


@pytest.mark.parametrize("command", ["", "run", "projects", "projects add", "help"])
def test_help_shows_what_the_option_shows(qk_mcp: CommandLine, command: str) -> None:
    words = command.split()
    shown = qk_mcp("help", *words)
    assert (shown.code, shown.stderr) == (0, "")
    assert shown == qk_mcp(*words, "--help")


def test_help_of_an_unknown_command_names_the_nearest(qk_mcp: CommandLine) -> None:
    done = qk_mcp("help", "projects", "ad")
    assert (done.code, done.stdout) == (2, "")
    assert "qk-mcp projects has no command 'ad'" in done.stderr
    assert "did you mean qk-mcp projects add?" in done.stderr
