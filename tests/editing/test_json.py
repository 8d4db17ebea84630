"""An edit of a JSON text changes its own key and not one byte more."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qk_mcp.editing.json import CannotEdit, drop, put, read_lenient

_ENTRY = {"command": "/usr/bin/python", "args": ["-m", "qk_mcp"]}

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(_texts, _values, max_size=4)


@st.composite
def _documents(draw: st.DrawFn) -> str:
    """JSON as people and programs write it: on one line, indented by whatever, with any line end."""
    data: dict[str, Any] = draw(_objects)
    if draw(st.booleans()):
        data["servers"] = draw(st.dictionaries(st.sampled_from("abcq"), _objects, max_size=3))
    indent = draw(st.sampled_from([None, 1, 2, 4, "\t"]))
    separators = draw(st.sampled_from([None, (",", ":")]))
    text = json.dumps(data, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    text = draw(st.sampled_from(["", "\n", "  "])) + text + draw(st.sampled_from(["", "\n", "\n\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def _data(text: str) -> Any:
    return json.loads(text, parse_float=str, parse_constant=str)


@given(_documents(), _objects)
def test_put_adds_or_replaces_one_key(text: str, value: dict[str, Any]) -> None:
    value = _data(json.dumps(value))
    expected = _data(text)
    expected.setdefault("servers", {})["q"] = value
    new = put(text, ("servers", "q"), value)
    assert list(_data(new).items()) == list(expected.items())
    assert ("\r\n" in text) or ("\r" not in new)


@given(_documents())
def test_what_was_put_can_be_dropped_without_a_trace(text: str) -> None:
    servers = _data(text).get("servers", {})
    new = put(text, ("servers", "new"), _ENTRY)
    rest = drop(new, ("servers", "new"))
    if servers:
        assert rest == text
    else:
        assert _data(rest) == {**_data(text), "servers": {}}


@given(_documents())
def test_drop_leaves_the_others(text: str) -> None:
    expected = _data(text)
    for name in list(expected.get("servers", {})):
        text = drop(text, ("servers", name))
        del expected["servers"][name]
        assert list(_data(text).items()) == list(expected.items())


def test_a_new_key_looks_like_its_surroundings() -> None:
    text = '{\n\t"servers": {\n\t\t"a": {"command": "x"}\n\t},\n\t"last":   1\n}\n'
    added = ',\n\t\t"q": {\n\t\t\t"command": "y"\n\t\t}'
    assert put(text, ("servers", "q"), {"command": "y"}) == text.replace('"x"}', '"x"}' + added)
    assert put('{"a": 1}', ("servers", "q"), {"b": [1]}) == '{"a": 1, "servers": {"q": {"b": [1]}}}'
    assert put('{\n    "servers": {}\n}', ("servers", "q"), 1) == '{\n    "servers": {\n        "q": 1\n    }\n}'
    assert put("", ("servers", "q"), 1) == '{\n  "servers": {\n    "q": 1\n  }\n}\n'


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {} // mine\n}',
        '{"servers": {},}',
        "[1]",
        "null",
        '{"servers": [1]}',
        '{"servers": {"q": 1, "q": 2}}',
        '{"servers": {"a": 1}, "servers": 3}',
        '{"servers":',
        '{"a": ' * 100_000,
    ],
)
def test_what_is_not_plain_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit):
        drop(put(text, ("servers", "q"), _ENTRY), ("servers", "q"))


def test_reading_forgives_comments_and_commas() -> None:
    text = '\ufeff// head\n{"a": "// not, one /* */", /* "b": 1, */ "c": [1, 2, // two\n],}\n'
    assert read_lenient(text) == {"a": "// not, one /* */", "c": [1, 2]}
    with pytest.raises(ValueError, match="Expecting"):
        read_lenient('{"a": }')
