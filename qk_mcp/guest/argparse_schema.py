"""Describes the arguments of an argparse parser with the eight keys of quickie's own JSON listing.

Two more keys, `action` and `number`, say how values are passed.
"""

import argparse
import copy
import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .json_values import ITEMS, short_text, to_json

__all__ = ["describe_arguments", "describe_syntax", "limit_choices", "usage_of"]

_HELP = 20_000
"""Characters of one argument's help."""
_STRAY_PERCENT = re.compile(r"(?<!%)(?:%%)*%(?![%(])")
_SUBCOMMANDS = 50
"""Subcommands whose usage is added to the help of their argument."""


def limit_choices() -> None:
    """Make argparse in this process format at most a hundred choices of an argument.

    It formats all choices, even while an argument is added: a range of a hundred
    million takes minutes. Sets are sorted, so that each process formats the same text.
    """
    formatter: Any = argparse.HelpFormatter
    format_choices, expand_help = formatter._metavar_formatter, formatter._expand_help

    def format_few(self: Any, action: Any, default: Any) -> Any:
        # With a metavar, no choice is formatted; an iterator of choices must not be consumed then.
        return format_choices(self, action if action.metavar is not None else _with_few_choices(action), default)

    def expand_with_few(self: Any, action: Any) -> Any:
        return expand_help(self, _with_few_choices(action))

    formatter._metavar_formatter, formatter._expand_help = format_few, expand_with_few


def _with_few_choices(action: Any) -> Any:
    choices = getattr(action, "choices", None)
    if choices is None or isinstance(choices, (dict, str)):
        return action
    if isinstance(choices, (list, tuple)) and len(choices) <= ITEMS:
        return action
    shown, more = _first(choices)
    if shown is None:
        return action  # argparse reports the error
    stand_in = copy.copy(action)
    stand_in.choices = [*shown, "…"] if more else shown
    return stand_in


def _first(choices: Any) -> "tuple[list[Any] | None, bool]":
    """Return the first choices and whether there are more; None if the container only supports `in`."""
    try:
        shown = list(islice(iter(choices), ITEMS + 1))
    except TypeError:
        return None, False
    if isinstance(choices, (set, frozenset)):
        shown = sorted(choices, key=short_text)
    return shown[:ITEMS], len(shown) > ITEMS


def usage_of(parser: argparse.ArgumentParser, *, extra: bool) -> str:
    """Return the parser's usage; `extra` adds that the task accepts further arguments."""
    try:
        usage = parser.format_usage()
    except AssertionError:  # argparse cannot wrap lines at some metavars; with a wide terminal it does not wrap
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
    """Return an entry for each argument that the parser's help shows."""
    formatter = parser._get_formatter()
    return [
        _describe(action, parser, formatter)
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction) and action.help is not argparse.SUPPRESS
    ]


def describe_syntax(parser: argparse.ArgumentParser) -> "dict[str, Any]":
    """Return how the parser tells words apart: the characters that begin an option or a file of arguments, and whether
    it has a positional that its help does not show.
    """
    hidden = any(not action.option_strings and action.help is argparse.SUPPRESS for action in parser._actions)
    return {"prefixes": parser.prefix_chars, "files": parser.fromfile_prefix_chars or "", "hidden": hidden}


def _describe(
    action: argparse.Action, parser: argparse.ArgumentParser, formatter: argparse.HelpFormatter
) -> "dict[str, Any]":
    dest = _label(action)
    remarks = list(_exclusions(action, parser))
    choices = None
    if isinstance(action.choices, Iterator):
        action.choices = list(islice(action.choices, ITEMS + 1))  # an iterator can be read only once
    if action.choices is not None:
        shown, more = _first(action.choices)
        choices = None if shown is None else [to_json(each, action.type) for each in shown]
        if shown is None:
            remarks.append("only certain values are accepted, but they cannot be listed")
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
        "default": None if action.default is argparse.SUPPRESS else to_json(action.default, action.type),
        "required": _required(action),
        "choices": choices,
        "help": text[:_HELP] if text or action.help is not None else None,
        "nargs": action.nargs if action.nargs is None or type(action.nargs) in (int, str) else short_text(action.nargs),
        "action": _kind(action),
        "number": {int: "int", float: "float"}.get(action.type) if isinstance(action.type, type) else None,
    }


_KINDS: "list[tuple[type, str]]" = [
    (argparse._VersionAction, "version"),
    (argparse._SubParsersAction, "command"),
    (argparse._CountAction, "count"),
    (argparse.BooleanOptionalAction, "boolean"),
    (argparse._ExtendAction, "extend"),
    (argparse._AppendAction, "append"),
]


def _kind(action: argparse.Action) -> str:
    """Return what an occurrence on the command line does; a custom action is told by the number of its values."""
    known = (kind for class_, kind in _KINDS if isinstance(action, class_))
    return next(known, "switch" if action.nargs == 0 else "store")


def _label(action: argparse.Action) -> str:
    if action.dest and action.dest != argparse.SUPPRESS:
        return str(action.dest)
    return action.metavar if isinstance(action.metavar, str) else "command"


def _type(action: argparse.Action) -> "str | None":
    """Return the name of the conversion; as in quickie's listing, None for an option without one."""
    if action.type is None:
        return None if action.option_strings else "str"
    kind: Any = action.type
    while not isinstance(getattr(kind, "__name__", None), str) and hasattr(kind, "func"):
        kind = kind.func  # functools.partial
    name = getattr(kind, "__name__", None)
    return name if isinstance(name, str) else short_text(kind)


def _required(action: argparse.Action) -> bool:
    """Return whether argparse fails without it; argparse marks some optional positionals as required."""
    if not action.option_strings and action.nargs in ("*", "?", argparse.REMAINDER, argparse.SUPPRESS, 0):
        return False
    return bool(action.required)


def _exclusions(action: argparse.Action, parser: argparse.ArgumentParser) -> "Iterator[str]":
    for group in parser._mutually_exclusive_groups:
        members = [each for each in group._group_actions if each.help is not argparse.SUPPRESS]
        if action in members and (len(members) > 1 or group.required):
            if group.required and len(members) == 1:
                yield "required"
            elif group.required:
                yield f"exactly one of {', '.join(map(_flag, members))} is required"
            else:
                yield "not together with " + ", ".join(_flag(each) for each in members if each is not action)


def _flag(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else _label(action)


def _expanded(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    if action.help is None:
        return ""
    if _STRAY_PERCENT.search(str(action.help)):
        return str(action.help)  # argparse would fail or insert all that it knows
    try:
        text = formatter._expand_help(action)
    except Exception:
        text = action.help  # it has an unknown %(name)s, at which `--help` fails
    return str(text)


def _subcommands(action: "argparse._SubParsersAction[Any]") -> str:
    names: dict[int, list[str]] = {}
    for name, parser in action.choices.items():
        names.setdefault(id(parser), []).append(name)
    helps = {each.dest: each.help for each in action._choices_actions if each.help}
    lines = []
    for own in list(names.values())[:_SUBCOMMANDS]:
        help_ = helps.get(own[0])
        if help_ == argparse.SUPPRESS:
            continue
        title = f"{own[0]} (or {', '.join(own[1:])})" if own[1:] else own[0]
        lines.append(f"{title}: {help_}" if help_ else title)
        lines.append("  " + " ".join(usage_of(action.choices[own[0]], extra=False).split()))
    if len(names) > _SUBCOMMANDS:
        lines.append("…")
    return "\n".join(lines)
