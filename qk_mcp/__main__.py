"""Entry point of `qk-mcp` and of `python -m qk_mcp`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        import fcntl  # noqa: F401  # every command needs it; here, its absence gets a message
    except ImportError:
        sys.exit("error: qk-mcp does not run on Windows itself; install and run it in WSL")
    try:
        if sys.argv[1:2] == ["__complete"]:  # Tab was pressed: skip the imports of the command line
            from qk_mcp.cli.completion.scripts import answer_shell

            code = answer_shell(sys.argv[1:])
        else:
            from qk_mcp.cli.app import run_app

            code = run_app(sys.argv[1:])
    except KeyboardInterrupt:  # too early for the command line to handle it
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
