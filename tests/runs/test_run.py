"""When the stop of a run begins."""

from pathlib import Path

import pytest

from qk_mcp.runs.run import Request


@pytest.mark.parametrize(
    ("timeout", "grace", "begins"),
    [(None, 0.5, None), (9, 5, 9), (60, 0.5, 58.5), (60, 0, 58.5), (60, 10.5, 48.5), (60, 600, 30)],
)
def test_a_long_timeout_includes_the_stop(timeout: float | None, grace: float, begins: float | None) -> None:
    request = Request(task="work", timeout=timeout, bounds_call=True, grace=grace, outputs=Path())
    assert request.limit == begins
