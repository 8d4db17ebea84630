"""The words of a call: argparse reads back exactly the values of the parameters, whatever they are."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from qk_mcp.errors import InvalidInput
from qk_mcp.guest.argparse_schema import describe_arguments, describe_syntax
from qk_mcp.server.argument_vector import argument_vector
from qk_mcp.server.task_parameters import EXTRA, Parameter, input_schema, task_parameters
from qk_mcp.tasks.catalog import Task, parse_report

RESERVED = ("stdin", "timeout", "background")


class Parser(argparse.ArgumentParser):
    """Raises what it would print."""

    def error(self, message: str) -> Any:
        raise ValueError(message)


def task_of(parser: argparse.ArgumentParser, *, extra: bool = False) -> Task:
    """Return the task that a guest and the catalogue make of a parser."""
    syntax = describe_syntax(parser) | {"extra": extra}
    report = {"tasks": [{"name": "task", "args": describe_arguments(parser), "syntax": syntax}]}
    (task,) = parse_report(json.loads(json.dumps(report)), Path("/")).tasks
    return task


def parameters_of(task: Task) -> tuple[Parameter, ...]:
    return task_parameters(task, RESERVED)[0]


def vector(parser: argparse.ArgumentParser, *, extra: bool = False, **arguments: Any) -> list[str]:
    """Return the words of a call for a parser."""
    task = task_of(parser, extra=extra)
    return argument_vector(parameters_of(task), task.syntax, arguments)


# Any parser, any values

WORDS = st.sampled_from(
    ["a", "", "-", "-x", "--", "--long", "--lo", "--other=1", "-5", "-.5", "-1 2", "- x", "+x", "@f", "a b", "=", "x=y",
     "é", "--no-flag", "'", "\n", "add"]
) | st.text(alphabet="-+=@ab 1.", max_size=4)  # fmt: skip
NUMBERS = {int: st.integers(-(2**53) + 1, 2**53 - 1), float: st.floats(allow_nan=False, allow_infinity=False)}
NARGS = (None, "?", "*", "+", 1, 2)


def values_of(action: argparse.Action, kind: str) -> st.SearchStrategy[Any]:
    """Return values that the schema of the action's parameter allows."""
    one: st.SearchStrategy[Any] = NUMBERS.get(action.type, WORDS)  # type: ignore[arg-type]
    if action.choices:
        one = st.sampled_from(list(action.choices))
    nargs = action.nargs
    least, most = {"?": (0, 1), "*": (0, 3), "+": (1, 3), "...": (0, 3)}.get(nargs, (nargs, nargs))  # type: ignore
    match kind:
        case "switch" | "boolean":
            return st.booleans()
        case "count":
            return st.integers(0, 3)
        case "value":
            return one
        case "repeated":
            return st.lists(one, min_size=1, max_size=3)
        case "groups":
            return st.lists(st.lists(one, min_size=least, max_size=most), min_size=1, max_size=2)
    return st.lists(one, min_size=least, max_size=most)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Parser, list[tuple[argparse.Action, Any]]]:
    """Draw a parser and a value for some of its actions."""
    prefixes = draw(st.sampled_from(["-", "-", "-", "+-", "+"]))
    parser = Parser(prog="task", prefix_chars=prefixes, fromfile_prefix_chars=draw(st.sampled_from([None, None, "@"])))
    names = draw(st.lists(st.sampled_from(["x", "long", "longer", "y", "5", "flag", "timeout"]), unique=True, max_size=5))
    for name in names:
        prefix = prefixes[0]
        flags = [f"{prefix}{name}"] if len(name) == 1 else [f"{prefix * 2}{name}"]
        form = draw(st.sampled_from(["store", "store", "switch", "off", "count", "boolean", "append", "extend"]))
        options: dict[str, Any] = {"dest": f"o_{name}"}
        match form:
            case "switch":
                options["action"] = "store_true"
            case "off":
                options["action"] = "store_false"
            case "count":
                options["action"] = "count"
            case "boolean" if prefixes == "-" and len(name) > 1:
                options["action"] = argparse.BooleanOptionalAction
            case "append" | "extend" | "store":
                options |= {"action": form, "type": draw(st.sampled_from([None, str, int, float]))}
                options["nargs"] = draw(st.sampled_from(NARGS))
                if form == "extend" and options["nargs"] in (None, "?"):
                    options["nargs"] = "+"  # argparse extends the list by the characters of the value
        parser.add_argument(*flags, **options)
    for number in range(draw(st.integers(0, 3))):
        more: dict[str, Any] = {"nargs": draw(st.sampled_from([*NARGS, argparse.REMAINDER]))}
        parser.add_argument(f"p{number}", type=draw(st.sampled_from([None, None, int])), **more)
    given_values = []
    by_flags = {parameter.argument.flags: parameter for parameter in parameters_of(task_of(parser))}
    for action in parser._actions[1:]:
        parameter = by_flags[tuple(action.option_strings) or (action.dest,)]
        if parameter.argument.required or draw(st.booleans()):
            given_values.append((action, draw(values_of(action, parameter.kind))))
    return parser, given_values


