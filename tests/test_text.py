"""`qk_mcp.text`: foreign text that is safe to show, and near names."""

import pytest

from qk_mcp.text import nearest, one_line, printable, shorten


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("\x90dcs\x9ctext", "text"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("a\x00b\x7fc\x85d", "abcd"),
        ("zero\u200bwidth \u202eright\u202c", "zerowidth right"),
        ("half \ud83d", "half \ufffd"),
        ("tab\tand grüße 🎉", "tab\tand grüße 🎉"),
    ],
)
def test_printable_text_has_only_what_a_reader_sees(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_one_line_joins_lines_and_spaces() -> None:
    assert one_line("  one\n\n two\t three ") == "one two three"
    assert one_line("one two three", 5) == "one …"


@pytest.mark.parametrize(("limit", "expected"), [(5, "12345"), (4, "123…"), (1, "…"), (0, "…")])
def test_a_cut_is_marked(limit: int, expected: str) -> None:
    assert shorten("12345", limit) == expected


def test_near_names_ignore_case_and_keep_their_spelling() -> None:
    assert nearest("BUIDL", ["Build", "deploy"]) == ["Build"]
    assert nearest("x", ["build"]) == []
