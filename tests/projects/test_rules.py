"""What rules decide."""

from qk_mcp.projects.rules import RULE_KEYS, Rules


def test_each_key_is_a_rule_and_allows_everything_by_default() -> None:
    rules = Rules()
    assert {key for key in RULE_KEYS if not hasattr(rules, key)} == set()
    assert (rules.allow, rules.deny, rules.confirm, rules.max_timeout, rules.log_args) == (None, (), (), None, True)
