"""The parameters of a task's own tool: which argument of the task each one passes, and their JSON schema."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from qk_mcp.tasks.catalog import Argument, Task
from qk_mcp.tasks.usage import is_positional
from qk_mcp.text import one_line, shorten

__all__ = ["EXTRA", "Parameter", "input_schema", "task_parameters"]

EXTRA = "extra_args"
"""The parameter for words that no other parameter can express."""

_PARAMETERS = 50
"""Arguments of a task with a parameter of their own."""
_VALUES = 100
"""Values of an argument that takes a fixed number of them."""
_NAME_LENGTH = 60
_HELP_LENGTH = 300
"""Characters of the help of one parameter: a model reads all of it in each request."""
_CHOICES = 100
"""Choices from which a guest does not report all of them."""
_CHOICES_LENGTH = 1_000
"""Characters of choices that a schema lists."""

type Kind = Literal["switch", "boolean", "count", "value", "list", "repeated", "groups"]
"""The form of a parameter's value, and the words that it becomes:

- `switch`: true is the flag.
- `boolean`: true and false are a flag each.
- `count`: a number of flags.
- `value`: one value.
- `list`: values after one flag, or the values of a positional.
- `repeated`: values with a flag each.
- `groups`: lists of values with a flag each.
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool."""

    name: str
    argument: Argument
    kind: Kind

    @property
    def positional(self) -> bool:
        """Whether the argument has no flag."""
        return is_positional(self.argument)


def task_parameters(task: Task, reserved: Collection[str]) -> tuple[tuple[Parameter, ...], bool]:
    """Return the parameters of a task's tool, and whether the tool also has `EXTRA`.

    The names in `reserved` are parameters of every such tool.
    """
    parameters: list[Parameter] = []
    taken = {*reserved, EXTRA}
    complete = not task.error and not task.syntax.hidden
    for argument in task.args:
        kind = _kind(argument)
        if argument.action == "version" or (is_positional(argument) and task.syntax.hidden):
            continue
        if kind is None or len(parameters) == _PARAMETERS:
            complete = False
            continue
        name = _free_name(_name(argument, task.syntax.prefixes, kind), taken)
        taken.add(name)
        parameters.append(Parameter(name, argument, kind))
        complete = complete and argument.action != "command"
    return tuple(parameters), task.syntax.extra or not complete


def input_schema(parameters: Collection[Parameter], extra: bool, common: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a tool's input. `common` has the schemas of the parameters of every such tool."""
    properties = {parameter.name: _schema(parameter) for parameter in parameters}
    if extra:
        properties[EXTRA] = {
            "type": "array",
            "items": {"type": "string"},
            "description": "More words for the end of the command line, one per item, untouched.",
        }
    required = [parameter.name for parameter in parameters if parameter.argument.required]
    return {
        "type": "object",
        "properties": properties | common,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _kind(argument: Argument) -> Kind | None:
    """Return the kind of the argument's parameter; None if no parameter can express its values."""
    nargs = argument.nargs
    if not argument.flags:
        return None
    if is_positional(argument):
        if nargs in (None, "?") or (argument.action == "command" and nargs == "A..."):
            return "value"
        return "list" if nargs in ("*", "+", "...") or _is_number(nargs) else None
    match argument.action:
        case "boolean":
            return "boolean" if 0 < len(_negative_flags(argument)) < len(argument.flags) else "switch"
        case "switch" | "count" as action:
            return action
        case "append" | "extend" if nargs is None:
            return "repeated"
        case "extend" if nargs in (1, "*", "+"):
            return "repeated"
        case "append" | "extend":
            return "groups" if nargs in ("?", "*", "+") or _is_number(nargs) else None
    if nargs is None:
        return "value"
    return "list" if nargs in ("?", "*", "+") or _is_number(nargs) else None


def _is_number(nargs: str | int | None) -> bool:
    return isinstance(nargs, int) and 0 < nargs <= _VALUES


def _negative_flags(argument: Argument) -> list[str]:
    """Return the flags by which an `argparse.BooleanOptionalAction` becomes false."""
    return [flag for flag in argument.flags if flag.startswith("--no-")]


def _name(argument: Argument, prefixes: str, kind: Kind) -> str:
    """Return the name of the long flag, or the argument's own if there is none."""
    words = [flag for flag in argument.flags if len(flag) > 2 and flag[0] in prefixes and flag[1] in prefixes]
    if kind == "boolean":
        words = [flag for flag in words if not flag.startswith("--no-")]
    if not words:
        words = [argument.flags[0] if kind == "switch" and argument.flags else argument.dest]
    name = re.sub(r"[^A-Za-z0-9]+", "_", words[0]).strip("_")
    return name[:_NAME_LENGTH] or "argument"


def _free_name(name: str, taken: Collection[str]) -> str:
    if name not in taken:
        return name
    candidates = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (f"task_{name}", *candidates) if each not in taken)


