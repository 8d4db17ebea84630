"""`qk_mcp.text`: foreign text that is safe to show, and near names."""

import importlib
import re
import time
from collections.abc import Iterator
from pkgutil import iter_modules

import pytest

from qk_mcp import runs
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
        ("👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3", "👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3"),
        ("a\u200db\ufe0f ✔\ufe0f\ufe0f", "ab ✔\ufe0f"),
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


RUNS = [f"qk_mcp.runs.{each.name}" for each in iter_modules(runs.__path__)]
UNITS = [
    *("\x1b]", "\x1bP", "\x1b[", "\x1b[0", "\x1b[ ", "\x1b ", "\x1b", "\x1b[?1049", "\x1b]x\x9d", "\x9b", "\x9b0 "),
    *("\x90", "\x98", "\x9d", "\x9e", "\x9f", "\x9dx", "\r", "\b", "\r\n", "\n", " ", "\t", "x", "0", "0x", "0xf", "-"),
    *(
        "[a",
        "(a ",
        "a]",
        "?",
        ":",
        "\\",
        "\\u",
        "\\ud8",
        "\\ud800",
        "\\udc00",
        "\u200b",
        "\ud800",
        "é",
        "20200101-000000-a-",
    ),
]


def patterns() -> Iterator[object]:
    for name in ["qk_mcp.text", "qk_mcp.server.streams", *RUNS]:
        for attribute, value in vars(importlib.import_module(name)).items():
            if isinstance(value, re.Pattern):
                yield pytest.param(value, id=f"{name}.{attribute}")


@pytest.mark.parametrize("pattern", [*patterns()])
def test_no_regular_expression_is_slow_on_hostile_text(pattern: re.Pattern[str] | re.Pattern[bytes]) -> None:
    """Linear, each text takes a few milliseconds. Quadratic, one takes minutes."""
    began = time.process_time()
    for unit in UNITS:
        for text in (unit * (100_000 // len(unit)), unit + "0" * 100_000, unit + "x" * 100_000):
            if isinstance(pattern.pattern, bytes):
                data = text.encode("utf-8", "surrogatepass")
                pattern.sub(b"", data)
            else:
                pattern.sub("", text)
            assert time.process_time() - began < 20, repr(unit)


@pytest.mark.parametrize("unit", ["\x1b]", "\x1b[0", "\x90", "\x98", "\x9d", "\x9e", "\x9f", "\x1b]x\x9d"], ids=repr)
def test_a_megabyte_of_unterminated_sequences_is_not_slow(unit: str) -> None:
    began = time.process_time()
    printable(unit * (1_000_000 // len(unit)))
    assert time.process_time() - began < 20
