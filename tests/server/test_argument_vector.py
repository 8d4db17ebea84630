"""The words of a call: argparse reads back exactly the values of the parameters, whatever they are."""

import argparse
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from qk_mcp.errors import InvalidInput
from qk_mcp.server.argument_vector import argument_vector
from qk_mcp.server.task_parameters import Parameter, input_schema, task_parameters
from qk_mcp.tasks.catalog import Task
from tests.support.parsers import RESERVED, Parser, make, task_of


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
NUMBERS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**53) + 1, 2**53 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
}
NARGS = (None, "?", "*", "+", 1, 2)


def values_of(action: argparse.Action, kind: str) -> st.SearchStrategy[Any]:
    """Return values that the schema of the action's parameter allows."""
    one = NUMBERS.get(action.type, WORDS)
    nargs: Any = action.nargs
    least, most = {"?": (0, 1), "*": (0, 3), "+": (1, 3), "...": (0, 3)}.get(nargs, (nargs, nargs))
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
    names = draw(
        st.lists(st.sampled_from(["x", "long", "longer", "y", "5", "flag", "timeout"]), unique=True, max_size=5)
    )
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
        kind: Any = draw(st.sampled_from([None, None, int]))
        parser.add_argument(f"p{number}", type=kind, nargs=draw(st.sampled_from([*NARGS, argparse.REMAINDER])))
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
            return flattened(value)
        case argparse._AppendAction() if action.nargs == "?":
            return [each[0] if each else None for each in value]
    if action.nargs == "?" and action.option_strings:
        return value[0] if value else None
    return value


def flattened(value: Any) -> list[Any]:
    return [word for each in value for word in flattened(each)] if isinstance(value, list) else [value]


def may_be_refused(parser: Parser, values: Sequence[tuple[argparse.Action, Any]]) -> bool:
    """Return whether no command line may carry these values: the reasons that the documentation gives."""
    words = [str(word) for _, value in values for word in flattened(value)]
    positionals = [action for action in parser._actions if not action.option_strings]
    special = (*parser.prefix_chars, *(parser.fromfile_prefix_chars or ""))
    odd = any(word.startswith(special) or word == "--" for word in words)
    loose = sum(action.nargs in ("?", "*", "+", argparse.REMAINDER) for action in positionals) > 1
    open_ = any(action.nargs in ("?", "*", "+") for action, _ in values if action.option_strings)
    rest_first = bool(positionals) and positionals[0].nargs == argparse.REMAINDER
    return odd or loose or (open_ and rest_first)


@pytest.mark.long
@settings(max_examples=50)
@given(calls())
def test_argparse_reads_back_the_values(call: tuple[Parser, list[tuple[argparse.Action, Any]]]) -> None:
    check(*call)


@pytest.mark.long
@settings(max_examples=1_000)
@given(calls())
def test_argparse_reads_back_any_values(call: tuple[Parser, list[tuple[argparse.Action, Any]]]) -> None:
    check(*call)


def check(parser: Parser, values: Sequence[tuple[argparse.Action, Any]]) -> None:
    """Check that argparse reads exactly the values from the words of the call."""
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


# Single facts


def test_a_value_that_looks_like_an_option_stays_a_value() -> None:
    parser = make(("--name", {}), ("paths", {"nargs": "*"}))
    assert vector(parser, name="-x", paths=["a"]) == ["--name=-x", "a"]
    assert vector(parser, paths=["-x", "--name"]) == ["--", "-x", "--name"]
    assert vector(parser, name="") == ["--name="]


def test_flags_counts_and_negations() -> None:
    boolean = {"action": argparse.BooleanOptionalAction}
    parser = make(("-v", "--verbose", {"action": "count"}), ("--fast", {"action": "store_true"}), ("--color", boolean))
    assert vector(parser, verbose=2, fast=True, color=False) == ["--verbose", "--verbose", "--fast", "--no-color"]
    assert vector(parser, fast=False, color=True) == ["--color"]
    assert vector(parser, fast="true", verbose="1", color=None) == ["--verbose", "--fast"]


