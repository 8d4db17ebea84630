"""Replaces secrets by the names of their variables, in bytes that come in parts, in text and in JSON values.

A secret is found as it is and in the forms in which programs usually print it: each long line of a value with
several lines, as a JSON string, percent-encoded, and base64-encoded, also inside a longer encoded text. Then up to
four bits of the secret remain in the base64 character on each side of it, because that character also depends on the
neighbouring byte.

Texts and JSON values, unlike streams, may have been cut in the middle of a secret. If a text is marked as cut, or as
long as the guest's longest ones, then the beginning of a secret at its end is replaced as well.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["NO_SECRETS", "SHORTEST", "Redactor", "Secrets", "make_secrets", "redact_json", "redact_text"]

SHORTEST = 8
"""Characters of a value that counts as a secret; a shorter one is probably a word that occurs everywhere."""
_SHORTEST_LINE = 16
"""Characters of a line that is redacted without the other lines of its value."""
_LINES = 100
"""Lines of a value that are looked for alone: each costs time in every part of a stream."""
_FRAME = "-----"
"""The beginning of the first and last line of a PEM file, which are the same in every one."""
_SAFE = ("", "/", "!~*'()", "*")
"""Characters beside letters, digits and `_.-~` that encoders leave as they are: Python's `quote` and `quote_plus`,
JavaScript's `encodeURIComponent` and `URLSearchParams`."""
_ESCAPE = re.compile("%[0-9A-F]{2}")
_RUN = re.compile(rb"[A-Za-z0-9]{8,}")
_CUT = ("…", "...")
"""The marks of a cut: ours, and quickie's in the first line of a help text."""
_LONGEST_TEXT = 2_000
"""Characters to which a guest cuts texts without a mark."""
_LONG_PART = re.compile(f'"[^"]{{{_LONGEST_TEXT},}}')
_DEEPEST = 100
"""Levels of a JSON value; deeper ones become null. Guests report three."""
_WINDOW = 8
"""Bytes of the end of a text that are looked for in a form. At most the length of the shortest form."""

type _Occurrence = tuple[int, int, str]
"""Where a form begins and ends, and the name of its variable."""


@dataclass(frozen=True, slots=True, eq=False)
class Secrets:
    """The secrets of an environment, prepared for the search."""

    names: tuple[str, ...]
    """The variables, sorted."""
    forms: Mapping[bytes, str] = field(repr=False)
    """What is replaced, and by which name."""
    probes: Mapping[bytes, tuple[bytes, ...]] = field(repr=False)
    """Parts of forms, and the forms that contain them: a text without any of these parts contains no form.

    Searching for these few parts is several times faster than a regular expression with all forms.
    """
    inner: frozenset[int] = field(repr=False)
    """The bytes of the forms without their last ones: no form continues after another byte."""
    beginnings: frozenset[bytes] = field(repr=False)
    """The first bytes of the forms, up to seven."""

    def __bool__(self) -> bool:
        return bool(self.forms)


def make_secrets(values: Mapping[str, str]) -> Secrets:
    """Return the secrets for values by name. Ignores white space around a value, and a value that is then short.

    The first name in alphabetical order stands for a value that several variables have.
    """
    forms: dict[bytes, str] = {}
    names = []
    for name, value in sorted(values.items()):
        if len(secret := value.strip()) >= SHORTEST:
            names.append(name)
            for form in _forms(secret):
                forms.setdefault(form, name)
    return Secrets(
        tuple(names),
        forms,
        _probes(forms),
        frozenset(byte for form in forms for byte in form[:-1]),
        frozenset(form[:length] for form in forms for length in range(1, _WINDOW)),
    )


def _forms(secret: str) -> Iterator[bytes]:
    lines = [line.strip() for line in secret.splitlines()]
    parts = [line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith(_FRAME)]
    for text in (secret, *parts[:_LINES]):
        yield _encoded(text)
        for ascii_only in (False, True):
            yield _encoded(json.dumps(text, ensure_ascii=ascii_only)[1:-1])
    yield from _percent_forms(secret)
    yield from _base64_forms(_encoded(secret))


def _percent_forms(secret: str) -> Iterator[bytes]:
    from urllib.parse import quote

    for safe in _SAFE:
        text = quote(_encoded(secret), safe=safe)
        for form in (text, text.replace("%20", "+")):
            yield form.encode()
            yield _ESCAPE.sub(lambda escape: escape[0].lower(), form).encode()


