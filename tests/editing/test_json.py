"""An edit of a JSON text changes its own key and not one byte more."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qk_mcp.editing.files import CannotEdit
from qk_mcp.editing.json import add_item, drop_item, drop_key, set_key
from qk_mcp.editing.jsonc_text import read_jsonc

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
    """JSON as people and programs write it: on one line, with any indentation and any line end."""
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


@pytest.mark.long
@given(_documents(), _objects)
def test_put_adds_or_replaces_one_key(text: str, value: dict[str, Any]) -> None:
    value = _data(json.dumps(value))
    expected = _data(text)
    expected.setdefault("servers", {})["q"] = value
    new = set_key(text, ("servers", "q"), value)
    assert list(_data(new).items()) == list(expected.items())
    assert ("\r\n" in text) or ("\r" not in new)


@pytest.mark.long
@given(_documents())
def test_what_was_put_can_be_dropped_without_a_trace(text: str) -> None:
    servers = _data(text).get("servers", {})
    new = set_key(text, ("servers", "new"), _ENTRY)
    rest = drop_key(new, ("servers", "new"))
    if servers:
        assert rest == text
    else:
        assert _data(rest) == {**_data(text), "servers": {}}


@pytest.mark.long
@given(_documents())
def test_drop_leaves_the_others(text: str) -> None:
    expected = _data(text)
    for name in list(expected.get("servers", {})):
        text = drop_key(text, ("servers", name))
        del expected["servers"][name]
        assert list(_data(text).items()) == list(expected.items())


def test_a_new_key_looks_like_its_surroundings() -> None:
    text = '{\n\t"servers": {\n\t\t"a": {"command": "x"}\n\t},\n\t"last":   1\n}\n'
    added = ',\n\t\t"q": {\n\t\t\t"command": "y"\n\t\t}'
    assert set_key(text, ("servers", "q"), {"command": "y"}) == text.replace('"x"}', '"x"}' + added)
    assert set_key('{"a": 1}', ("servers", "q"), {"b": [1]}) == '{"a": 1, "servers": {"q": {"b": [1]}}}'
    assert set_key('{\n    "servers": {}\n}', ("servers", "q"), 1) == '{\n    "servers": {\n        "q": 1\n    }\n}'
    assert set_key("", ("servers", "q"), 1) == '{\n  "servers": {\n    "q": 1\n  }\n}\n'


COMMENTED = [
    '{\n  // mine\n  "servers": {}\n}\n',
    '{"servers": {},}',
    '// head\n{\n  "servers": {\n    "a": {"x": 1}, // one\n    /* two */\n  },\n  "z": [1, 2,],\n}\n// tail',
    '{\r\n  "servers": {\r\n    "a": "// no" // one, "two"\r\n  } /* } */\r\n}',
    '{ /* a */ "servers" /* b */ : /* c */ { /* d */ "a": 1 /* e */ , /* f */ } /* g */ }',
    '{"servers": {\n  // only this\n}}',
    '{"servers": {\n  "a": 1, // why\n  "b": 2 /* so\n that */ // end\n}}',
]


@pytest.mark.parametrize("text", COMMENTED)
def test_comments_and_trailing_commas_stay(text: str) -> None:
    data = read_jsonc(text)
    new = set_key(text, ("servers", "new"), _ENTRY)
    data["servers"]["new"] = _ENTRY
    assert read_jsonc(new) == data
    assert _comments(new) == _comments(text)
    assert drop_key(new, ("servers", "new")) == text
    for name in [name for name in data["servers"] if name != "new"]:
        new = drop_key(new, ("servers", name))
        del data["servers"][name]
        assert read_jsonc(new) == data


def _comments(text: str) -> list[str]:
    return [line for line in re.findall(r'"[^"]*"|(//[^\r\n]*|/\*.*?\*/)', text, re.DOTALL) if line]


def test_a_comment_stays_with_its_member() -> None:
    text = '{\n  "servers": {\n    "a": 1 // one\n  }\n}'
    assert set_key(text, ("servers", "q"), 2) == text.replace("1 // one\n", '1, // one\n    "q": 2\n')


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {} /* mine }',
        '{"servers": {},,}',
        '{"servers": {,}}',
        "[1]",
        "null",
        '{"servers": [1]}',
        '{"servers": {"q": 1, "q": 2}}',
        '{"servers": {"a": 1}, "servers": 3}',
        '{"servers":',
        '{"a": ' * 100_000,
    ],
)
def test_json_that_cannot_be_verified_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit):
        drop_key(set_key(text, ("servers", "q"), _ENTRY), ("servers", "q"))


# Items of a list


@given(_documents(), st.lists(_texts, unique=True, max_size=3), _texts)
def test_an_item_that_was_added_can_be_dropped_without_a_trace(text: str, items: list[str], item: str) -> None:
    if items:
        text = set_key(text, ("rules", "allow"), items)
    if item in items:
        return
    new = add_item(text, ("rules", "allow"), item)
    assert _data(new) == {**_data(text), "rules": {"allow": [*items, item]}}
    rest = drop_item(new, ("rules", "allow"), item)
    assert (rest == text) if items else (_data(rest)["rules"] == {"allow": []})


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ('{"a": ["x"]}', '{"a": ["x", "q"]}'),
        ('{"a": [\n  "x", // keep\n]}', '{"a": [\n  "x", // keep\n  "q",\n]}'),
        ('{\n  "a": [\n    "x"\n  ]\n}\n', '{\n  "a": [\n    "x",\n    "q"\n  ]\n}\n'),
        ('{"a": []}', '{"a": ["q"]}'),
        ("", '{\n  "a": [\n    "q"\n  ]\n}\n'),
    ],
)
def test_an_item_is_written_like_its_neighbours(text: str, new: str) -> None:
    assert add_item(text, ("a",), "q") == new


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": [ // alone\n]}', "[]", '{"a": [1'])
def test_a_list_that_only_a_person_should_edit_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit):
        add_item(text, ("a",), "q")
