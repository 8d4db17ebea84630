"""Entry point of `qk-mcp` and of `python -m qk_mcp`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from qk_mcp.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # so early that there is nobody else to see it
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
