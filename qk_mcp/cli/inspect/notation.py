"""The notation of `inspect`: a task's arguments, and calls of the task to copy."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from qk_mcp.cli.own_command import own_command
from qk_mcp.tasks.catalog import Argument, Task
from qk_mcp.tasks.usage import argument_values, is_positional, value_name

__all__ = ["choices_in_name", "command_line", "tool_call", "with_flags"]


def with_flags(argument: Argument) -> str:
    """Return an argument with all its flags and its values: `-j, --jobs JOBS`."""
    if is_positional(argument):
        return argument_values(argument)
    return " ".join(filter(None, (", ".join(argument.flags), argument_values(argument))))


def choices_in_name(argument: Argument) -> bool:
    """Return whether the name of an argument's value lists its choices."""
    return bool(argument.choices) and argument.dest.upper() != value_name(argument)


def tool_call(alias: str, task: Task) -> str:
    """Return a `run_task` call as JSON, with a placeholder for each required argument."""
    arguments: dict[str, Any] = {"project": alias, "task_name": task.name}
    if required := _required(task):
        arguments["args"] = required
    return json.dumps(arguments, ensure_ascii=False)


def command_line(alias: str, task: Task, options: Sequence[str]) -> str:
    """Return the same call for a shell; `options` declare the project."""
    return shlex.join([*own_command(), "run", *options, alias, task.name, *_required(task)])


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
