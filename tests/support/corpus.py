"""Well-behaved tasks modules: every kind of task, argument, namespace and layout that quickie's documentation has."""

__all__ = ["CORPUS", "since"]

_FUNCTIONS = '''
    """A module's own text."""
    from quickie import Arg, command, group, script, task, thread_group


    @task
    def hello():
        """Say hello.

        At length, with a second paragraph
        that goes over two lines.
        """
        print("hello")

    @task()
    def bare():
        pass

    @task(name="renamed", aliases=["r", "other-name"])
    def original():
        """Has another name."""

    @task(name="with space", aliases=("a:b", "Grüße"))
    def spaced():
        """Is called by odd names, and has a summary that is longer than the fifty characters shown of it."""

    @task(private=True)
    def secret():
        """Cannot be called."""

    @task
    def _underscored():
        """Is public all the same."""

    @task(bind=True)
    def bound(self):
        print(self.name)

    @script
    def shell():
        """A script."""
        return "echo from a script"

    @script(args=["--name"])
    def greeting(name="world"):
        """A script with an option."""
        return f"echo {name}"

    @command
    def listing():
        """A command."""
        return ["echo", "from a command"]

    @command(args=[Arg("words", nargs="+")])
    def echo(words):
        return ["echo", *words]

    @group
    def both():
        """One after the other."""
        return [hello, bare]

    @thread_group
    def together():
        """At the same time."""
        return [hello, bare]

    @task(before=[hello], after=[bare], cleanup=[bare])
    def surrounded():
        print("surrounded")

    @task
    def fails():
        raise ValueError("it does")
'''

_CLASSES = """
    import functools
    from quickie import Arg, Command, Group, Script, Task, ThreadGroup


    class Hello(Task):
        '''Greets.'''

        args = [Arg("--name", default="world", help="whom")]

        def run(self, name):
            print(f"hello {name}")

    class MyOther_Task(Task):
        args = ["first", ("-s", "--second")]

        def run(self, first, second):
            print(first, second)

    class Listing(Command):
        '''A command.'''

        def get_cmd(self):
            return ["echo", "listed"]

    class Adds(Task):
        def add_args(self, parser):
            super().add_args(parser)
            parser.add_argument("number", type=int)
            group = parser.add_argument_group("more")
            group.add_argument("--factor", type=float, default=2.0, help="how much more")

        def run(self, number, factor):
            print(number * factor)

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper

    from quickie import task

    hello = Hello()
    again = Hello("again", aliases=["twice"])
    other = MyOther_Task()
    listing = Listing(name="ls")
    adds = Adds()

    @task
    @logged
    def wrapped():
        '''Is wrapped.'''
"""

_ARGUMENTS = """
    import argparse
    from quickie import Arg, task

    @task(args=[
        Arg("source", help="what to read"),
        Arg("target", nargs="?", default="out", help="where to write"),
        Arg("-n", "--count", type=int, default=3, help="how many"),
        Arg("-v", "--verbose", action="store_true", help="say more"),
        Arg("--quiet", action="store_false", dest="loud"),
        Arg("--level", choices=["low", "high"], default="low"),
        Arg("--port", type=int, choices=[80, 443], required=True),
        Arg("--tag", action="append", default=[]),
        Arg("-d", action="count", default=0),
        Arg("--const", action="store_const", const=5),
        Arg("--pair", nargs=2, metavar=("A", "B")),
        Arg("--many", nargs="+"),
        Arg("--maybe", nargs="?", const="yes"),
        Arg("--toggle", action=argparse.BooleanOptionalAction, default=True),
        Arg("--version", action="version", version="1"),
        Arg("--very-long-option-name", metavar="SOMETHING", help="so that the usage needs several lines"),
    ])
    def many(**given):
        '''Takes every kind.'''
        print(sorted(given.items()))

    @task(args=["word", "--flag", ["-s", "--short"]])
    def plain(word, flag, short):
        print(word, flag, short)

    @task(args=[Arg("files", nargs="+", type=str)])
    def several(files):
        print(files)

    @task(args=[Arg("number", type=float)])
    def typed(number):
        print(number)
"""

_NAMESPACES = """
    from quickie import Namespace, task
    from . import deploy, tools

    @task(aliases=["b"])
    def build():
        '''Build it.'''
        print("built")

    @task
    def test():
        print("tested")

    everything = Namespace({"": [build], "ci": [build, test], "tools": tools})
    named = Namespace({"run": test, "all": [[build], test]}, path="named")
    grown = Namespace(path="grown")
    grown.add(deploy, "")
    grown.add(build, "made")
"""

_LAZY = """
    from quickie import Namespace, namespace, task

    @task
    def build():
        print("built")

    @task
    def test():
        print("tested")

    @namespace
    def ci():
        from . import heavy
        return [heavy, build]

    @namespace(path="tools")
    def anything():
        return {"": [build], "check": test}

    @namespace
    def _():
        return {"root": build}

    nested = Namespace({"one": Namespace({"two": build}, path="")}, path="nested")
"""

_MODULE = """
    from quickie import task

    @task(aliases=["go"])
    def {0}():
        '''The task of a module of its own.'''
        print("{0}")
"""

CORPUS: dict[str, dict[str, str]] = {
    "functions": {"_qk/__init__.py": _FUNCTIONS},
    "one file": {"_qk.py": _FUNCTIONS},
    "classes": {"_qk/__init__.py": _CLASSES},
    "arguments": {"_qk/__init__.py": _ARGUMENTS},
    "namespaces": {
        "_qk/__init__.py": _NAMESPACES,
        "_qk/deploy.py": _MODULE.format("ship"),
        "_qk/tools.py": _MODULE.format("lint"),
    },
    "sibling": {
        "_qk/__init__.py": "from quickie import Namespace\nimport tools\nns = Namespace({'tools': tools})\n",
        "_qk/tools.py": _MODULE.format("lint"),
    },
    "lazy": {"_qk/__init__.py": _LAZY, "_qk/heavy.py": _MODULE.format("lift")},
    "empty": {"_qk/__init__.py": ""},
    "two of one name": {
        "_qk.py": """
            from quickie import task

            @task(name="same")
            def one():
                '''The first.'''
                print(1)

            @task(name="same", aliases=["second"])
            def two():
                '''The second.'''
                print(2)
        """
    },
}
"""The files of each project, by what it shows."""


def since(name: str) -> tuple[int, int]:
    """The first release of quickie that can load a project of the corpus."""
    return (0, 7) if name == "lazy" else (0, 6)
