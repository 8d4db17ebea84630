"""Converts any value to JSON: readable, bounded, and the same in each process."""

import enum
import os
import re
from itertools import islice
from typing import Any

__all__ = ["ITEMS", "short_text", "to_json"]

ITEMS = 100
"""Items of one container."""
_TEXT = 2_000
"""Characters of one string."""
_ALL_ITEMS = 1_000
"""Items of one value, nested ones included."""
_ALL_TEXT = 20_000
"""Characters of all strings in one value."""
_DEPTH = 3
"""Levels of nested containers."""
_TEXTUAL = ("datetime", "decimal", "fractions", "ipaddress", "uuid")
"""Modules whose objects are written on a command line in the form that `str` returns."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def to_json(value: Any, type_: Any = None) -> Any:
    """Return `value` as None, a bool, a number, a string, or lists and dicts of these.

    `type_` is the `type=` of the argument to which the value belongs. It decides whether an enum member becomes
    its name or its value: the one that a user has to type.
    """
    return _guarded(value, type_, 0, _Budget())


class _Budget:
    """The items and characters that one value may still use."""

    def __init__(self) -> None:
        self.items, self.characters = _ALL_ITEMS, _ALL_TEXT

    def text(self, text: str) -> str:
        text = text[: min(_TEXT, self.characters)]
        self.characters -= len(text)
        return text


def _guarded(value: Any, type_: Any, depth: int, budget: _Budget) -> Any:
    budget.items -= 1
    try:
        return _convert(value, type_, depth, budget)
    except BaseException:  # methods of foreign objects may raise anything
        return f"<{type(value).__name__}>"


def _convert(value: Any, type_: Any, depth: int, budget: _Budget) -> Any:
    kind: Any = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, enum.Enum):
        return _guarded(value.value, None, depth + 1, budget) if _is_by_value(value, type_) else value.name
    if isinstance(value, str):
        return budget.text(str.__str__(value))
    if isinstance(value, int):
        number = int(value)
        return number if abs(number) < 2**53 else budget.text(str(number))  # JavaScript rounds larger numbers
    if isinstance(value, float):
        number_ = float(value)
        return number_ if number_ - number_ == 0 else str(number_)  # JSON has no NaN and no infinity
    if isinstance(value, os.PathLike):
        return budget.text(os.fsdecode(value))
    if depth <= _DEPTH:
        if kind in (list, tuple):
            return _items(value, len(value), type_, depth, budget)
        if kind in (set, frozenset):
            return _items(sorted(value, key=short_text), len(value), type_, depth, budget)
        if kind is dict:
            shown: dict[str, Any] = {}
            for key, each in islice(value.items(), ITEMS):
                if budget.items <= 0:
                    break
                shown[budget.text(short_text(key))] = _guarded(each, None, depth + 1, budget)
            return shown if len(shown) == len(value) else shown | {"…": "…"}
    return budget.text(short_text(value))


def _items(values: Any, total: int, type_: Any, depth: int, budget: _Budget) -> "list[Any]":
    shown: list[Any] = []
    for each in values[:ITEMS]:
        if budget.items <= 0:
            break
        shown.append(_guarded(each, type_, depth + 1, budget))
    return [*shown, "…"] if total > len(shown) else shown


def _is_by_value(member: enum.Enum, type_: Any) -> bool:
    """Return whether `type_` converts the member's value, not its name, to the member."""
    if type_ in (None, type(member)):
        return True
    if _becomes(member, type_, member.name):
        return False
    return isinstance(member, (str, int, float)) or _becomes(member, type_, str(member.value))


def _becomes(member: enum.Enum, type_: Any, word: str) -> bool:
    try:
        return bool(type_(word) == member)
    except BaseException:  # it is code of the project
        return False


def short_text(value: Any) -> str:
    """Return a short text for any object, without its memory address, which differs in each process."""
    kind: Any = type(value)
    try:
        if isinstance(value, str):
            text = str.__str__(value)
        elif kind.__module__ in _TEXTUAL:
            text = str(value)
        elif kind.__repr__ is object.__repr__ or callable(value):
            text = getattr(value, "__name__", None) or f"<{kind.__name__}>"
        else:
            text = repr(value)
        return _ADDRESS.sub("", str(text)[:_TEXT])
    except BaseException:  # methods of foreign objects may raise anything
        return f"<{kind.__name__}>"