def test_an_option_with_several_values_does_not_swallow_a_positional() -> None:
    parser = make(("--files", {"nargs": "+"}), ("--n", {"type": int}), ("target", {}))
    assert vector(parser, files=["a", "b"], target="t") == ["--files", "a", "b", "--", "t"]
    assert vector(parser, files=["a", "b"], n=1, target="t") == ["--files", "a", "b", "--n=1", "t"]


def test_an_optional_value() -> None:
    parser = make(("--cover", {"nargs": "?", "const": "term"}), ("path", {"nargs": "?"}))
    assert vector(parser, cover=[]) == vector(parser, cover=True) == ["--cover"]
    assert vector(parser, cover=["xml"]) == vector(parser, cover="xml") == ["--cover=xml"]
    assert vector(parser, cover=[], path="p") == ["--cover", "--", "p"]
    assert vector(parser, cover=False) == []


def test_lists_may_be_json_in_a_string_and_numbers_text() -> None:
    parser = make(("--n", {"type": int}), ("paths", {"nargs": "*"}))
    assert vector(parser, paths='["a", "b"]', n="3") == ["--n=3", "a", "b"]
    assert vector(parser, paths="one path", n=3.0) == ["--n=3", "one path"]
    assert vector(parser, paths="", n="") == []


def test_a_subcommand_takes_its_own_arguments_from_extra_args() -> None:
    parser = make(("--dry", {"action": "store_true"}))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("add").add_argument("--force", action="store_true")
    commands.add_parser("remove")
    parameters, extra = task_parameters(task_of(parser), RESERVED)
    assert extra
    assert input_schema(parameters, extra, {})["properties"]["command"]["enum"] == ["add", "remove"]
    words = vector(parser, command="add", dry=True, extra_args=["--force"])
    assert words == ["--dry", "add", "--force"]
    assert vars(parser.parse_args(words)) == {"dry": True, "command": "add", "force": True}


def test_the_rest_of_a_command_line_keeps_its_options() -> None:
    parser = make(("--fast", {"action": "store_true"}), ("program", {}), ("rest", {"nargs": "..."}))
    words = vector(parser, fast=True, program="ls", rest=["-l", "--fast", "x"])
    assert vars(parser.parse_args(words)) == {"fast": True, "program": "ls", "rest": ["-l", "--fast", "x"]}


def test_extra_words_come_last() -> None:
    parser = make(("--fast", {"action": "store_true"}), ("name", {}))
    assert vector(parser, extra=True, fast=True, name="n", extra_args=["--more", "x"]) == ["--fast", "n", "--more", "x"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pair": ["-x", "b"]}, "takes '-x' after --pair for an option"),
        ({"pair": ["a"]}, "exactly 2 values, not 1"),
        ({"pair": ["a", "--"]}, "removes '--'"),
        ({"n": True}, "must be an integer, not true"),
        ({"n": [1]}, "must be an integer"),
        ({"fast": "maybe"}, "must be true or false"),
        ({"name": "a\0b"}, "NUL"),
        ({"a": ["1"], "b": ["2"]}, "to other arguments"),
        ({"a": ["@file"]}, "reads a file"),
        ({"extra_args": ["x"]}, "to other arguments"),
    ],
)
def test_what_argparse_cannot_take_is_refused(arguments: dict[str, Any], message: str) -> None:
    parser = make(
        ("--pair", {"nargs": 2}),
        ("--n", {"type": int}),
        ("--fast", {"action": "store_true"}),
        ("--name", {}),
        ("a", {"nargs": "*"}),
        ("b", {"nargs": "*"}),
        fromfile_prefix_chars="@",
    )
    with pytest.raises(InvalidInput, match=message):
        vector(parser, **arguments)


def test_a_required_parameter_is_needed() -> None:
    with pytest.raises(InvalidInput, match="required"):
        vector(make(("name", {})))
