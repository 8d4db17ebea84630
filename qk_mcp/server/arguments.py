"""Parses the arguments of a tool call: strict about meaning, lenient about form.

Models send null or "" for what they leave out, numbers as text, and lists
written as a string. All of that is accepted; anything else is a tool error.
"""

import json
import math
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from qk_mcp.errors import InvalidInput
from qk_mcp.tasks.listing import Detail
from qk_mcp.text import nearest, shorten

__all__ = ["check_names", "parse_count", "parse_detail", "parse_flag", "parse_line_numbers", "parse_seconds",
           "parse_text", "parse_timeout", "parse_words"]  # fmt: skip

_SPLIT_LENGTH = 20_000
"""Characters of a string that is split into words; `shlex` takes a minute for a million."""
_NAMED = 10
"""Ignored parameters that a note names."""


_SYNONYMS = {
    "project": ("cwd", "dir", "directory", "path", "root", "workdir", "workspace"),
    "filter": ("pattern", "query", "search"),
    "args": ("argv", "options", "parameters", "params"),
    "stdin": ("input",),
    "background": ("async", "detach", "run_in_background"),
    "run_id": ("id", "run"),
    "grep": ("filter", "pattern", "search"),
    "lines": ("limit", "max_lines", "tail"),
    "after": ("offset", "since"),
    "wait": ("timeout",),
}
"""Names that models use for our parameters. Ignoring them would run something else than was meant."""


def check_names(arguments: Mapping[str, Any], known: Collection[str]) -> str:
    """Return a note on the parameters that the tool does not have and ignores: some clients add their own.

    Raises `InvalidInput` for one that resembles a parameter of the tool.
    """
    unknown = [name for name in arguments if name not in known]
    for name in unknown:
        if meant := _meant(name, known):
            raise InvalidInput(name, f"there is no such parameter; did you mean {meant!r}?")
    names = ", ".join(repr(shorten(name, 60)) for name in unknown[:_NAMED])
    return f"ignored parameters that this tool does not have: {names}" if unknown else ""


def _meant(name: str, known: Collection[str]) -> str | None:
    synonyms = (ours for ours, others in _SYNONYMS.items() if ours in known and name.casefold() in others)
    return next(synonyms, None) or next(iter(nearest(name, known)), None)


def parse_text(arguments: Mapping[str, Any], name: str) -> str | None:
    """Return a string; None if it is missing, null or empty."""
    value = arguments.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInput(name, f"it must be a string, not {_kind(value)}")
    return value


def parse_detail(arguments: Mapping[str, Any], name: str) -> Detail:
    """Return how much of each task a listing shows."""
    match parse_text(arguments, name):
        case None | "auto":
            return "auto"
        case "full":
            return "full"
        case "short":
            return "short"
        case other:
            raise InvalidInput(name, f"it must be auto, full or short, not {other[:60]!r}")


def parse_timeout(arguments: Mapping[str, Any], name: str) -> float | None:
    """Return a positive, finite number of seconds; None if it is missing, null or empty."""
    return parse_seconds(arguments, name, 0.0) or None


def parse_seconds(arguments: Mapping[str, Any], name: str, default: float, *, zero: bool = False) -> float:
    """Return a positive, finite number of seconds, or with `zero` also 0."""
    value = arguments.get(name)
    if value is None or value == "":
        return default
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError):
        raise InvalidInput(name, f"it must be a number of seconds, not {_kind(value)}") from None
    if zero and number == 0:
        return 0.0
    if not math.isfinite(number) or number <= 0:
        form = "a finite number of seconds from 0 on" if zero else "a positive, finite number of seconds"
        raise InvalidInput(name, f"it must be {form}, not {value}")
    return number


def parse_flag(arguments: Mapping[str, Any], name: str) -> bool:
    """Return true or false; false if it is missing, null or empty."""
    value = arguments.get(name)
    if isinstance(value, str) and value.casefold() in ("true", "false", ""):
        value = value.casefold() == "true"
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidInput(name, f"it must be true or false, not {_kind(value)}")


