"""JSON with comments and trailing commas is read, and its parts keep their places."""

import pytest

from qk_mcp.editing.jsonc_text import find_items, find_members, parse_jsonc, read_jsonc


def test_each_part_has_its_place() -> None:
    text = '{ /* {} */ "a" : [1, "]", // c\n [2],], "b": 0 }'
    source = parse_jsonc(text)
    first, second = find_members(source.plain, 0)
    assert [text[first.start : first.end], text[second.start : second.end]] == [
        text[11 : text.index(', "b"')],
        '"b": 0',
    ]
    items = [text[start:end] for start, end in find_items(source.plain, first.value)]
    assert items == ["1", '"]"', "[2]"]
    comma = source.comma_after(find_items(source.plain, first.value)[-1][1])
    assert comma is not None
    assert text[comma - 3 : comma + 2] == "[2],]"


def test_reading_forgives_comments_and_commas() -> None:
    text = '\ufeff// head\n{"a": "// not, one /* */", /* "b": 1, */ "c": [1, 2, // two\n],}\n'
    assert read_jsonc(text) == {"a": "// not, one /* */", "c": [1, 2]}
    with pytest.raises(ValueError, match="Expecting"):
        read_jsonc('{"a": }')