def _schema(parameter: Parameter) -> dict[str, Any]:
    argument = parameter.argument
    description = {"description": " ".join(_description(parameter))}
    match parameter.kind:
        case "switch" | "boolean":
            return {"type": "boolean"} | _default(parameter) | description
        case "count":
            return {"type": "integer", "minimum": 0} | description
        case "value":
            return _value(argument) | _default(parameter) | description
    items: dict[str, Any] = {"type": "array", "items": _value(argument)}
    if parameter.kind != "repeated":
        items |= _bounds(argument)
    if parameter.kind == "groups":
        items = {"type": "array", "items": items}
    return items | _default(parameter) | description


def _value(argument: Argument) -> dict[str, Any]:
    """Return the schema of one value."""
    type_ = {"int": "integer", "float": "number"}.get(argument.number or "", "string")
    choices = _choices(argument)
    return {"type": type_} | ({"enum": choices} if choices else {})


def _choices(argument: Argument) -> list[Any]:
    """Return the choices if a schema can list all of them."""
    choices = list(argument.choices or ())
    fits = len(choices) < _CHOICES and sum(len(str(choice)) for choice in choices) <= _CHOICES_LENGTH
    return choices if fits and all(_is_value(argument, choice) for choice in choices) else []


def _is_value(argument: Argument, value: Any) -> bool:
    match argument.number:
        case "int":
            return type(value) is int
        case "float":
            return type(value) in (int, float)
    return isinstance(value, str)


def _bounds(argument: Argument) -> dict[str, int]:
    match argument.nargs:
        case "?":
            return {"maxItems": 1}
        case "+":
            return {"minItems": 1}
        case int(count):
            return {"minItems": count, "maxItems": count}
    return {}


def _default(parameter: Parameter) -> dict[str, Any]:
    """Return the default, if passing it has the same effect as leaving the parameter out."""
    argument = parameter.argument
    default = argument.default
    match parameter.kind:
        case "boolean":
            same = isinstance(default, bool)
        case "value":
            same = _is_value(argument, default)
        case "list":
            same = (
                isinstance(default, list)
                and argument.nargs != "?"
                and all(_is_value(argument, each) for each in default)
            )
        case _:
            same = False
    return {"default": default} if same and len(str(default)) <= _HELP_LENGTH else {}


def _description(parameter: Parameter) -> Iterator[str]:
    """Yield sentences; the default is one of them, because some clients remove it from schemas."""
    argument = parameter.argument
    name = argument.dest if parameter.positional else ", ".join(argument.flags)
    help_ = one_line(argument.help or "", _HELP_LENGTH)
    if parameter.kind == "count":
        help_ = f"how often to pass this flag. {help_}".rstrip()
    yield ": ".join(filter(None, (shorten(name, _HELP_LENGTH), help_)))
    if argument.action == "command":
        yield f"Its own arguments: {EXTRA}."
    if argument.choices and not _choices(argument):
        yield "One of " + shorten(", ".join(map(str, argument.choices)), _HELP_LENGTH) + "."
    if argument.nargs == "?" and parameter.kind == "list":
        yield "[] passes the flag without a value."
    if parameter.kind in ("repeated", "groups") and argument.default:
        yield "Added to the default."
    if default := _default(parameter):
        yield f"Default: {default['default']!r}."
