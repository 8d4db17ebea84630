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
_DEPTH = 3
"""Containers shown within containers."""
_TEXTUAL = ("datetime", "decimal", "fractions", "ipaddress", "uuid")
"""Modules whose objects are written on a command line as `str` shows them."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def plain(value: Any, type_: Any = None, depth: int = 0) -> Any:
    """Return `value` as None, a bool, a number, a text, or lists and dicts of these.

    `type_` is the `type=` of the argument that the value belongs to. It decides how
    an enum's member is shown: as what has to be written on the command line.
    """
    try:
        return _plain(value, type_, depth)
    except BaseException:  # whatever a foreign object's methods raise
        return f"<{type(value).__name__}>"


def _plain(value: Any, type_: Any, depth: int) -> Any:
    kind: Any = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value, None, depth + 1) if type_ in (None, kind) else value.name
    if isinstance(value, str):
        return str.__str__(value)[:_TEXT]
    if isinstance(value, int):
        number = int(value)
        return number if abs(number) < 2**53 else str(number)[:_TEXT]  # beyond it, JavaScript rounds
    if isinstance(value, float):
        number_ = float(value)
        return number_ if number_ - number_ == 0 else str(number_)  # JSON knows neither NaN nor infinity
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)[:_TEXT]
    if depth <= _DEPTH:
        if kind in (list, tuple):
            return _items(value, len(value), type_, depth)
        if kind in (set, frozenset):
            return _items(sorted(value, key=text_of), len(value), type_, depth)
        if kind is dict:
            shown = {text_of(key): plain(each, None, depth + 1) for key, each in islice(value.items(), ITEMS)}
            return shown | {"…": "…"} if len(value) > ITEMS else shown
    return text_of(value)


def _items(values: Any, total: int, type_: Any, depth: int) -> "list[Any]":
    shown = [plain(each, type_, depth + 1) for each in values[:ITEMS]]
    return [*shown, "…"] if total > ITEMS else shown


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
