"""The names of tools: accepted by clients, distinct, and independent of what else is a tool."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from qk_mcp.server.tool_names import tool_names

RESERVED = ("list_tasks", "run_task")


def test_a_task_gives_its_name_with_or_without_the_alias() -> None:
    tasks = [("shop", "test"), ("shop", "db:migrate")]
    assert tool_names(tasks, RESERVED, with_alias=False) == ["test", "db_migrate"]
    assert tool_names(tasks, RESERVED, with_alias=True) == ["shop-test", "shop-db_migrate"]


def test_the_task_that_is_written_so_keeps_a_name_that_two_would_have() -> None:
    both = tool_names([("a", "x:y"), ("a", "x_y")], RESERVED, with_alias=False)
    assert both[1] == "x_y"
    assert re.fullmatch("x_y-[0-9a-f]{4}", both[0])
    neither = tool_names([("a-b", "c"), ("a", "b-c")], RESERVED, with_alias=True)
    assert all(re.fullmatch("a-b-c-[0-9a-f]{4}", name) for name in neither)
    assert neither[0] != neither[1]


def test_our_own_tools_keep_their_names() -> None:
    (name,) = tool_names([("a", "run_task")], RESERVED, with_alias=False)
    assert re.fullmatch("run_task-[0-9a-f]{4}", name)


def test_a_long_name_is_the_same_whatever_else_is_a_tool() -> None:
    long = ("alias", "x" * 60)
    (alone,) = tool_names([long], RESERVED, with_alias=True)
    assert alone in tool_names([("alias", "x" * 61), long], RESERVED, with_alias=True)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=50)), unique=True, max_size=20), st.booleans())
def test_names_are_distinct_and_acceptable(tasks: list[tuple[str, str]], with_alias: bool) -> None:
    tasks = [(alias, task or "task") for alias, task in tasks]
    names = tool_names(list(dict.fromkeys(tasks)), RESERVED, with_alias=with_alias)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,40}", name) for name in names)
