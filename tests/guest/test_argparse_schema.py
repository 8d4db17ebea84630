"""Arguments in a listing: true to argparse, readable, bounded, and the same in each process."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.guests import describe, listed, run
from tests.support.projects import make_project

_ODD = """
    import argparse, datetime, enum, functools, math, pathlib, re
    from quickie import Arg, Task, task

    class Colour(enum.Enum):
        RED = "red"
        BLUE = "blue"

    class Size(enum.StrEnum):
        SMALL = "s"
        LARGE = "l"

    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 2

    class Unspeakable:
        def __repr__(self):
            raise RuntimeError("no")

    class OnlyAsked:
        def __contains__(self, value):
            return value == "yes"

    def parse(text):
        return text

    class NotNamed:
        def __call__(self, text):
            return text

    @task(args=[
        Arg("--path", type=pathlib.Path, default=pathlib.Path("a/b")),
        Arg("--colour", type=Colour, choices=list(Colour), default=Colour.RED),
        Arg("--by-name", type=Colour.__getitem__, choices=list(Colour), default=Colour.BLUE),
        Arg("--by-value", type=lambda text: Colour(text), choices=list(Colour), default=Colour.BLUE),
        Arg("--text", type=str, choices=list(Size), default=Size.SMALL),
        Arg("--lower", type=str.lower, choices=list(Size)),
        Arg("--number", type=int, choices=list(Level), default=Level.HIGH),
        Arg("--day", type=datetime.date.fromisoformat, default=datetime.date(2024, 2, 29)),
        Arg("--set", default={"b", "a", "c"}),
        Arg("--function", default=lambda: 1),
        Arg("--nan", type=float, default=math.nan),
        Arg("--infinite", type=float, default=math.inf),
        Arg("--unspeakable", default=Unspeakable()),
        Arg("--object", default=object()),
        Arg("--bytes", default=b"\\xff"),
        Arg("--big", type=int, default=2 ** 80),
        Arg("--nested", default={"a": [1, (2, {3: None})], 5: pathlib.Path("x")}),
        Arg("--pattern", type=re.compile, default=re.compile("x+")),
        Arg("--surrogate", default="\\ud800"),
        Arg("--long", default="x" * 100_000),
        Arg("--partial", type=functools.partial(int, base=16)),
        Arg("--callable", type=NotNamed()),
        Arg("--lambda", type=lambda text: text),
        Arg("--unnamed", type=functools.partial(functools.partial(parse))),
    ])
    def values(**given):
        pass

    @task(args=[
        Arg("--hundred-million", type=int, choices=range(100_000_000)),
        Arg("--generated", choices=(each for each in "abc"), metavar="LETTER"),
        Arg("--asked", choices=OnlyAsked(), metavar="WORD"),
        Arg("--sorted", choices={"z", "a", "m"}),
        Arg("--empty", choices=[], metavar="NONE"),
        Arg("--keys", choices={"k": 1, "l": 2}),
    ])
    def choices(**given):
        pass

    @task(args=[
        Arg("any", nargs="*"),
        Arg("--needed", required=True),
        Arg("--hidden", help=argparse.SUPPRESS),
        Arg("--default", default=5, help="it is %(default)s, of %(type)s; 100%%", type=int),
        Arg("--stray", help="50% of it"),
        Arg("--sure", help="100% sure"),
        Arg("--absent", default=argparse.SUPPRESS, help="nothing if absent"),
    ])
    def truth(**given):
        print(sorted(given.items()))

    @task(args=[Arg("first"), Arg("rest", nargs="...")])
    def rest(first, rest):
        print(first, rest)

    @task(extra_args=True, args=["--flag"])
    def extra(*args, flag):
        print(args, flag)

    class Groups(Task):
        def add_args(self, parser):
            one = parser.add_mutually_exclusive_group()
            one.add_argument("--json", action="store_true", help="as JSON")
            one.add_argument("-t", "--text", action="store_true")
            two = parser.add_mutually_exclusive_group(required=True)
            two.add_argument("--this")
            two.add_argument("--that")

    groups = Groups()

    class Subcommands(Task):
        def add_args(self, parser):
            commands = parser.add_subparsers(required=True, help="what to do")
            add = commands.add_parser("add", aliases=["plus"], help="adds one")
            add.add_argument("what")
            add.add_argument("--force", action="store_true")
            commands.add_parser("remove").add_argument("which", type=int)

    subcommands = Subcommands()

    class Defaults(Task):
        def get_parser(self, **options):
            return super().get_parser(formatter_class=argparse.ArgumentDefaultsHelpFormatter, **options)

        args = [Arg("--size", default=3, help="how large")]

    defaults = Defaults()

    @task(args=[Arg("--odd", metavar="[a]\\n(b)", help="x" * 10), Arg("--another", metavar="(x|y) z")] + [
        Arg(f"--option-{number}") for number in range(20)
    ])
    def unbreakable(**given):
        pass
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("odd") / "project", _ODD)


@pytest.fixture(scope="module")
def tasks(odd: Path) -> dict[str, Any]:
    return listed(odd)


