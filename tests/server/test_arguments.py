"""The arguments of a tool call: what is accepted, and how errors show the right form."""

from typing import Any

import pytest

from qk_mcp.errors import InvalidInput
from qk_mcp.server.arguments import check_names, parse_detail, parse_seconds, parse_text, parse_words
from qk_mcp.server.schemas import LIST_INPUT, RUN_INPUT

RUN, LIST = RUN_INPUT["properties"], LIST_INPUT["properties"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, []),
        ("", []),
        ("null", []),
        ([], []),
        (["--n", "3", ""], ["--n", "3", ""]),
        (["--n", 3, 1.5], ["--n", "3", "1.5"]),
        ('["--n", "3"]', ["--n", "3"]),
        ("--n 3 'a b'", ["--n", "3", "a b"]),
        ("[x", ["[x"]),
        ('"a b" c', ["a b", "c"]),
    ],
)
def test_words(value: Any, words: list[str]) -> None:
    assert parse_words({"args": value}, "args") == words


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ('{"n": 3}', '["--n", "3"]'),
        ({"--dry_run": "yes", "-n": 3, "b_c": 1}, '["--dry_run", "yes", "-n", "3", "--b-c", "1"]'),
        ({"dry_run": True}, '["--dry-run", "true"]'),
        ("3", '["3"]'),
        (3, '["3"]'),
        ("true", '["true"]'),
        ('[["--n", "3"]]', '["--count", "3", "name"]'),
        ([{"n": 3}], '["--count", "3", "name"]'),
        ([None], '["--count", "3", "name"]'),
        ("'open", '["--count", "3", "name"]'),
        ("a" * 1_000_000, '["--count", "3", "name"]'),
    ],
)
def test_other_values_are_refused_with_the_right_form(value: Any, form: str) -> None:
    with pytest.raises(InvalidInput) as failure:
        parse_words({"args": value}, "args")
    assert str(failure.value).startswith("parameter 'args': ")
    assert form in str(failure.value)


def test_a_nul_character_is_refused() -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        parse_words({"args": ["a\0b"]}, "args")


@pytest.mark.parametrize(("value", "seconds"), [(None, 60.0), ("", 60.0), (5, 5.0), ("2.5", 2.5)])
def test_seconds(value: Any, seconds: float) -> None:
    assert parse_seconds({"timeout": value}, "timeout", 60.0) == seconds


@pytest.mark.parametrize("value", [0, -1, "nan", "inf", True, "soon", [1], 10**400])
def test_other_seconds_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_seconds({"timeout": value}, "timeout", 60.0)


def test_text_and_detail() -> None:
    assert parse_text({"stdin": "x"}, "stdin") == "x"
    assert parse_text({"stdin": ""}, "stdin") is parse_text({"stdin": None}, "stdin") is parse_text({}, "stdin") is None
    assert [parse_detail({"detail": value}, "detail") for value in ("", None, "full")] == ["auto", "auto", "full"]
    with pytest.raises(InvalidInput):
        parse_text({"stdin": 5}, "stdin")
    with pytest.raises(InvalidInput, match="auto, full or short"):
        parse_detail({"detail": "long"}, "detail")


@pytest.mark.parametrize("name", ["toolCallId", "sessionId", "_sessionID", "chatInput", "requestId", "x"])
def test_names_that_clients_add_are_noted(name: str) -> None:
    assert repr(name) in check_names({name: 1}, RUN)
    assert repr(name) in check_names({name: 1}, LIST)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("task", "task_name"), ("timeout_ms", "timeout"), ("cwd", "project"), ("input", "stdin"), ("arguments", "args")],
)
def test_names_that_resemble_a_parameter_are_refused(name: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match=f"did you mean '{meant}'"):
        check_names({name: 1}, RUN)


def test_known_names_have_no_note() -> None:
    assert check_names(dict.fromkeys(RUN), RUN) == check_names({}, LIST) == ""


@pytest.mark.parametrize("text", ['["--grep", "a b"', r"\d+ C:\tmp", "[--grep a]"])
def test_text_that_a_shell_would_change_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="one string per command-line word"):
        parse_words({"args": text}, "args")
