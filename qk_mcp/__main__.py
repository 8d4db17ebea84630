"""Entry point of `qk-mcp` and of `python -m qk_mcp`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        if sys.argv[1:2] == ["__complete"]:  # without what the command line imports: somebody has pressed Tab
            from qk_mcp.cli.completion import run
        else:
            from qk_mcp.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # so early that there is nobody else to see it
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
