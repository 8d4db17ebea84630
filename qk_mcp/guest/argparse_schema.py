"""Describes what an argparse parser accepts: quickie's eight keys for each argument, with the truth in them."""

import argparse
import copy
import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .json_values import ITEMS, plain, text_of

__all__ = ["bound_choices", "describe_arguments", "usage_of"]

_HELP = 20_000
"""Characters of one argument's help."""
_STRAY_PERCENT = re.compile(r"(?<!%)(?:%%)*%(?![%(])")
_SUBCOMMANDS = 50
"""Subcommands whose usage the help of their argument shows."""


def bound_choices() -> None:
    """Keep argparse, in this process, from writing out more than a hundred choices, however many there are.

    It writes all of them, even while an argument is added: a range of a hundred
    million takes minutes. Sets are sorted, so that each process writes the same.
    """
    formatter: Any = argparse.HelpFormatter
    name_choices, expand_help = formatter._metavar_formatter, formatter._expand_help

    def name_few(self: Any, action: Any, default: Any) -> Any:
        # With a metavar no choice is written; those that can be read only once must not be read.
        return name_choices(self, action if action.metavar is not None else _with_few_choices(action), default)

    def expand_with_few(self: Any, action: Any) -> Any:
        return expand_help(self, _with_few_choices(action))

    formatter._metavar_formatter, formatter._expand_help = name_few, expand_with_few


def _with_few_choices(action: Any) -> Any:
    choices = getattr(action, "choices", None)
    if choices is None or isinstance(choices, (dict, str)):
        return action
    if isinstance(choices, (list, tuple)) and len(choices) <= ITEMS:
        return action
    shown, more = _first(choices)
    if shown is None:
        return action  # argparse says that it cannot write them
    stand_in = copy.copy(action)
    stand_in.choices = [*shown, "…"] if more else shown
    return stand_in


def _first(choices: Any) -> "tuple[list[Any] | None, bool]":
    """The first choices and whether there are more; None where they can only be asked for."""
    try:
        shown = list(islice(iter(choices), ITEMS + 1))
    except TypeError:
        return None, False
    if isinstance(choices, (set, frozenset)):
        shown = sorted(choices, key=text_of)
    return shown[:ITEMS], len(shown) > ITEMS


def usage_of(parser: argparse.ArgumentParser, *, extra: bool) -> str:
    """Return the parser's usage as argparse writes it; with `extra`, it shows that further arguments are passed on."""
    try:
        usage = parser.format_usage()
    except AssertionError:  # argparse cannot break a line at some metavars; in a wide terminal it need not
        before = os.environ.get("COLUMNS")
        os.environ["COLUMNS"] = "100000"
        try:
            usage = parser.format_usage()
        finally:
            if before is None:
                del os.environ["COLUMNS"]
            else:
                os.environ["COLUMNS"] = before
    return usage.strip() + (" [EXTRA ...]" if extra else "")


def describe_arguments(parser: argparse.ArgumentParser) -> "list[dict[str, Any]]":
    """Return an entry for every argument that the parser's help shows."""
    formatter = parser._get_formatter()
    return [
        _describe(action, parser, formatter)
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction) and action.help is not argparse.SUPPRESS
    ]


def _describe(
    action: argparse.Action, parser: argparse.ArgumentParser, formatter: argparse.HelpFormatter
) -> "dict[str, Any]":
    dest = _label(action)
    remarks = list(_exclusions(action, parser))
    choices = None
    if isinstance(action.choices, Iterator):
        action.choices = list(islice(action.choices, ITEMS + 1))  # can be read only once
    if action.choices is not None:
        shown, more = _first(action.choices)
        choices = None if shown is None else [plain(each, action.type) for each in shown]
        if shown is None:
            remarks.append("only certain values are accepted, which cannot be listed")
        elif more:
            remarks.append(f"only the first {ITEMS} choices are listed")
    text = "\n".join(
        part
        for part in (
            _expanded(action, formatter),
            f"({'; '.join(remarks)})" if remarks else "",
            _subcommands(action) if isinstance(action, argparse._SubParsersAction) else "",
        )
        if part
    )
    return {
        "flags": list(action.option_strings) or [dest],
        "dest": dest,
        "type": _type(action),
        "default": None if action.default is argparse.SUPPRESS else plain(action.default, action.type),
        "required": _required(action),
        "choices": choices,
        "help": text[:_HELP] if text or action.help is not None else None,
        "nargs": action.nargs if action.nargs is None or type(action.nargs) in (int, str) else text_of(action.nargs),
    }


def _label(action: argparse.Action) -> str:
    if action.dest and action.dest != argparse.SUPPRESS:
        return str(action.dest)
    return action.metavar if isinstance(action.metavar, str) else "command"


def _type(action: argparse.Action) -> "str | None":
    """The name of the conversion; None for a flag or an option whose text is taken as it is, as quickie has it."""
    if action.type is None:
        return None if action.option_strings else "str"
    kind: Any = action.type
    while not isinstance(getattr(kind, "__name__", None), str) and hasattr(kind, "func"):
        kind = kind.func  # functools.partial
    name = getattr(kind, "__name__", None)
    return name if isinstance(name, str) else text_of(kind)


def _required(action: argparse.Action) -> bool:
    """Whether argparse fails without it; it marks some positionals as required that may be left out."""
    if not action.option_strings and action.nargs in ("*", "?", argparse.REMAINDER, argparse.SUPPRESS, 0):
        return False
    return bool(action.required)


def _exclusions(action: argparse.Action, parser: argparse.ArgumentParser) -> "Iterator[str]":
    for group in parser._mutually_exclusive_groups:
        members = [each for each in group._group_actions if each.help is not argparse.SUPPRESS]
        if action in members and (len(members) > 1 or group.required):
            if group.required and len(members) == 1:
                yield "it is required"
            elif group.required:
                yield "exactly one is required of " + ", ".join(map(_flag, members))
            else:
                yield "not together with " + ", ".join(_flag(each) for each in members if each is not action)


def _flag(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else _label(action)


def _expanded(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    if action.help is None:
        return ""
    if _STRAY_PERCENT.search(str(action.help)):
        return str(action.help)  # argparse would fail, or take it for a conversion of everything that it knows
    try:
        text = formatter._expand_help(action)
    except Exception:
        text = action.help  # it names what argparse does not know, at which `--help` fails
    return str(text)


def _subcommands(action: "argparse._SubParsersAction[Any]") -> str:
    names: dict[int, list[str]] = {}
    for name, parser in action.choices.items():
        names.setdefault(id(parser), []).append(name)
    helps = {each.dest: each.help for each in action._choices_actions if each.help}
    lines = []
    for own in list(names.values())[:_SUBCOMMANDS]:
        about = helps.get(own[0])
        if about == argparse.SUPPRESS:
            continue
        called = f"{own[0]} (or {', '.join(own[1:])})" if own[1:] else own[0]
        lines.append(f"{called}: {about}" if about else called)
        lines.append("  " + " ".join(usage_of(action.choices[own[0]], extra=False).split()))
    if len(names) > _SUBCOMMANDS:
        lines.append("…")
    return "\n".join(lines)
