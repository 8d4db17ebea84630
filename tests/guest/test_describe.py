"""What a listing says is what argparse accepts, is readable, and comes even where quickie's own cannot."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.guests import describe, listed, run

type Make = Callable[..., Path]

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

_BROKEN = """
    from quickie import Arg, Namespace, Task, task

    @task(aliases=["ok"])
    def fine():
        '''Works.'''
        print("fine")

    class Exits(Task):
        def add_args(self, parser):
            raise SystemExit(3)

    class Raises(Task):
        '''Has a text.'''
        def add_args(self, parser):
            parser.add_argument("--x", type=5)

    class Speechless(Task):
        def get_help(self):
            raise OSError("no help")

    class Elusive(Task):
        @property
        def parser(self):
            raise BaseException("not even an Exception")

    exits, raises, speechless, elusive = Exits(), Raises(), Speechless(), Elusive()
    odd = fine.__class__("odd", aliases=["also-odd"])
    no_aliases = fine.__class__("no-aliases", aliases=7)
"""

_BROKEN_NAMESPACES = """
    from quickie import Namespace, namespace, task

    @task
    def fine():
        print("fine")

    @namespace
    def missing():
        import not_there_at_all
        return [fine]

    @namespace
    def exits():
        raise SystemExit("gone")

    @namespace(path="good")
    def works():
        return [fine]

    circle = Namespace(path="circle")
    other = Namespace(path="other")
    circle.add(other)
    other.add(circle)
    itself = Namespace({"x": fine}, path="itself")
    itself.add(itself)
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.projects import make_project

    return make_project(tmp_path_factory.mktemp("odd") / "project", _ODD)


@pytest.fixture(scope="module")
def told(odd: Path) -> dict[str, Any]:
    return listed(odd)


