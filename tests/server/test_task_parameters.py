"""The schema of a task's tool: plain types, true to the parser, bounded."""

import argparse
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from qk_mcp.errors import InvalidInput
from qk_mcp.server.argument_vector import argument_vector
from qk_mcp.server.task_parameters import input_schema, task_parameters
from qk_mcp.tasks.catalog import parse_report
from tests.support.parsers import RESERVED, make, task_of


def schema_of(*arguments: Any, extra: bool = False) -> dict[str, Any]:
    parameters, takes_extra = task_parameters(task_of(make(*arguments), extra=extra), RESERVED)
    schema = input_schema(parameters, takes_extra, {"timeout": {"type": "number"}})
    Draft202012Validator.check_schema(schema)
    return schema


def property_of(*argument: Any) -> dict[str, Any]:
    """Return the schema of the only parameter, without its description."""
    (schema, _) = schema_of(argument)["properties"].values()
    return {key: value for key, value in schema.items() if key != "description"}


@pytest.mark.parametrize(
    ("argument", "schema"),
    [
        (("--x", {}), {"type": "string"}),
        (("--x", {"type": int, "default": 3}), {"type": "integer", "default": 3}),
        (("--x", {"type": float}), {"type": "number"}),
        (("--x", {"choices": ["a", "b"]}), {"type": "string", "enum": ["a", "b"]}),
        (("--x", {"type": int, "choices": [1, 2]}), {"type": "integer", "enum": [1, 2]}),
        (("--x", {"action": "store_true"}), {"type": "boolean"}),
        (("--x", {"action": argparse.BooleanOptionalAction, "default": True}), {"type": "boolean", "default": True}),
        (("--x", {"action": "count"}), {"type": "integer", "minimum": 0}),
        (("--x", {"action": "append"}), {"type": "array", "items": {"type": "string"}}),
        (("--x", {"nargs": 2}), {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}),
        (("--x", {"nargs": "?"}), {"type": "array", "items": {"type": "string"}, "maxItems": 1}),
        (("x", {"nargs": "+", "type": int}), {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        (("x", {"nargs": "?"}), {"type": "string"}),
        (("--x", {"type": int, "choices": range(1_000)}), {"type": "integer"}),
    ],
)
def test_the_schema_of_an_argument(argument: Any, schema: dict[str, Any]) -> None:
    assert property_of(*argument) == schema


def test_names_come_from_flags_and_never_hide_the_tools_own() -> None:
    schema = schema_of(("--dry-run", {}), ("-n", {"dest": "count"}), ("--timeout", {}), ("--no-color", {"dest": "c"}))
    assert list(schema["properties"]) == ["dry_run", "count", "task_timeout", "no_color", "timeout"]


def test_descriptions_have_the_flags_the_help_and_the_default() -> None:
    schema = schema_of(("-j", "--jobs", {"type": int, "default": 2, "help": "How many"}))
    assert schema["properties"]["jobs"]["description"] == "-j, --jobs: How many Default: 2."


def test_what_cannot_be_expressed_goes_through_extra_args() -> None:
    assert "extra_args" not in schema_of(("--x", {}))["properties"]
    assert "extra_args" in schema_of(("--x", {}), extra=True)["properties"]
    many: list[Any] = [(f"--x{number}", {}) for number in range(60)]
    assert len(schema_of(*many)["properties"]) == 52
    assert "extra_args" in schema_of(*many)["properties"]
    hidden = schema_of(("a", {"help": argparse.SUPPRESS}), ("b", {}))
    assert list(hidden["properties"]) == ["extra_args", "timeout"]


def test_the_schema_is_bounded() -> None:
    schema = schema_of(("--x", {"help": "h" * 5_000, "choices": ["c" * 500] * 50, "default": "d" * 5_000}))
    assert len(json.dumps(schema)) < 1_500


@given(
    st.lists(
        st.fixed_dictionaries(
            {"dest": st.sampled_from(["x", "", "a b", "--x"])},
            optional={
                "flags": st.lists(st.sampled_from(["x", "--x", "-", "", "--no-x", "=", "--a=b"]), max_size=3),
                "action": st.sampled_from(["store", "switch", "count", "boolean", "append", "extend", "command", "?"]),
                "nargs": st.sampled_from([None, 0, 1, -1, 10**12, "?", "*", "+", "...", "A...", "!", True]),
                "number": st.sampled_from(["int", "float", "?", None]),
                "choices": st.none() | st.lists(st.none() | st.integers() | st.text(max_size=3), max_size=3),
                "default": st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
                "required": st.booleans(),
            },
        ),
        max_size=3,
    )
)
def test_no_report_of_a_guest_makes_it_fail(args: list[dict[str, Any]]) -> None:
    (task,) = parse_report({"tasks": [{"name": "task", "args": args}]}, Path("/")).tasks
    parameters, extra = task_parameters(task, RESERVED)
    schema = input_schema(parameters, extra, {})
    Draft202012Validator.check_schema(schema)
    with suppress(InvalidInput):
        argument_vector(parameters, task.syntax, {parameter.name: ["a"] for parameter in parameters})
