"""What rules mean for tasks, in words."""

from dataclasses import replace

import pytest

from qk_mcp.projects.rules import Rules
from qk_mcp.tasks.catalog import Task
from qk_mcp.tasks.rule_effects import HIDDEN, rule_effects, unused_rules

TASK = Task(name="db:migrate", aliases=("mig",), short_help="", help="", usage="", location=None, args=())


@pytest.mark.parametrize(
    ("rules", "effects"),
    [
        (Rules(), ()),
        (Rules(deny=("DB:*",), confirm=("mig",)), HIDDEN),
        (Rules(allow=("test",)), HIDDEN),
        (Rules(allow=("mig",), read_only=("db:*",)), ("read only",)),
        (Rules(also=(Rules(deny=("mig",)),)), HIDDEN),
        (Rules(confirm=("m*",), tools=("*",), exclusive=("mig",)), ("asks a person", "own tool", "one at a time")),
        (Rules(tools=("MIG",)), ()),
    ],
)
def test_each_rule_has_its_words(rules: Rules, effects: tuple[str, ...]) -> None:
    assert rule_effects(rules, TASK) == effects


def test_globs_without_a_task_are_named() -> None:
    tasks = [TASK, replace(TASK, name="deploy", aliases=())]
    assert [*unused_rules(Rules(deny=("deploy", "db:*", "MIG"), allow=("*",)), tasks)] == []
    assert [*unused_rules(Rules(deny=("depoly",), tools=("MIG", "xyz")), tasks)] == [
        "deny has 'depoly', which matches no task; did you mean 'deploy'?",
        "tools has 'MIG', which matches no task; did you mean 'mig'?",
        "tools has 'xyz', which matches no task",
    ]
