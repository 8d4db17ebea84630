"""Entry point of `qk-mcp` and of `python -m qk_mcp`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    from qk_mcp.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
