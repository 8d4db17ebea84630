"""Shows any value as JSON can hold it: readable, bounded, and the same each time."""

import enum
import os
import re
from itertools import islice
from typing import Any

__all__ = ["ITEMS", "plain", "text_of"]

ITEMS = 100
"""Items shown of one container."""
_TEXT = 2_000
"""Characters shown of one text."""
_ALL_ITEMS = 1_000
"""Items shown of one value, with all that is within its containers."""
_ALL_TEXT = 20_000
"""Characters shown of all texts in one value."""
_DEPTH = 3
"""Containers shown within containers."""
_TEXTUAL = ("datetime", "decimal", "fractions", "ipaddress", "uuid")
"""Modules whose objects are written on a command line as `str` shows them."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def plain(value: Any, type_: Any = None) -> Any:
    """Return `value` as None, a bool, a number, a text, or lists and dicts of these.

    `type_` is the `type=` of the argument that the value belongs to. It decides how
    an enum's member is shown: as what has to be written on the command line.
    """
    return _guarded(value, type_, 0, _Budget())


class _Budget:
    """What is left of what one value may take."""

    def __init__(self) -> None:
        self.items, self.characters = _ALL_ITEMS, _ALL_TEXT

    def text(self, text: str) -> str:
        text = text[: min(_TEXT, self.characters)]
        self.characters -= len(text)
        return text


def _guarded(value: Any, type_: Any, depth: int, budget: _Budget) -> Any:
    budget.items -= 1
    try:
        return _plain(value, type_, depth, budget)
    except BaseException:  # whatever a foreign object's methods raise
        return f"<{type(value).__name__}>"


def _plain(value: Any, type_: Any, depth: int, budget: _Budget) -> Any:
    kind: Any = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, enum.Enum):
        return _guarded(value.value, None, depth + 1, budget) if _is_by_value(value, type_) else value.name
    if isinstance(value, str):
        return budget.text(str.__str__(value))
    if isinstance(value, int):
        number = int(value)
        return number if abs(number) < 2**53 else budget.text(str(number))  # beyond it, JavaScript rounds
    if isinstance(value, float):
        number_ = float(value)
        return number_ if number_ - number_ == 0 else str(number_)  # JSON knows neither NaN nor infinity
    if isinstance(value, os.PathLike):
        return budget.text(os.fsdecode(value))
    if depth <= _DEPTH:
        if kind in (list, tuple):
            return _items(value, len(value), type_, depth, budget)
        if kind in (set, frozenset):
            return _items(sorted(value, key=text_of), len(value), type_, depth, budget)
        if kind is dict:
            shown: dict[str, Any] = {}
            for key, each in islice(value.items(), ITEMS):
                if budget.items <= 0:
                    break
                shown[budget.text(text_of(key))] = _guarded(each, None, depth + 1, budget)
            return shown if len(shown) == len(value) else shown | {"…": "…"}
    return budget.text(text_of(value))


def _items(values: Any, total: int, type_: Any, depth: int, budget: _Budget) -> "list[Any]":
    shown: list[Any] = []
    for each in values[:ITEMS]:
        if budget.items <= 0:
            break
        shown.append(_guarded(each, type_, depth + 1, budget))
    return [*shown, "…"] if total > len(shown) else shown


def _is_by_value(member: enum.Enum, type_: Any) -> bool:
    """Say whether a member's value, rather than its name, is what becomes the member on a command line."""
    if type_ in (None, type(member)):
        return True
    if _becomes(member, type_, member.name):
        return False
    return isinstance(member, (str, int, float)) or _becomes(member, type_, str(member.value))


def _becomes(member: enum.Enum, type_: Any, word: str) -> bool:
    try:
        return bool(type_(word) == member)
    except BaseException:  # it is the project's
        return False


def text_of(value: Any) -> str:
    """Return a short text for any object, without its address in memory, which differs each time."""
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
    except BaseException:  # whatever a foreign object's methods raise
        return f"<{kind.__name__}>"
