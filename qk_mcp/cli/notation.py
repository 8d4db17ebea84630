"""A task in few words: its arguments as a usage line writes them, and a call that can be copied."""

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from qk_mcp.catalog import Argument, Task

__all__ = ["arguments", "call", "command_line", "is_option", "notation"]

_CHOICES_LENGTH = 30
"""Characters up to which choices are written out in place of a name."""
_EXTRA = "[EXTRA ...]"
"""How a usage ends that takes further arguments (`qk_mcp.guest.arguments.usage_of`)."""


def notation(task: Task) -> str:
    """Return the arguments of a task in one line: what may be left out in brackets, `...` for what may be repeated."""
    return " ".join(arguments(task))


def arguments(task: Task) -> Iterator[str]:
    """Yield the arguments of a task, each in compact notation: positional ones last, as they are typed."""
    for argument in sorted(task.args, key=lambda argument: not is_option(argument)):
        flag = next((flag for flag in argument.flags if flag.startswith("--")), argument.flags[0])
        text = " ".join(filter(None, (flag, _values(argument)))) if is_option(argument) else _values(argument)
        yield text if argument.required or text.startswith("[") else f"[{text}]"
    if task.usage.endswith(_EXTRA):
        yield "[EXTRA...]"


def is_option(argument: Argument) -> bool:
    """Say whether an argument is an option, not a positional one, whose only flag is its own name."""
    return argument.flags != (argument.dest,)


def call(alias: str, task: Task) -> str:
    """Return the JSON of a `run_task` call; what the task requires stands there by name."""
    wanted: dict[str, Any] = {"project": alias, "task_name": task.name}
    if required := _required(task):
        wanted["args"] = required
    return json.dumps(wanted, ensure_ascii=False)


def command_line(alias: str, task: Task) -> str:
    """Return the same for a shell."""
    return shlex.join(["qk-mcp", "run", alias, task.name, *_required(task)])


def _required(task: Task) -> list[str]:
    words: list[str] = []
    for argument in sorted(task.args, key=lambda argument: not is_option(argument)):
        if argument.required:
            words += [argument.flags[-1]] if is_option(argument) else []
            words += [_example(argument)] * (argument.nargs if isinstance(argument.nargs, int) else 1)
    return words


def _example(argument: Argument) -> str:
    return str(argument.choices[0]) if argument.choices else argument.dest.upper()


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
    choices: Sequence[str] = [str(choice) for choice in argument.choices or ()]
    if choices and len(written := "|".join(choices)) <= _CHOICES_LENGTH:
        return written
    return argument.dest.upper()
