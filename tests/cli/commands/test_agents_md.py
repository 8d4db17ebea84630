"""`qk-mcp agents-md`: a section for an AGENTS.md."""

import json
import re

import jsonschema
import pytest

from qk_mcp.server.schemas import LIST_INPUT, RUN_INPUT, RUN_OUTPUT
from tests.support.cli import CommandLine


@pytest.mark.long
def test_the_section_is_short_and_names_what_the_server_has(qk_mcp: CommandLine) -> None:
    done = qk_mcp("agents-md")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith("## Tasks\n")
    assert len(done.stdout.splitlines()) <= 12
    schemas = (LIST_INPUT, RUN_INPUT, RUN_OUTPUT)
    known = {"qk-mcp", "list_tasks", "run_task", "get_run", "stop_run"}.union(
        *(schema["properties"] for schema in schemas)
    )
    named = re.findall(r"`([^`]+)`", done.stdout)
    calls = [json.loads(text) for text in named if text.startswith("{")]
    assert {text for text in named if not text.startswith("{")} <= known
    assert calls
    for call in calls:
        jsonschema.validate(call, RUN_INPUT)
