"""The schemas and texts of the tools, as strict clients and models need them."""

from collections.abc import Iterator
from typing import Any

import pytest

from qk_mcp.server.schemas import (
    GET_RUN_INPUT,
    GET_RUN_OUTPUT,
    LIST_INPUT,
    LIST_OUTPUT,
    RUN_INPUT,
    RUN_OUTPUT,
    STOP_RUN_INPUT,
)
from tests.conftest import Demo

INPUTS = {"list_tasks": LIST_INPUT, "run_task": RUN_INPUT, "get_run": GET_RUN_INPUT}


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for part in [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]:
        if part:
            yield from _parts(part)


@pytest.mark.parametrize(
    "schema", [LIST_INPUT, LIST_OUTPUT, RUN_INPUT, RUN_OUTPUT, GET_RUN_INPUT, GET_RUN_OUTPUT, STOP_RUN_INPUT]
)
def test_each_schema_has_one_type_or_alternatives(schema: dict[str, Any]) -> None:
    for part in _parts(schema):
        assert isinstance(part.get("type"), str) or part["anyOf"], part


@pytest.mark.parametrize("tool", INPUTS)
def test_descriptions_state_what_a_missing_parameter_means(tool: str) -> None:
    """Some clients remove `default` from the schemas."""
    for name, parameter in INPUTS[tool]["properties"].items():
        assert name in INPUTS[tool].get("required", ()) or "left out" in parameter["description"].lower()
    assert "60 when left out" in RUN_INPUT["properties"]["timeout"]["description"]


@pytest.mark.parametrize("value", ["", None])
def test_every_optional_parameter_may_be_empty(demo: Demo, value: str | None) -> None:
    client = demo("from quickie import task\n@task\ndef hello(): print('hello')\n")
    for tool, schema in INPUTS.items():
        optional = dict.fromkeys(set(schema["properties"]) - set(schema.get("required", ())), value)
        assert not client.call(tool, **({"task_name": "hello"} if tool == "run_task" else {}), **optional).is_error
