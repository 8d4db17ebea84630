"""A call of a task that can be copied, and its arguments as `inspect` shows them."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from qk_mcp.cli.own_command import program
from qk_mcp.tasks.catalog import Argument, Task
from qk_mcp.tasks.usage import argument_values, is_positional, value_name

__all__ = ["call", "choices_in_name", "command_line", "with_flags"]


def with_flags(argument: Argument) -> str:
    """Return an argument by all its names, and what stands for its value."""
    if is_positional(argument):
        return argument_values(argument)
    return " ".join(filter(None, (", ".join(argument.flags), argument_values(argument))))


def choices_in_name(argument: Argument) -> bool:
    """Say whether what stands for a value tells its choices."""
    return bool(argument.choices) and argument.dest.upper() != value_name(argument)


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
    for argument in sorted(task.args, key=is_positional):
        if argument.required:
            words += [] if is_positional(argument) else [argument.flags[-1]]
            words += [_example(argument)] * (argument.nargs if isinstance(argument.nargs, int) else 1)
    return words


def _example(argument: Argument) -> str:
    if argument.choices:
        return str(argument.choices[0])
    return "1" if argument.type in ("int", "float") else argument.dest.upper()
