"""A megabyte of the worst input for the regular expressions that read users' files takes about a second, not hours."""

import contextlib
import json
import re
import time
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import qk_mcp.editing.json as json_module
import qk_mcp.editing.toml as toml_module
import qk_mcp.projects.project as project_module
from qk_mcp.clients.goose import read_goose_servers
from qk_mcp.clients.known import find_client
from qk_mcp.editing.files import CannotEdit
from qk_mcp.editing.json import read_jsonc, set_key
from qk_mcp.editing.toml import line_numbers
from qk_mcp.errors import QkMcpError
from qk_mcp.projects.config import parse_config
from qk_mcp.projects.project import expand

_SIZE = 1 << 20
_PART = _SIZE // 4
"""The same for what is done to the matches, in every run of the tests."""

_BOUND = 20.0
"""Seconds, on a busy machine. A quadratic search takes hours."""

_PIECES = ["/", "/*", '"', '\\"', '"\\"', ",/**/", '"""\\', "''", "${a", " \n"]
_STARTS = ["", '"', "'''"]


def _timed(function: Callable[[], object]) -> float:
    start = time.process_time()
    with contextlib.suppress(ValueError, RecursionError, CannotEdit, QkMcpError):
        function()
    return time.process_time() - start


def _expressions() -> list[re.Pattern[str]]:
    modules = (json_module, toml_module, project_module)
    return [value for module in modules for value in vars(module).values() if isinstance(value, re.Pattern)]


@pytest.mark.long
@pytest.mark.parametrize("expression", _expressions(), ids=lambda expression: expression.pattern[:20])
def test_every_expression_is_linear(expression: re.Pattern[str]) -> None:
    for start, piece in product(_STARTS, _PIECES):
        text = start + piece * (_SIZE // len(piece))
        assert _timed(lambda: sum(1 for _ in expression.finditer(text))) < _BOUND, text[:20]  # noqa: B023 -- called here


@pytest.mark.parametrize(
    "text",
    [
        "{" + "/" * _PART,
        '{"a": 1,' + "// http://example.com\n" * (_PART // 22),
        '{"a": 1,' + "/**/" * (_PART // 4),
        '{"a": 1,' + "/*" * (_PART // 2),
        '{"a": "' + '\\"' * (_PART // 2),
        '{"a": [' + "1,/**/" * (_PART // 6) + "]}",
        '{"a": 1' + "," * _PART,
    ],
    ids=lambda text: text[:16],
)
def test_json_with_comments_is_read_in_linear_time(text: str) -> None:
    assert _timed(lambda: read_jsonc(text)) < _BOUND
    assert _timed(lambda: set_key(text, ("b", "c"), {})) < _BOUND


def test_a_large_config_is_read_in_linear_time() -> None:
    text = "".join(f"[projects.a{number}]\npath = '/x'\n" for number in range(_PART // 32))
    assert len(tomllib.loads(text)["projects"]) == _PART // 32
    assert _timed(lambda: line_numbers(text)) < _BOUND
    twice = json.dumps("(at " * (_PART // 4))
    assert _timed(lambda: parse_config(Path("x.json"), f"{{{twice}: 1, {twice}: 2}}")) < _BOUND
    assert _timed(lambda: parse_config(Path("x.toml"), "a = 1 (at " * (_PART // 10))) < _BOUND


@pytest.mark.parametrize("piece", [" ", "\n", " \n", "  a:\n", "    args:\n", "    - ", "    args: [", "-"])
def test_yaml_is_read_in_linear_time(piece: str) -> None:
    text = "extensions:\n" + piece * (_PART // len(piece))
    assert _timed(lambda: read_goose_servers(text, "extensions")) < _BOUND
    assert _timed(lambda: read_goose_servers(text + "x", "extensions")) < _BOUND


@pytest.mark.parametrize("piece", ["$", "${", "${a", "$a", "-_ ", "  "])
def test_paths_and_names_are_read_in_linear_time(piece: str) -> None:
    text = piece * (_PART // len(piece))
    assert _timed(lambda: expand("/" + text, None, {"a": "b"})) < _BOUND
    assert _timed(lambda: find_client(text)) < _BOUND