def _arguments(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    assert "error" not in task
    return {argument["dest"]: argument for argument in task["args_schema"]}


def test_defaults_that_json_cannot_hold_are_readable(told: dict[str, Any]) -> None:
    shown = {dest: argument["default"] for dest, argument in _arguments(told["values"]).items()}
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


def test_types_have_names(told: dict[str, Any]) -> None:
    arguments = _arguments(told["values"])
    names = {dest: arguments[dest]["type"] for dest in ("path", "partial", "callable", "lambda", "unnamed", "set")}
    assert names == {
        "path": "Path",
        "partial": "int",
        "callable": "<NotNamed>",
        "lambda": "<lambda>",
        "unnamed": "parse",
        "set": None,
    }


def test_choices_are_what_is_to_be_written_and_bounded(told: dict[str, Any], odd: Path) -> None:
    values, choices = _arguments(told["values"]), _arguments(told["choices"])
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
    assert "{a,m,z}" in told["choices"]["usage"]
    assert len(told["choices"]["usage"]) < 2_000


def test_required_says_what_argparse_will_refuse(told: dict[str, Any], odd: Path) -> None:
    truth = _arguments(told["truth"])
    assert {dest: argument["required"] for dest, argument in truth.items() if argument["required"]} == {"needed": True}
    assert [argument["required"] for argument in told["rest"]["args_schema"]] == [True, False]
    assert run(odd, "truth", "--needed", "1").exit_code == 0
    assert run(odd, "rest", "1").exit_code == 0


def test_help_is_expanded_and_suppressed_arguments_are_left_out(told: dict[str, Any]) -> None:
    truth = _arguments(told["truth"])
    assert truth["default"]["help"] == "it is 5, of int; 100%"
    assert truth["stray"]["help"] == "50% of it"
    assert truth["sure"]["help"] == "100% sure"
    assert truth["absent"]["default"] is None
    assert truth["any"]["help"] is None
    assert "hidden" not in truth
    assert _arguments(told["defaults"])["size"]["help"] == "how large (default: 3)"


def test_what_excludes_what_is_said(told: dict[str, Any]) -> None:
    groups = _arguments(told["groups"])
    assert groups["json"]["help"] == "as JSON\n(not together with --text)"
    assert groups["text"]["help"] == "(not together with --json)"
    assert groups["this"]["help"] == "(exactly one of --this, --that is required)"
    assert "[--json | -t] (--this THIS | --that THAT)" in told["groups"]["usage"]


def test_subcommands_are_shown_with_their_usage(told: dict[str, Any]) -> None:
    (command,) = told["subcommands"]["args_schema"]
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


def test_extra_arguments_are_shown_in_the_usage(told: dict[str, Any], odd: Path) -> None:
    assert told["extra"]["usage"] == "usage: extra [-h] [--flag FLAG] [EXTRA ...]"
    assert run(odd, "extra", "a", "--unknown").stdout == "('a', '--unknown') None\n"


def test_a_usage_that_argparse_cannot_break_into_lines_comes_in_one(told: dict[str, Any]) -> None:
    assert "--option-19" in told["unbreakable"]["usage"]
    assert "error" not in told["unbreakable"]


def test_two_listings_are_the_same(told: dict[str, Any], odd: Path) -> None:
    """Neither addresses in memory nor the order of sets, which differ in each process, show."""
    assert listed(odd, PYTHONHASHSEED="1") == listed(odd, PYTHONHASHSEED="2") == told


def test_the_report_is_plain_json(odd: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(json.dumps(describe(odd)), parse_constant=refuse)


def test_a_task_that_cannot_be_described_costs_only_itself(make: Make, python: Path) -> None:
    root = make(_BROKEN)
    report = describe(root, python)
    tasks = {task["name"]: task for task in report["tasks"]}
    failures = {name: task["error"]["type"] for name, task in tasks.items() if "error" in task}
    assert failures == {
        "exits": "SystemExit",
        "raises": "ValueError",
        "speechless": "OSError",
        "elusive": "BaseException",
    }
    assert tasks["fine"]["aliases"] == ["ok"]
    assert tasks["odd"]["aliases"] == ["also-odd"]
    assert tasks["raises"]["help"] == "Has a text."
    assert tasks["raises"]["error"]["frames"][-1]["code"] == 'parser.add_argument("--x", type=5)'
    assert [problem["name"] for problem in report["problems"]] == ["no_aliases"]
    for name in ("fine", "ok", "also-odd"):
        assert run(root, name, python=python).stdout == "fine\n"


def test_a_namespace_that_fails_costs_only_itself(make: Make, python: Path) -> None:
    if "0.6" in str(python):
        pytest.skip("quickie 0.6 has no lazy namespaces")
    root = make(_BROKEN_NAMESPACES)
    report = describe(root, python)
    names = [task["name"] for task in report["tasks"]]
    problems = {problem["name"][:10]: problem["error"]["type"] for problem in report["problems"]}
    assert problems["missing"] == "ModuleNotFoundError"
    assert problems["exits"] == "SystemExit"
    assert "fine" in names
    assert "good:fine" in names + report["tasks"][names.index("fine")]["aliases"]
    for name in ("fine", "good:fine"):
        assert run(root, name, python=python).stdout == "fine\n"
    assert run(root, "missing:fine", python=python).event["event"] == "unknown"
    assert run(root, "god:fine", python=python).event["near"][0] == "good:fine"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import not_there", {"type": "ModuleNotFoundError", "missing": "not_there"}),
        ("from . import nothing", {"type": "ImportError"}),
        ("from .nothing import x", {"type": "ModuleNotFoundError"}),
        ("x = (", {"type": "SyntaxError"}),
        ("raise SystemExit", {"type": "SystemExit", "exit_code": 0}),
        ("import sys; sys.exit('bye')", {"type": "SystemExit", "exit_code": 1, "message": "bye"}),
        ("raise KeyboardInterrupt", {"type": "KeyboardInterrupt"}),
        ("def deep(): deep()\ndeep()", {"type": "RecursionError"}),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})", {"type": "Odd"}),
        ("raise ExceptionGroup('several', [ValueError('one'), KeyError('two')])", {"type": "ExceptionGroup"}),
    ],
)
def test_a_module_that_fails_says_where(line: str, expected: dict[str, Any], make: Make) -> None:
    root = make({"_qk/__init__.py": f"a = 1\n\n{line}\n"})
    error = describe(root)["error"]
    assert {key: error.get(key) for key in expected} == expected
    assert "missing" in expected or "missing" not in error
    place = error["frames"][-1]
    assert place["file"] == str(root / "_qk" / "__init__.py")
    assert place["line"] >= 3
    assert place["code"]
    broken = run(root, "any")
    assert broken.event == {"event": "broken", "error": error}


