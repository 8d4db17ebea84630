"""Runs the benchmark; see `tests/bench/__init__.py`."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence

from tests.bench.machine import look
from tests.bench.report import as_json, show
from tests.bench.scenarios import GROWTH, USUAL, choose, measure, within

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if an answer was wrong, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Compare the speed of qk-mcp with quickie's own server and with programs that do nothing.",
        epilog=f"Rows: {', '.join(USUAL)}; with --growth: {', '.join(GROWTH)}.",
    )
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each row (5)")
    parser.add_argument("--row", action="append", default=[], metavar="NAME", help="measure only this row; repeatable")
    parser.add_argument(
        "--growth", action="store_true", help="also measure 2,000 tasks, 50 projects and 100 simultaneous runs"
    )
    parser.add_argument(
        "--whole", action="store_true", help="let quickie's server print all 1,000,000 lines, once (takes many minutes)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with every figure")
    options = parser.parse_args(argv)
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    try:
        scenarios = choose(options.row, growth=options.growth)
    except KeyError as unknown:
        parser.error(f"there is no row {unknown}; rows: {', '.join(USUAL | GROWTH)}")
    before = look()
    rows = measure(scenarios, rounds=options.rounds, whole=options.whole)
    after = look()
    if options.row:
        rows = [row for row in rows if row.wrong or any(within(row.key, name) for name in options.row)]
    if options.json:
        print(json.dumps(as_json(rows, before, after, options.rounds), indent=2))
    else:
        show(rows, before, after, options.rounds)
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers end and projects are removed
    sys.exit(main())
