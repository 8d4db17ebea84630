"""Makes the words of a command line from the parameters of a task's own tool.

argparse reads them back as exactly these values, or the call is refused: a value that begins with `-` must not become
an option, and one that belongs to one argument must not become another's. How argparse reads words is described by
`_parse_known_args`, `_parse_optional` and `_get_nargs_pattern` in its source (3.12 to 3.14).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qk_mcp.errors import InvalidInput
from qk_mcp.server.arguments import parse_words
from qk_mcp.server.task_parameters import EXTRA, Parameter
from qk_mcp.tasks.catalog import Syntax

__all__ = ["argument_vector"]

_MOST = 100
"""Times that a flag is repeated."""
_SEPARATOR = "--"
_NUMBER = re.compile(r"-\.?\d")
_PATTERNS = {None: "A", "?": "A?", "*": "A*", "+": "A+", "...": "[AO]*", "A...": "A[AO]*"}
"""The words that a positional takes, by its `nargs`: A is a value, O looks like an option."""


type _Values = Sequence[tuple[Parameter, list[str]]]
"""The positionals in the parser's order, each with its words."""


@dataclass(frozen=True, slots=True)
class _Group:
    """A flag and the words that follow it; `open` if argparse would give it the next value as well."""

    words: tuple[str, ...]
    open: bool


def argument_vector(parameters: Sequence[Parameter], syntax: Syntax, arguments: Mapping[str, Any]) -> list[str]:
    """Return the command line for a call: options, then positionals, then `EXTRA`.

    Null is a parameter that was left out, and so is "" unless it can be a value. Raises InvalidInput for a value that
    has the wrong type or that argparse cannot take.
    """
    options: list[list[_Group]] = []
    values: list[tuple[Parameter, list[str]]] = []
    for parameter in parameters:
        value = arguments.get(parameter.name)
        if value is None or (value == "" and not _takes_empty_text(parameter)):
            if parameter.argument.required:
                raise InvalidInput(parameter.name, "it is required")
            if parameter.positional:
                values.append((parameter, []))
        elif parameter.positional:
            words = [_word(parameter, value)] if parameter.kind == "value" else _words(parameter, value)
            _check_count(parameter, words)
            values.append((parameter, words))
        elif groups := _option(parameter, syntax, value):
            options.append(groups)
    options.sort(key=lambda groups: not groups[-1].open)  # a positional must not follow an open group
    ends_open = bool(options) and options[-1][-1].open
    words = [word for groups in options for group in groups for word in group.words]
    return words + _tail(values, parse_words(arguments, EXTRA), syntax, ends_open=ends_open)


def _takes_empty_text(parameter: Parameter) -> bool:
    argument = parameter.argument
    return parameter.kind == "value" and argument.number is None and not argument.choices


# Options


def _option(parameter: Parameter, syntax: Syntax, value: Any) -> list[_Group]:
    flag = _flag(parameter)
    match parameter.kind:
        case "switch":
            return [_Group((flag,), open=False)] if _truth(parameter, value) else []
        case "boolean":
            return [_Group((flag if _truth(parameter, value) else _negation(parameter),), open=False)]
        case "count":
            return [_Group((flag,), open=False)] * _count(parameter, value)
        case "value":
            return [_group(parameter, syntax, flag, [_word(parameter, value)])]
        case "list" if isinstance(value, bool) and parameter.argument.nargs == "?":
            return [_group(parameter, syntax, flag, [])] if value else []
        case "list":
            return [_group(parameter, syntax, flag, _words(parameter, value))]
        case "repeated":
            return [_group(parameter, syntax, flag, [word]) for word in _words(parameter, value)]
    return [_group(parameter, syntax, flag, _words(parameter, each)) for each in _items(value)]


def _group(parameter: Parameter, syntax: Syntax, flag: str, words: list[str]) -> _Group:
    if parameter.kind != "repeated":
        _check_count(parameter, words)
    if len(words) == 1 and "=" not in flag:
        return _Group((f"{flag}={words[0]}",), open=False)  # also a word that looks like an option
    for word in words:
        if _resembles_option(word, syntax):
            raise _not_passable(parameter, f"argparse takes {word!r} after {flag} for an option")
        _check_file(parameter, syntax, word)
    return _Group((flag, *words), open=parameter.argument.nargs in ("?", "*", "+"))


def _flag(parameter: Parameter) -> str:
    """Return the first long flag, which no value can be mistaken for."""
    flags = [flag for flag in parameter.argument.flags if parameter.kind != "boolean" or not flag.startswith("--no-")]
    plain = [flag for flag in flags if "=" not in flag] or flags
    return next((flag for flag in plain if flag.startswith("--")), plain[0])


def _negation(parameter: Parameter) -> str:
    return next(flag for flag in parameter.argument.flags if flag.startswith("--no-"))


# Positionals


