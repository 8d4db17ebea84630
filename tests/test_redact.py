"""Redaction: where secrets are found, in which forms, and in parts of any size."""

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qk_mcp.redact import NO_SECRETS, Redactor, Secrets, make_secrets, redact_json, redact_text

VALUE = "s3cr3t/+ value?<ü>"
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\nAQC7VJTUt9Us8cKB\n-----END KEY-----\n"


def naive(data: bytes, secrets: Secrets) -> bytes:
    """Hide every byte of every occurrence; overlapping occurrences become the first one's name."""
    found = [
        (match.start(), -len(form), name)
        for form, name in secrets.forms.items()
        for match in re.finditer(b"(?=" + re.escape(form) + b")", data)
    ]
    parts, position = [], 0
    for start, negative, name in sorted(found):
        if start >= position:
            parts += [data[position:start], f"[{name}]".encode()]
        position = max(position, start - negative)
    return b"".join([*parts, data[position:]])


def redacted_parts(parts: list[bytes], secrets: Secrets) -> bytes:
    redactor = Redactor(secrets, set())
    return b"".join([*map(redactor.feed, parts), redactor.finish()])


@given(st.data())
def test_parts_of_any_size_give_the_result_of_the_whole(data: st.DataObject) -> None:
    """With few letters, values contain, overlap and repeat one another, and often begin without ending."""
    values = data.draw(st.lists(st.text("ab", min_size=8, max_size=11), min_size=1, max_size=4))
    secrets = make_secrets({f"N{number}": value for number, value in enumerate(values)})
    pieces = st.one_of(
        st.sampled_from([*secrets.forms]), st.binary(max_size=3), st.text("ab", max_size=9).map(str.encode)
    )
    text = b"".join(data.draw(st.lists(pieces, max_size=8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert redacted_parts(parts, secrets) == naive(text, secrets)


@given(st.text(min_size=8), st.binary(max_size=5), st.binary(max_size=5), st.booleans())
def test_a_value_inside_base64_is_hidden(value: str, before: bytes, after: bytes, url_safe: bool) -> None:
    secrets = make_secrets({"K": value})
    if not secrets:
        return
    secret = value.strip().encode("utf-8", "surrogatepass")
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    text = encode(before + secret + after)
    hidden = redacted_parts([text], secrets)
    assert b"[K]" in hidden
    left = len(hidden) - len(b"[K]")
    assert left <= -(-(len(before) + len(after)) * 4 // 3) + 4, "more than a character is left on each side"


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        quote(VALUE),
        quote(VALUE, safe=""),
        quote_plus(VALUE),
        quote(VALUE, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3F", "%3f").replace(
            "%3C", "%3c").replace("%C3%BC", "%c3%bc").replace("%3E", "%3e"),
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode().rstrip("="),
    ],
)  # fmt: skip
def test_a_value_is_found_in_the_forms_of_encoders(form: str) -> None:
    secrets = make_secrets({"API_KEY": f" {VALUE}\n"})
    replaced: set[str] = set()
    assert redact_text(f"x={form}&y", secrets, replaced) == "x=[API_KEY]&y"
    assert replaced == {"API_KEY"}


def test_a_value_with_several_lines_is_found_as_a_whole_and_by_its_long_lines() -> None:
    secrets = make_secrets({"SIGN_KEY": PEM})
    assert redact_text(f"<{PEM}>", secrets) == "<[SIGN_KEY]\n>"
    assert redact_text(f"<{PEM}>".replace("\n", "\r\n"), secrets) == (
        "<-----BEGIN KEY-----\r\n[SIGN_KEY]\r\n[SIGN_KEY]\r\n[SIGN_KEY]\r\n-----END KEY-----\r\n>"
    )
    assert redact_text(json.dumps({"key": PEM}), secrets) == '{"key": "[SIGN_KEY]\\n"}'


def test_the_longest_value_wins_and_nothing_of_overlapping_ones_is_left() -> None:
    secrets = make_secrets({"LONG": "abcdefgh-ijkl", "SHORT": "abcdefgh", "LATE": "ijklmnop"})
    replaced: set[str] = set()
    assert redact_text("abcdefgh abcdefgh-ijkl abcdefgh-ijklmnop.", secrets, replaced) == "[SHORT] [LONG] [LONG]."
    assert replaced == {"SHORT", "LONG"}


def test_only_what_may_become_a_secret_is_held_back() -> None:
    redactor = Redactor(make_secrets({"API_KEY": "hunter2hunter2"}), set())
    assert redactor.feed(b"Password: ") == b"Password: "
    assert redactor.feed(b"hunt") == b""
    assert redactor.feed(b"ing? ") == b"hunting? "
    assert redactor.feed(b"hunter2") == b""
    assert redactor.feed(b"hunter") == b""
    assert redactor.feed(b"2!") == b"[API_KEY]!"
    assert redactor.feed(b"hun") + redactor.finish() == b"hun"


def test_values_that_are_short_without_blanks_are_no_secrets() -> None:
    assert make_secrets({"A_KEY": "1234567", "B_KEY": "  1234567  "}).names == ()
    assert make_secrets({"A_KEY": "12345678", "B_KEY": "12345678"}).names == ("A_KEY", "B_KEY")


def test_json_is_redacted_in_its_texts_and_keys_only() -> None:
    secrets = make_secrets({"API_KEY": "12345678"})
    value = {"n": 12345678, "12345678": ["x12345678", {"a": None}], "b": True}
    assert redact_json(value, secrets) == {"n": 12345678, "[API_KEY]": ["x[API_KEY]", {"a": None}], "b": True}
    same = {"n": ["nothing"]}
    assert redact_json(same, secrets) is same
    assert redact_json(value, NO_SECRETS) is value


def test_a_json_value_may_be_nested_without_end() -> None:
    value: list[object] = ["12345678"]
    for _ in range(100_000):
        value = [value]
    assert isinstance(redact_json(value, make_secrets({"API_KEY": "12345678"})), list)
    while isinstance(value[0], list):  # a deep list overflows the stack when it is freed at once
        value = value[0]


@pytest.mark.parametrize("text", ["the value 12345678", "the value 123456789012...", "the value 1234567890…"])
def test_a_secret_that_a_cut_has_shortened_is_hidden(text: str) -> None:
    secrets = make_secrets({"API_KEY": "1234567890123456"})
    end = text[-3:] if text.endswith("...") else text[-1] if text.endswith("…") else ""
    long = text if end else "x" * 2000 + text
    assert redact_text(long, secrets).endswith(f"the value [API_KEY]{end}")
    assert redact_json({"help": [long]}, secrets)["help"][0].endswith(f"the value [API_KEY]{end}")
    assert redact_text("the value 12345678", secrets) == "the value 12345678"


def test_a_lone_surrogate_in_a_text_stays() -> None:
    assert redact_text("\ud800 12345678 \udc80", make_secrets({"API_KEY": "12345678"})) == "\ud800 [API_KEY] \udc80"