def _base64_forms(secret: bytes) -> Iterator[bytes]:
    """Yield the secret encoded alone, and what any text that contains it has in common when it is encoded."""
    from base64 import b64encode

    for alternatives in (b"+/", b"-_"):
        alone = b64encode(secret, alternatives)
        yield alone
        yield alone.rstrip(b"=")
        for before in range(3):  # bytes of other text in the group of three in which the secret begins
            text = b64encode(bytes(before) + secret, alternatives)
            yield text[(before * 8 + 5) // 6 : (before + len(secret)) * 8 // 6]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # as `os.fsencode`, from which the environment's values come


def _probes(forms: Collection[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    """Return the parts to look for. Each is a form or a run of letters and digits, which encoders leave as it is."""
    probes: dict[bytes, list[bytes]] = {}
    for form in sorted(forms, key=len):
        probe = next((known for known in probes if known in form), None)
        if probe is None:
            probe = max(_RUN.findall(form), key=len, default=form)
        probes.setdefault(probe, []).append(form)
    return {probe: tuple(found) for probe, found in probes.items()}


NO_SECRETS = make_secrets({})


class Redactor:
    """Redacts a stream of bytes that comes in parts; the parts do not affect the result.

    Secrets that overlap are replaced as a whole by the name of the first, or of the longest that begins there.
    """

    def __init__(self, secrets: Secrets, replaced: set[str]) -> None:
        """Add the names of replaced secrets to `replaced`."""
        self._secrets = secrets
        self._replaced = replaced
        self._held = b""
        self._hidden = 0
        """Bytes at the beginning of `_held` that belong to a secret whose name has been returned."""

    def feed(self, data: bytes) -> bytes:
        """Return what can be returned of the stream so far: all but an end with which a secret may begin."""
        data = self._held + data if self._held else data
        return self._release(data, _open_end(data, self._secrets))

    def finish(self) -> bytes:
        """Return the rest of the stream, in which no secret is complete."""
        return self._release(self._held, len(self._held))

    def _release(self, data: bytes, end: int) -> bytes:
        """Return `data` up to `end`, and hold the rest."""
        position = self._hidden
        parts = []
        for start, stop, name in _occurrences(data, self._secrets):
            if start >= end:
                break
            if start >= position:
                parts += [data[position:start], f"[{name}]".encode("utf-8", "surrogateescape")]
                self._replaced.add(name)
            position = max(position, stop)
        if position < end:
            parts.append(data[position:end] if position or end < len(data) else data)
            position = end
        self._held, self._hidden = data[end:], position - end
        return b"".join(parts) if len(parts) != 1 else parts[0]


def redact_text(text: str, secrets: Secrets, replaced: set[str] | None = None) -> str:
    """Return `text` without secrets; adds the names of those replaced to `replaced`."""
    if not secrets:
        return text
    replaced = set() if replaced is None else replaced
    if mark := next((mark for mark in _CUT if text.endswith(mark)), ""):
        return _without_cut_secret(text.removesuffix(mark), secrets, replaced) + mark
    if len(text) >= _LONGEST_TEXT:
        return _without_cut_secret(text, secrets, replaced)
    return _without_secrets(text.encode("utf-8", "surrogatepass"), secrets, replaced)


def _without_secrets(data: bytes, secrets: Secrets, replaced: set[str]) -> str:
    if _may_contain(data, secrets):
        redactor = Redactor(secrets, replaced)
        data = redactor.feed(data) + redactor.finish()
    return data.decode("utf-8", "surrogatepass")


def _without_cut_secret(text: str, secrets: Secrets, replaced: set[str]) -> str:
    data = text.encode("utf-8", "surrogatepass")
    end = _open_end(data, secrets)
    beginning = data[end:]
    if len(beginning) < SHORTEST:
        return _without_secrets(data, secrets, replaced)
    name = next(name for form, name in secrets.forms.items() if form.startswith(beginning))
    replaced.add(name)
    return _without_secrets(data[:end], secrets, replaced) + f"[{name}]"


def redact_json(value: Any, secrets: Secrets, replaced: set[str] | None = None) -> Any:
    """Return a JSON value with redacted texts and keys; often `value` itself if it contains no secret."""
    if not secrets:
        return value
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:  # a project can nest the values that its own guest reports
        return _redact_parts(value, secrets, replaced)
    is_cut = any(f'{mark}"' in text for mark in _CUT) or _LONG_PART.search(text)
    if not is_cut and not _may_contain(text.encode("utf-8", "surrogatepass"), secrets):
        return value
    return _redact_parts(value, secrets, replaced)


def _redact_parts(value: Any, secrets: Secrets, replaced: set[str] | None, depth: int = 0) -> Any:
    if isinstance(value, str):
        return redact_text(value, secrets, replaced)
    if depth > _DEEPEST:
        return None
    if isinstance(value, list | tuple):
        return [_redact_parts(each, secrets, replaced, depth + 1) for each in value]
    if isinstance(value, dict):
        return {
            redact_text(key, secrets, replaced): _redact_parts(each, secrets, replaced, depth + 1)
            for key, each in value.items()
        }
    return value


def _may_contain(data: bytes, secrets: Secrets) -> bool:
    return any(probe in data for probe in secrets.probes)


def _occurrences(data: bytes, secrets: Secrets) -> list[_Occurrence]:
    """Return where forms are in `data`, overlapping ones too: by their start, then the longest first."""
    found = []
    for probe, forms in secrets.probes.items():
        if probe in data:
            for form in forms:
                start = data.find(form)
                while start >= 0:
                    found.append((start, start + len(form), secrets.forms[form]))
                    start = data.find(form, start + 1)
    return sorted(found, key=lambda each: (each[0], -each[1]))


def _open_end(data: bytes, secrets: Secrets) -> int:
    """Return where the longest end of `data` begins with which a form begins, or the length of `data`."""
    if not data or data[-1] not in secrets.inner:
        return len(data)
    window = data[-_WINDOW:]
    lengths = range(1, min(_WINDOW, len(data) + 1))
    longest = max((length for length in lengths if window[-length:] in secrets.beginnings), default=0)
    if len(window) == _WINDOW:
        for form in secrets.forms:
            at = form.rfind(window, 0, -1)
            while at >= 0 and at + _WINDOW > longest:
                if data.endswith(form[: at + _WINDOW]):
                    longest = at + _WINDOW
                at = form.rfind(window, 0, at + _WINDOW - 1)
    return len(data) - longest