def _tail(values: _Values, extra: list[str], syntax: Syntax, *, ends_open: bool) -> list[str]:
    """Return the words after the options, with a separator if argparse would misread them without one."""
    words = [word for _, each in values for word in each]
    for parameter, each in values:
        for word in each:
            _check_file(parameter, syntax, word)
    tail = [*words, *extra]
    if not tail:
        return []
    dashed = [_resembles_option(word, syntax) for word in tail]
    plain = not ends_open and not dashed[0] if words else not ends_open or dashed[0]
    plain = plain and _is_read_back(values, tail, syntax, separated=False)
    if plain and not any(dashed[: len(words)]):
        return tail
    absorbs = bool(values) and values[0][0].argument.nargs not in ("...", "A...")
    separable = absorbs and (syntax.extra or not any(dashed[len(words) :]))
    if separable and _is_read_back(values, tail, syntax, separated=True):
        return [_SEPARATOR, *tail]
    if plain:
        return tail
    name = next((parameter.name for parameter, each in values if each), EXTRA)
    raise InvalidInput(name, "argparse would give these values to other arguments; write the words with run_task")


def _is_read_back(values: _Values, tail: Sequence[str], syntax: Syntax, *, separated: bool) -> bool:
    """Return whether argparse gives each positional its own words."""
    counts = [len(words) for _, words in values]
    for shape in _shapes(tail, syntax, separated=separated):
        taken = _taken([_pattern(parameter) for parameter, _ in values], shape)
        if values and values[-1][0].argument.nargs in ("...", "A..."):
            taken[-1] = min(taken[-1], counts[-1])  # what follows, it takes as well
        if taken != counts:
            return False
    return True


def _taken(patterns: Sequence[str], shape: str) -> list[int]:
    """Return how many words each positional takes; as many positionals as possible take some."""
    for number in range(len(patterns), 0, -1):
        if match := re.match("".join(f"({pattern})" for pattern in patterns[:number]), shape):
            return [*map(len, match.groups()), *[0] * (len(patterns) - number)]
    return [0] * len(patterns)


def _shapes(words: Sequence[str], syntax: Syntax, *, separated: bool) -> set[str]:
    """Return the patterns that argparse may see: it may take a negative number or a word with a space for a value."""
    if separated:
        return {"A" * len(words)}
    dashed = [_resembles_option(word, syntax) for word in words]
    sure = [each and not _may_be_value(word) for each, word in zip(dashed, words, strict=True)]
    return {"".join("O" if each else "A" for each in shape) for shape in (dashed, sure)}


def _pattern(parameter: Parameter) -> str:
    nargs = parameter.argument.nargs
    return "A" * nargs if isinstance(nargs, int) else _PATTERNS[nargs]


def _resembles_option(word: str, syntax: Syntax) -> bool:
    return word == _SEPARATOR or (len(word) > 1 and word[0] in syntax.prefixes)


def _may_be_value(word: str) -> bool:
    return " " in word or _NUMBER.match(word) is not None


def _check_file(parameter: Parameter, syntax: Syntax, word: str) -> None:
    if word and word[0] in syntax.files:
        raise _not_passable(parameter, f"argparse reads a file in place of {word!r}")


def _not_passable(parameter: Parameter, why: str) -> InvalidInput:
    return InvalidInput(parameter.name, f"this value cannot be passed on a command line: {why}")


# Values


def _items(value: Any) -> list[Any]:
    """Return the items of a list, which a model may write as JSON in a string; a single value is a list of it."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return [value]  # not JSON: a value that begins with a bracket
        value = parsed if isinstance(parsed, list) else value
    return value if isinstance(value, list) else [value]


def _words(parameter: Parameter, value: Any) -> list[str]:
    return [_word(parameter, item) for item in _items(value)]


def _check_count(parameter: Parameter, words: Sequence[str]) -> None:
    nargs, count = parameter.argument.nargs, len(words)
    if isinstance(nargs, int) and count != nargs:
        raise InvalidInput(parameter.name, f"it takes exactly {nargs} values, not {count}")
    if nargs == "+" and not count:
        raise InvalidInput(parameter.name, "it takes at least one value")
    if nargs == "?" and count > 1:
        raise InvalidInput(parameter.name, f"it takes at most one value, not {count}")


def _word(parameter: Parameter, value: Any) -> str:
    number = parameter.argument.number
    if isinstance(value, float) and number == "int" and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    if not isinstance(value, str):
        wanted = {"int": "an integer", "float": "a number"}.get(number or "", "a string")
        raise InvalidInput(parameter.name, f"it must be {wanted}, not {json.dumps(value)[:60]}")
    if "\0" in value:
        raise InvalidInput(parameter.name, "it contains a NUL character, which no command line can carry")
    if value == _SEPARATOR:
        raise _not_passable(parameter, "argparse removes '--'")
    return value


def _truth(parameter: Parameter, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.casefold() in ("true", "false"):
        return value.casefold() == "true"
    raise InvalidInput(parameter.name, f"it must be true or false, not {json.dumps(value)[:60]}")


def _count(parameter: Parameter, value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not 0 <= value <= _MOST:
        raise InvalidInput(parameter.name, f"it must be a whole number from 0 to {_MOST}")
    return value
