"""`qk-mcp help`: shows what `--help` shows."""

from typing import Annotated

from cyclopts import Parameter

__all__ = ["help_command"]


def help_command(*command: Annotated[str, Parameter(name="COMMAND")]) -> None:
    """Show the help of a command, as COMMAND --help does.

    Parameters
    ----------
    command
        The words of the command; without them, all commands are listed.
    """
    from qk_mcp.cli.app import app

    app.resolved_commands()  # as for `--help`: the list shows the first line of each help
    app([*command, "--help"], result_action="return_value", exit_on_error=False, print_error=False)
