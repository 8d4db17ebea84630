"""The command line: its commands, its exit codes, and what becomes of a failure."""

import os
import sys
from typing import TextIO

from cyclopts import App, Group
from cyclopts.exceptions import CycloptsError

from qk_mcp import __version__
from qk_mcp.cli.ui.help import HelpFormatter, examples
from qk_mcp.cli.ui.messages import tell
from qk_mcp.errors import QkMcpError

__all__ = ["app", "run"]

app = App(
    name="qk-mcp",
    help="Let AI agents discover and run the tasks of your projects, over the Model Context Protocol.",
    version=f"qk-mcp {__version__}",
    suppress_keyboard_interrupt=False,
    help_format="plaintext",
    help_formatter=HelpFormatter(),
    group_parameters=Group("Options"),
    help_epilogue=examples("qk-mcp projects add app:~/code/app", "qk-mcp inspect app"),
)
# By name, so that a command pays only for its own imports.
app.command(
    "qk_mcp.cli.commands.serve:serve",
    name="serve",
    help_epilogue=examples("qk-mcp serve", "qk-mcp serve --project app:~/code/app --log-file ~/qk-mcp.log"),
)
app.command("qk_mcp.cli.commands.projects:projects", name="projects")
app.command(
    "qk_mcp.cli.commands.inspect:inspect",
    name="inspect",
    usage="Usage: qk-mcp inspect [OPTIONS] [PROJECT] [TASK]",
    help_epilogue=examples("qk-mcp inspect", "qk-mcp inspect app build"),
)
app.command(
    "qk_mcp.cli.commands.run:run",
    name="run",
    usage="Usage: qk-mcp run [OPTIONS] [PROJECT] TASK [ARGS...]",
    help_epilogue=examples("qk-mcp run app build --fast", "qk-mcp run --json test"),
)
app.command(
    "qk_mcp.cli.commands.install:install",
    name="install",
    usage="Usage: qk-mcp install [OPTIONS] CLIENT",
    help_epilogue=examples("qk-mcp install cursor", "qk-mcp install claude-code --project app:~/code/app --write"),
)
app.command(
    "qk_mcp.cli.commands.install:uninstall",
    name="uninstall",
    usage="Usage: qk-mcp uninstall [OPTIONS] CLIENT",
    help_epilogue=examples("qk-mcp uninstall cursor", "qk-mcp uninstall claude-code --name tasks"),
)
app.command(
    "qk_mcp.cli.commands.doctor:doctor",
    name="doctor",
    help_epilogue=examples("qk-mcp doctor", "qk-mcp doctor --project app:~/code/app"),
)
app.command(
    "qk_mcp.cli.completion.install:install_completion",
    name="--install-completion",
    help_epilogue=examples("qk-mcp --install-completion", "qk-mcp --install-completion zsh"),
)


def run(argv: list[str]) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        _fill_standard_streams()
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has all that it wanted
        code = 0
    except SystemExit as leaving:  # rich leaves so when its reader has
        code = 0 if isinstance(leaving.__context__, BrokenPipeError) else 1
    except QkMcpError as failure:
        tell(failure)
        code = failure.exit_code
    except OSError as error:
        tell(QkMcpError(error.strerror or str(error), str(error.filename or "")))
        code = 1
    except KeyboardInterrupt:
        code = 130
    for stream in (sys.stdout, sys.stderr):
        _settle(stream)
    return code


def _run(argv: list[str]) -> int:
    if argv and argv[0] in app.help_flags:
        app.resolved_commands()  # their first lines stand in the list
    argv = _with_command(argv)
    if argv[0] not in ("serve", "run") and os.environ.get("COLUMNS", "").strip() == "0":
        del os.environ["COLUMNS"]  # some shells and editors say so for "unknown"
    if argv[0] != "serve" and hasattr(sys.stdout, "reconfigure"):  # it flushes: what lies there must not reach a client
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        result = app(
            argv,
            result_action="return_value",
            exit_on_error=False,
            print_error=False,
        )
    except CycloptsError as error:
        from qk_mcp.cli.ui.usage_errors import explain

        raise explain(error) from None
    return result if isinstance(result, int) else 0


def _with_command(argv: list[str]) -> list[str]:
    """Put `serve` in front of a command line without a command; `--help` and its like belong to the app."""
    if not argv or (argv[0].startswith("-") and argv[0] not in app):
        return ["serve", *argv]
    if argv[0] == "run":
        from qk_mcp.cli.commands.run import shield_task

        return ["run", *shield_task(argv[1:], app["run"])]
    return argv


def _fill_standard_streams() -> None:
    """Put the null device where a standard stream is closed, so that no file of ours takes its place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _settle(stream: TextIO) -> None:
    """Leave nothing in a stream that Python would try, and fail, to write when it ends."""
    try:
        stream.flush()
    except (OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