def parse_count(arguments: Mapping[str, Any], name: str, default: int, most: int) -> int:
    """Return a whole number from 0 to `most`; a larger one counts as `most`."""
    value = arguments.get(name)
    if value is None or value == "":
        return default
    return min(_whole(name, value), most)


def parse_line_numbers(arguments: Mapping[str, Any], name: str, count: int) -> list[int] | None:
    """Return `count` line numbers from `"12,3"`, or from one number for all; None if it is missing, null or empty."""
    value = arguments.get(name)
    if value is None or value == "":
        return None
    parts = value.split(",") if isinstance(value, str) else [value]
    if len(parts) not in (1, count):
        raise InvalidInput(name, f"it must be `next` of an earlier answer or a line number, not {_kind(value)}")
    try:
        numbers = [_whole(name, part) for part in parts]
    except InvalidInput:
        raise InvalidInput(name, f"it must be `next` of an earlier answer or a line number, not {value!r}") from None
    return numbers if len(numbers) == count else numbers * count


def _whole(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = int(value.strip()) if isinstance(value, str) else int(value)
        if number != float(value) or number < 0:
            raise ValueError
    except (ValueError, OverflowError):
        raise InvalidInput(name, f"it must be a whole number from 0 on, not {_kind(value)}") from None
    return number


def parse_words(arguments: Mapping[str, Any], name: str) -> list[str]:
    """Return command-line words, from a list, a JSON list in a string, or a string split as a shell splits it."""
    value = arguments.get(name)
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = _split(name, value)
    if not isinstance(value, list):
        raise InvalidInput(name, f"it must be a list of strings, not {_kind(value)}; {_right_form(value)}")
    return [_word(name, position, item) for position, item in enumerate(value)]


def _split(name: str, value: str) -> list[Any]:
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        pass  # not JSON: words for a shell
    else:
        if isinstance(parsed, list):
            return parsed
        if parsed is None:
            return []
        if not isinstance(parsed, str):
            raise InvalidInput(name, f"it must be a list of strings, not {_kind(parsed)}; {_right_form(parsed)}")
    if len(value) > _SPLIT_LENGTH:
        raise InvalidInput(name, f"the string is too long to be split into words; {_right_form(None)}")
    is_list = value.lstrip().startswith("[") and ('"' in value or value.rstrip().endswith("]"))
    if is_list or "\\" in value:  # a list that is not JSON, or a backslash, which a shell would drop
        raise InvalidInput(name, f"what is meant by this string is unclear; {_right_form(None)}")
    try:
        return shlex.split(value)
    except ValueError as error:
        raise InvalidInput(name, f"the string cannot be split into words ({error}); {_right_form(None)}") from None


def _right_form(value: Any) -> str:
    """Return how to write `value` as a list of words: `pass ["--n", "3"]`."""
    words = ["--count", "3", "name"]
    if isinstance(value, dict) and value:
        words = [word for key, item in value.items() for word in (_as_flag(key), _as_word(item))]
    elif value is not None:
        words = [_as_word(value)]
    return f"pass a list with one string per command-line word, such as {shorten(json.dumps(words), 200)}"


def _as_flag(key: str) -> str:
    return key if key.startswith("-") else f"--{key}".replace("_", "-")


def _as_word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _word(name: str, position: int, item: Any) -> str:
    if isinstance(item, int | float) and not isinstance(item, bool):
        return json.dumps(item)
    if not isinstance(item, str):
        raise InvalidInput(name, f"item {position} must be a string, not {_kind(item)}; {_right_form(None)}")
    if "\0" in item:
        raise InvalidInput(name, f"item {position} contains a NUL character, which no command line can carry")
    return item


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return f"the string {value[:60]!r}"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"the number {str(value)[:60]}"
