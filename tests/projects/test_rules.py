"""What rules decide."""

import pytest

from qk_mcp.projects.rules import RULE_KEYS, Rules, combine_rules, decide, glob_fault, matches_exactly, matches_loosely

CONFIG = "/config.toml"


def test_each_key_is_a_rule_and_allows_everything_by_default() -> None:
    rules = Rules()
    assert {key for key in RULE_KEYS if not hasattr(rules, key)} == set()
    assert (rules.allow, rules.deny, rules.confirm, rules.max_timeout, rules.log_args) == (None, (), (), None, True)
    assert decide(rules, ["anything"]).decision == "run"


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("deploy", ["deploy"]),
        ("deploy*", ["deploy:now"]),
        ("db:*", ["db:migrate"]),
        ("db:*", ["migrate", "db:migrate"]),
        ("deploy", ["ship", "deploy"]),
        ("deploy", ["DEPLOY"]),
        ("Deploy", ["deploy"]),
        ("deploy", [" deploy\t"]),
        ("deploy now", ["deploy\u00a0now"]),
        ("café", ["cafe\u0301"]),
        ("cafe\u0301", ["café"]),
        ("deploy", ["\uff44eploy"]),
        ("straße", ["STRASSE"]),
        ("deploy", ["de\u200bploy"]),
        ("deploy", ["de\u00adploy"]),
        ("build[x]", ["build[x]"]),
        ("de?loy", ["deploy"]),
        ("[de]*", ["deploy"]),
    ],
)
def test_deny_and_confirm_match_each_name_in_any_spelling(glob: str, names: list[str]) -> None:
    assert decide(Rules(deny=(glob,)), names).decision == "refuse"
    assert decide(Rules(confirm=(glob,)), names).decision == "ask"


@pytest.mark.parametrize("names", [["test"], ["unit", "test"], ["cafe\u0301"], ["lint:fix"], ["build[x]"]])
def test_allow_includes_a_task_by_any_of_its_names(names: list[str]) -> None:
    assert decide(Rules(allow=("test", "lint*", "café", "build[x]")), names).decision == "run"


@pytest.mark.parametrize("name", ["Test", "test ", "tests", "\uff54est", "te\u200bst", ""])
def test_allow_needs_the_exact_name(name: str) -> None:
    assert decide(Rules(allow=("test",)), [name]).decision == "refuse"


def test_deny_wins_and_is_named() -> None:
    rules = Rules(allow=("deploy", "test"), deny=("x", "deploy*"), confirm=("*",), origin=CONFIG)
    assert decide(rules, ["deploy"]).rule == f'deny = "deploy*" in {CONFIG}'
    assert decide(rules, ["lint"]).rule == f'allow = ["deploy", "test"] in {CONFIG} does not include it'
    assert decide(rules, ["test"]).rule == f'confirm = "*" in {CONFIG}'
    assert decide(Rules(allow=()), ["test"]).decision == "refuse"


def test_combined_rules_are_the_strictest_of_all() -> None:
    own = Rules(allow=("a*",), redact=None, exclusive=("build",), max_timeout=60.0, origin="one")
    other = Rules(allow=("*b",), redact=("X_*",), exclusive=("test",), max_timeout=30.0, log_args=False, origin="two")
    combined = combine_rules(own, [other, Rules(deny=("axb",), origin="three"), Rules(), own, other])

    assert combine_rules(own, [Rules(), own]) is own
    assert (combined.redact, combined.max_timeout, combined.log_args) == (("X_*",), 30.0, False)
    assert combined.exclusive == ("build", "test")
    assert decide(combined, ["ab"]).decision == "run"
    assert decide(combined, ["ac"]).rule == 'allow = ["*b"] in two does not include it'
    assert decide(combined, ["cb"]).rule == 'allow = ["a*"] in one does not include it'
    assert decide(combined, ["axb"]).rule == 'deny = "axb" in three'
    assert len(combine_rules(Rules(), [combined, combined]).also) == 3


def test_globs_have_bounds() -> None:
    assert (glob_fault("deploy*"), bool(glob_fault("")), bool(glob_fault("[" * 301))) == ("", True, True)


def test_matching_is_exact_or_loose() -> None:
    assert matches_exactly(["te?t"], ["test"])
    assert not matches_exactly(["te?t"], ["Test"])
    assert matches_loosely(["te?t"], ["Test"])
