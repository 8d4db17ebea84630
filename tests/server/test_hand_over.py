"""`qk_mcp.server.hand_over`: when a call is answered while its run goes on."""

import math

import pytest

from qk_mcp.server.hand_over import HandOver, plan_hand_over


@pytest.mark.parametrize(
    ("option", "client", "planned"),
    [
        (None, "codex-mcp-client", HandOver(55, 60)),
        (None, "claude-code", None),
        (None, "unknown", None),
        (20.0, "unknown", HandOver(20, 20)),
        (20.0, "codex-mcp-client", HandOver(20, 20)),
        (math.inf, "codex-mcp-client", None),
    ],
)
def test_the_option_wins_over_what_is_known(option: float | None, client: str, planned: HandOver | None) -> None:
    assert plan_hand_over(option, client) == planned