def expected(action: argparse.Action, value: Any) -> Any:
    """Return what argparse makes of a value, taken from its documentation."""
    match action:
        case argparse._CountAction():
            return value or None
        case argparse._StoreTrueAction() | argparse.BooleanOptionalAction():
            return value
        case argparse._StoreFalseAction():
            return not value
        case argparse._ExtendAction():
            return [word for each in value for word in (each if isinstance(each, list) else [each])]
        case argparse._AppendAction() if action.nargs == "?":
            return [each[0] if each else None for each in value]
    if action.nargs == "?" and action.option_strings:
        return value[0] if value else None
    return value


def may_be_refused(parser: Parser, values: Sequence[tuple[argparse.Action, Any]]) -> bool:
    """Return whether no command line may carry these values: the reasons that the documentation gives."""
    words: list[tuple[argparse.Action, Any]] = []
    for action, value in values:
        nested = value if isinstance(value, list) else [value]
        flat = [word for each in nested for word in (each if isinstance(each, list) else [each])]
        words += [(action, word) for word in flat if isinstance(word, str) or not isinstance(word, bool)]
    positionals = [action for action in parser._actions if not action.option_strings]
    odd = any(
        str(word)[:1] in (*parser.prefix_chars, *(parser.fromfile_prefix_chars or "")) and str(word) for _, word in words
    ) or any(word == "--" for _, word in words)
    loose = sum(action.nargs in ("?", "*", "+", argparse.REMAINDER) for action in positionals) > 1
    open_ = any(action.nargs in ("?", "*", "+") for action, _ in values if action.option_strings)
    rest_first = bool(positionals) and positionals[0].nargs == argparse.REMAINDER
    return odd or loose or (open_ and rest_first)


@settings(max_examples=500)
@given(calls())
def test_argparse_reads_back_the_values(call: tuple[Parser, list[tuple[argparse.Action, Any]]]) -> None:
    parser, values = call
    task = task_of(parser)
    parameters = parameters_of(task)
    schema = input_schema(parameters, extra=False, common={})
    by_flags = {parameter.argument.flags: parameter.name for parameter in parameters}
    arguments = {by_flags[tuple(action.option_strings) or (action.dest,)]: value for action, value in values}
    Draft202012Validator(schema).validate(arguments)
    try:
        words = argument_vector(parameters, task.syntax, arguments)
    except InvalidInput:
        assert may_be_refused(parser, values)
        return
    read = vars(parser.parse_args(words))
    for action, value in values:
        assert read[action.dest] == expected(action, value) or (value == [] and not action.option_strings), words
    named = {action.dest for action, _ in values}
    for action in parser._actions[1:]:
        if action.dest not in named and not (action.nargs in ("*", argparse.REMAINDER) and not read[action.dest]):
            assert read[action.dest] == action.default, words
