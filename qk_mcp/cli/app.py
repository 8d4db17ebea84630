"""The command line: its commands, its exit codes, and how it reports a failure."""

import os
import sys
from typing import TextIO

from cyclopts import App, Group
from cyclopts.exceptions import CycloptsError

from qk_mcp import __version__
from qk_mcp.cli.ui.help import HelpFormatter, examples
from qk_mcp.cli.ui.messages import print_failure
from qk_mcp.errors import QkMcpError

__all__ = ["app", "run_app"]

app = App(
    name="qk-mcp",
    help="Let AI agents discover and run the tasks of your projects, over the Model Context Protocol.",
    version=f"qk-mcp {__version__}",
    version_flags=("--version", "-V"),
    suppress_keyboard_interrupt=False,
    help_format="plaintext",
    help_formatter=HelpFormatter(),
    group_parameters=Group("Options"),
    help_epilogue=examples("qk-mcp projects add app:~/code/app", "qk-mcp inspect app"),
)
# As strings, so that a command imports only what it needs itself.
app.command(
    "qk_mcp.cli.commands.serve:serve_command",
    name="serve",
    help_epilogue=examples("qk-mcp serve", "qk-mcp serve --project app:~/code/app --log-file ~/qk-mcp.log"),
)
app.command("qk_mcp.cli.commands.projects:projects", name="projects")
app.command(
    "qk_mcp.cli.commands.inspect:inspect_command",
    name="inspect",
    usage="Usage: qk-mcp inspect [OPTIONS] [PROJECT] [TASK]",
    help_epilogue=examples("qk-mcp inspect", "qk-mcp inspect app build"),
)
app.command(
    "qk_mcp.cli.commands.run:run_command",
    name="run",
    usage="Usage: qk-mcp run [OPTIONS] [PROJECT] TASK [ARGS...]",
    help_epilogue=examples("qk-mcp run app build --fast", "qk-mcp run --json test"),
)
app.command("qk_mcp.cli.commands.runs:runs", name="runs")
app.command(
    "qk_mcp.cli.commands.install:install",
    name="install",
    usage="Usage: qk-mcp install [OPTIONS] CLIENT",
    help_epilogue=examples("qk-mcp install cursor", "qk-mcp install claude-code --project app:~/code/app --write"),
)
app.command(
    "qk_mcp.cli.commands.uninstall:uninstall",
    name="uninstall",
    usage="Usage: qk-mcp uninstall [OPTIONS] CLIENT",
    help_epilogue=examples("qk-mcp uninstall cursor", "qk-mcp uninstall claude-code --name tasks"),
)
app.command(
    "qk_mcp.cli.commands.agents_md:agents_md",
    name="agents-md",
    help_epilogue=examples("qk-mcp agents-md", "qk-mcp agents-md >> AGENTS.md"),
)
app.command(
    "qk_mcp.cli.commands.doctor:doctor_command",
    name="doctor",
    help_epilogue=examples("qk-mcp doctor", "qk-mcp doctor --project app:~/code/app"),
)
app.command(
    "qk_mcp.cli.commands.help:help_command",
    name="help",
    usage="Usage: qk-mcp help [COMMAND...]",
    help_epilogue=examples("qk-mcp help", "qk-mcp help projects add"),
)
app.command(
    "qk_mcp.cli.commands.install_completion:install_completion",
    name="--install-completion",
    help_epilogue=examples("qk-mcp --install-completion", "qk-mcp --install-completion zsh"),
)


def run_app(argv: list[str]) -> int:
    """Run a command line and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    as_json = False
    try:
        _fill_standard_streams()
        typed, argv = argv, _with_command(argv)
        as_json = "--json" in argv[: argv.index("--") if "--" in argv else None]
        code = _dispatch(argv, implied=argv[:1] != typed[:1])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader needs no more
        code = 0
    except SystemExit as exit_:  # rich exits when it meets a broken pipe
        code = 0 if isinstance(exit_.__context__, BrokenPipeError) else 1
    except QkMcpError as failure:
        print_failure(failure, as_json=as_json)
        code = failure.exit_code
    except OSError as error:
        print_failure(QkMcpError(error.strerror or str(error), str(error.filename or "")), as_json=as_json)
        code = 1
    except KeyboardInterrupt:
        code = 130
    for stream in (sys.stdout, sys.stderr):
        _settle(stream)
    return code


def _dispatch(argv: list[str], *, implied: bool) -> int:
    """Run a command; `implied` means that the person did not type its name."""
    if argv and argv[0] in app.help_flags:
        app.resolved_commands()  # the list of commands shows the first line of each help
    if argv[0] not in ("serve", "run") and os.environ.get("COLUMNS", "").strip() == "0":
        del os.environ["COLUMNS"]  # some shells and editors set 0 for "unknown"
    if argv[0] != "serve" and hasattr(sys.stdout, "reconfigure"):  # it flushes, and `serve` must not write there
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        result = app(
            argv,
            result_action="return_value",
            exit_on_error=False,
            print_error=False,
        )
    except CycloptsError as error:
        from qk_mcp.cli.ui.usage_errors import usage_error

        raise usage_error(error, app, implied=implied) from None
    return result if isinstance(result, int) else 0


def _with_command(argv: list[str]) -> list[str]:
    """Return a command line that begins with a command: `serve` if it has none, except for the app's own options."""
    if not argv or (argv[0].startswith("-") and argv[0] not in app):
        return ["serve", *argv]
    if argv[0] == "run":
        from qk_mcp.cli.commands.run import shield_task

        return ["run", *shield_task(argv[1:], app["run"])]
    return argv


def _fill_standard_streams() -> None:
    """Open the null device for each closed standard stream, so that no other file gets its descriptor."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _settle(stream: TextIO) -> None:
    """Flush a stream, or drop what cannot be written, so that Python does not fail to write it when it exits."""
    try:
        stream.flush()
    except (OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