def test_causes_notes_and_groups_are_told(make: Make) -> None:
    root = make(
        """
        try:
            try:
                {}["key"]
            except KeyError as error:
                raise ValueError("bad value") from error
        except ValueError as error:
            error.add_note("look at the key")
            raise ExceptionGroup("several", [error, TypeError("bad type")])
        """
    )
    error = describe(root)["error"]
    assert [part["message"] for part in error["errors"]] == ["bad value\nlook at the key", "bad type"]
    assert [cause["type"] for cause in error["causes"]] == ["ValueError", "KeyError"]


@pytest.mark.parametrize(
    "line",
    [
        "print('x' * 1_000_000)",
        "assert sys.stdin.read() == ''",
        "os.chdir('/')",
        "sys.stdout = sys.stderr = None",
        "os.closerange(0, 1000)",
        "threading.Thread(target=time.sleep, args=(60,)).start()",
        "subprocess.Popen(['sleep', '3'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
        "os.environ.clear()",
        "sys.path.clear()",
        "os.fork()",
        "sys.setrecursionlimit(120)",
        "sys.modules['_qk'] = sys.modules['_qk']",
        "atexit.register(lambda: 1 / 0)",
    ],
)
def test_what_an_import_does_does_not_reach_the_listing(line: str, make: Make) -> None:
    modules = "atexit, os, subprocess, sys, threading, time"
    root = make(f"import {modules}\nfrom quickie import task\n{line}\n@task\ndef fine():\n    '''Still here.'''\n")
    assert listed(root)["fine"]["help"] == "Still here."


@pytest.mark.parametrize("name", ["_qk", "with space/_qk", "Grüße 'and' \"quotes\"/_qk"])
def test_any_directory_will_do_also_by_a_link(name: str, make: Make, tmp_path: Path) -> None:
    root = make("from quickie import task\nfrom .sub import x\n@task\ndef hello(): pass\n")
    (root / "_qk" / "sub.py").write_text("x = 1\n")
    link = tmp_path / "elsewhere" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(root / "_qk")
    assert listed(link.parent)["hello"]["location"] == "_qk/__init__.py:3"


def test_another_tasks_module_on_the_path_does_not_win(make: Make) -> None:
    other = make("raise RuntimeError('the wrong one')\n", "other")
    root = make("from quickie import task\nassert __file__\n@task\ndef right(): print('right')\n")
    assert "right" in listed(root, PYTHONPATH=str(other))
    assert run(root, "right", PYTHONPATH=str(other)).stdout == "right\n"


def test_nothing_is_left_in_the_project(make: Make, python: Path) -> None:
    root = make(
        {"_qk/__init__.py": "from quickie import task\nfrom . import sub\n@task\ndef t(): pass", "_qk/sub.py": ""}
    )
    (root / "_qk" / "sub.py").touch()
    before = sorted(root.rglob("*"))
    listed(root, python)
    run(root, "t", python=python)
    assert sorted(root.rglob("*")) == before


def test_a_read_only_project_is_described(make: Make) -> None:
    root = make("from quickie import task\n@task\ndef t(): print(1)\n")
    for path in (root / "_qk" / "__init__.py", root / "_qk", root):
        path.chmod(0o555)
    try:
        assert "t" in listed(root)
        assert run(root, "t").stdout == "1\n"
    finally:
        root.chmod(0o755)
        (root / "_qk").chmod(0o755)


def test_an_old_quickie_is_named(make: Make, tmp_path: Path) -> None:
    old = tmp_path / "old" / "quickie"
    old.mkdir(parents=True)
    (old / "__init__.py").touch()
    (old / "_meta.py").write_text("__version__ = '0.5.1'\n")
    error = describe(make(""), PYTHONPATH=str(old.parent))["error"]
    assert (error["type"], error["message"]) == ("OldQuickie", "0.5.1")


def test_no_quickie_is_named(make: Make, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    error = describe(make(""), tmp_path / "bare" / "bin" / "python")["error"]
    assert error["missing"] == "quickie"
