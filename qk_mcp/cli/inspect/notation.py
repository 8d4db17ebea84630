"""A task in few words: its arguments as a usage line writes them, and a call that can be copied."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from qk_mcp.cli.own_command import program
from qk_mcp.tasks.catalog import Argument, Task

__all__ = ["call", "choices_in_name", "command_line", "notation", "with_flags"]

_CHOICES_LENGTH = 30
"""Characters up to which choices are written out in place of a name."""
_EXTRA = "[EXTRA ...]"
"""How a usage ends that takes further arguments (`qk_mcp.guest.argparse_schema.usage_of`)."""


def notation(task: Task) -> str:
    """Return the arguments of a task in one line, options first: in brackets what may be left out."""
    words = [_word(argument) for argument in sorted(task.args, key=_is_positional)]
    return " ".join([*words, "[EXTRA...]"] if task.usage.endswith(_EXTRA) else words)


def with_flags(argument: Argument) -> str:
    """Return an argument by all its names, and what stands for its value."""
    if _is_positional(argument):
        return _values(argument)
    return " ".join(filter(None, (", ".join(argument.flags), _values(argument))))


def choices_in_name(argument: Argument) -> bool:
    """Say whether what stands for a value tells its choices."""
    return bool(argument.choices) and argument.dest.upper() != _name(argument)


def _word(argument: Argument) -> str:
    if _is_positional(argument):
        text = _values(argument)
    else:
        flag = next((flag for flag in argument.flags if flag.startswith("--")), argument.flags[0])
        text = " ".join(filter(None, (flag, _values(argument))))
    return text if argument.required or text.startswith("[") else f"[{text}]"


def _is_positional(argument: Argument) -> bool:
    return argument.flags == (argument.dest,)  # its own name stands for a flag


def call(alias: str, task: Task) -> str:
    """Return the JSON of a `run_task` call; what the task requires stands there by name."""
    wanted: dict[str, Any] = {"project": alias, "task_name": task.name}
    if required := _required(task):
        wanted["args"] = required
    return json.dumps(wanted, ensure_ascii=False)


def command_line(alias: str, task: Task, options: Sequence[str]) -> str:
    """Return the same for a shell, with the options that say where the project is declared."""
    return shlex.join([*program(), "run", *options, alias, task.name, *_required(task)])


def _required(task: Task) -> list[str]:
    words: list[str] = []
    for argument in sorted(task.args, key=_is_positional):
        if argument.required:
            words += [] if _is_positional(argument) else [argument.flags[-1]]
            words += [_example(argument)] * (argument.nargs if isinstance(argument.nargs, int) else 1)
    return words


def _example(argument: Argument) -> str:
    if argument.choices:
        return str(argument.choices[0])
    return "1" if argument.type in ("int", "float") else argument.dest.upper()


def _values(argument: Argument) -> str:
    name = _name(argument)
    match argument.nargs:
        case int(count):
            return " ".join([name] * count)
        case "?":
            return f"[{name}]"
        case "*" | "...":
            return f"[{name}...]"
        case "+" | "A...":
            return f"{name}..."
    return name


def _name(argument: Argument) -> str:
    choices = [str(choice) for choice in argument.choices or ()]
    if choices and len(written := "|".join(choices)) <= _CHOICES_LENGTH:
        return written
    return argument.dest.upper()