def _arguments(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    assert "error" not in task
    return {argument["dest"]: argument for argument in task["args_schema"]}


def test_defaults_that_json_cannot_hold_are_readable(tasks: dict[str, Any]) -> None:
    shown = {dest: argument["default"] for dest, argument in _arguments(tasks["values"]).items()}
    long = shown.pop("long")
    assert shown == {
        "path": "a/b",
        "colour": "red",
        "by_name": "BLUE",
        "by_value": "blue",
        "text": "s",
        "lower": None,
        "number": 2,
        "day": "2024-02-29",
        "set": ["a", "b", "c"],
        "function": "<lambda>",
        "nan": "nan",
        "infinite": "inf",
        "unspeakable": "<Unspeakable>",
        "object": "<object>",
        "bytes": "b'\\xff'",
        "big": str(2**80),
        "nested": {"a": [1, [2, {"3": None}]], "5": "x"},
        "pattern": "re.compile('x+')",
        "surrogate": "\ufffd",
        "partial": None,
        "callable": None,
        "lambda": None,
        "unnamed": None,
    }
    assert 1_000 < len(long) < 5_000


def test_types_have_names(tasks: dict[str, Any]) -> None:
    arguments = _arguments(tasks["values"])
    names = {dest: arguments[dest]["type"] for dest in ("path", "partial", "callable", "lambda", "unnamed", "set")}
    assert names == {
        "path": "Path",
        "partial": "int",
        "callable": "<NotNamed>",
        "lambda": "<lambda>",
        "unnamed": "parse",
        "set": None,
    }


@pytest.mark.long
def test_choices_are_words_to_type_and_bounded(tasks: dict[str, Any], odd: Path) -> None:
    values, choices = _arguments(tasks["values"]), _arguments(tasks["choices"])
    assert values["colour"]["choices"] == ["red", "blue"]
    assert values["by_name"]["choices"] == ["RED", "BLUE"]
    assert values["by_value"]["choices"] == ["red", "blue"]
    assert values["text"]["choices"] == values["lower"]["choices"] == ["s", "l"]
    assert values["number"]["choices"] == [1, 2]
    for argument in values.values():
        for word in argument["choices"] or ():
            assert run(odd, "values", argument["flags"][0], str(word)).exit_code == 0
    assert choices["hundred_million"]["choices"] == list(range(100))
    assert "first 100 choices" in choices["hundred_million"]["help"]
    assert choices["generated"]["choices"] == ["a", "b", "c"]
    assert choices["asked"]["choices"] is None
    assert "cannot be listed" in choices["asked"]["help"]
    assert choices["sorted"]["choices"] == ["a", "m", "z"]
    assert choices["empty"]["choices"] == []
    assert choices["keys"]["choices"] == ["k", "l"]
    assert "{a,m,z}" in tasks["choices"]["usage"]
    assert len(tasks["choices"]["usage"]) < 2_000


def test_required_agrees_with_argparse(tasks: dict[str, Any], odd: Path) -> None:
    truth = _arguments(tasks["truth"])
    assert {dest: argument["required"] for dest, argument in truth.items() if argument["required"]} == {"needed": True}
    assert [argument["required"] for argument in tasks["rest"]["args_schema"]] == [True, False]
    assert run(odd, "truth", "--needed", "1").exit_code == 0
    assert run(odd, "rest", "1").exit_code == 0


def test_help_is_expanded_and_suppressed_arguments_are_left_out(tasks: dict[str, Any]) -> None:
    truth = _arguments(tasks["truth"])
    assert truth["default"]["help"] == "it is 5, of int; 100%"
    assert truth["stray"]["help"] == "50% of it"
    assert truth["sure"]["help"] == "100% sure"
    assert truth["absent"]["default"] is None
    assert truth["any"]["help"] is None
    assert "hidden" not in truth
    assert _arguments(tasks["defaults"])["size"]["help"] == "how large (default: 3)"


def test_the_help_names_exclusive_options(tasks: dict[str, Any]) -> None:
    groups = _arguments(tasks["groups"])
    assert groups["json"]["help"] == "as JSON\n(not together with --text)"
    assert groups["text"]["help"] == "(not together with --json)"
    assert groups["this"]["help"] == "(exactly one of --this, --that is required)"
    assert "[--json | -t] (--this THIS | --that THAT)" in tasks["groups"]["usage"]


def test_subcommands_are_shown_with_their_usage(tasks: dict[str, Any]) -> None:
    (command,) = tasks["subcommands"]["args_schema"]
    assert command["flags"] == ["command"]
    assert command["required"] is True
    assert command["choices"] == ["add", "plus", "remove"]
    assert command["help"].splitlines() == [
        "what to do",
        "add (or plus): adds one",
        "  usage: subcommands add [-h] [--force] what",
        "remove",
        "  usage: subcommands remove [-h] which",
    ]


def test_extra_arguments_are_shown_in_the_usage(tasks: dict[str, Any], odd: Path) -> None:
    assert tasks["extra"]["usage"] == "usage: extra [-h] [--flag FLAG] [EXTRA ...]"
    assert run(odd, "extra", "a", "--unknown").stdout == "('a', '--unknown') None\n"


def test_a_usage_that_argparse_cannot_wrap_is_one_line(tasks: dict[str, Any]) -> None:
    assert "--option-19" in tasks["unbreakable"]["usage"]
    assert "error" not in tasks["unbreakable"]


def test_two_listings_are_equal(tasks: dict[str, Any], odd: Path) -> None:
    """Memory addresses and the order of sets differ in each process and must not appear."""
    assert listed(odd, PYTHONHASHSEED="1") == listed(odd, PYTHONHASHSEED="2") == tasks


def test_the_report_is_plain_json(odd: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(json.dumps(describe(odd)), parse_constant=refuse)
