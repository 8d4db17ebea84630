"""A quarter of a megabyte of the worst input takes each regular expression of the package milliseconds, not hours."""

import contextlib
import json
import re
import time
import tomllib
from collections.abc import Callable
from importlib import import_module
from itertools import product
from pathlib import Path

import pytest

import qk_mcp
from qk_mcp.clients.goose import read_goose_servers
from qk_mcp.clients.known import find_client
from qk_mcp.editing.files import CannotEdit
from qk_mcp.editing.json import set_key
from qk_mcp.editing.jsonc_text import read_jsonc
from qk_mcp.editing.toml_statements import line_numbers
from qk_mcp.errors import QkMcpError
from qk_mcp.projects.config import parse_config
from qk_mcp.projects.project import expand

_PART = 1 << 18
"""Characters of the input. A linear search takes milliseconds, a quadratic one minutes."""
_BOUND = 20.0
"""Seconds, on a busy machine."""

_PIECES = [
    "/", "/*", '"', '\\"', '"\\"', ",/**/", '"""\\', "''", "${a", " \n", "\n", " ", "\t", "\r", "a", "0", "%", "-", "_",
    "\\", "\\ud8", "\x1b", "\x1b[", "\x1b]", "\x1b[0;", "\x1b]8;", "\x90", "\x9b", "\x9d", "(a", "[a", "[(", "0x", "=",
    "{", "{a:", "[tool.", "__version__ ", '__version__="', "addsitedir('", "'''exec' \"", "quickie-runner-", "qk-mcp[",
    '"editable" ', "é", "\u200d", "\ufe0f", "\U0001f600",
]  # fmt: skip
_STARTS = ["", '"', "'''"]


_PACKAGE = Path(qk_mcp.__file__).parent
MODULES = [
    ".".join(file.relative_to(_PACKAGE.parent).with_suffix("").parts)
    for file in sorted(_PACKAGE.rglob("*.py"))
    if "re.compile(" in file.read_text(encoding="utf-8")
]
"""The modules with regular expressions."""


def _timed(function: Callable[[], object]) -> float:
    start = time.process_time()
    with contextlib.suppress(ValueError, RecursionError, CannotEdit, QkMcpError):
        function()
    return time.process_time() - start


@pytest.mark.long
@pytest.mark.parametrize("name", MODULES)
def test_every_expression_is_linear(name: str) -> None:
    expressions = [value for value in vars(import_module(name)).values() if isinstance(value, re.Pattern)]
    for expression, start, piece in product(expressions, _STARTS, _PIECES):
        text = start + piece * (_PART // len(piece))
        data = text.encode() if isinstance(expression.pattern, bytes) else text
        assert _timed(lambda: sum(1 for _ in expression.finditer(data))) < _BOUND, (expression, text[:20])  # noqa: B023


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
