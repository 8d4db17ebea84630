"""Generates projects: any number of ordinary tasks of three kinds, and an import that can be slow."""

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LINE", "REPORTED", "Project", "printed", "write"]

LINE = "one line"
"""What the task `line` prints."""
REPORTED = 100
"""Bytes of a line that the task `report` prints, about."""

_HEAD = '''"""The tasks of one project."""

import sys
import time

from quickie import Arg, command, task


@task
def line():
    """Print one line."""
    print({line!r})


@task
def lines():
    """Print many lines."""
    for number in range({lines}):
        print(f"line {{number}}")


@task
def wait():
    """Take a while."""
    time.sleep({wait})
    print({line!r})


@task(args=[Arg("code", type=int, help="The exit code")])
def report(code):
    """Print many long lines, some of which report failures, and exit."""
    for number in range({lines}):
        print(f"case {{number}}", "error: it is wrong" if number % 1000 == 500 else "is right", {padding!r})
    sys.exit(code)
'''
_KINDS = (
    '''

@task(
    aliases=["b{number}"],
    args=[Arg("--jobs", type=int, default=2, help="How many at a time"), Arg("part", nargs="?")],
)
def build_{number}(jobs=2, part=None):
    """Build part {number} of the program."""
    print("built", part, jobs)
''',
    '''

@command(extra_args=True)
def check_{number}(*args):
    """Check part {number}; arguments go to the tool."""
    return ["true", *args]
''',
    '''

@task
def clean_{number}():
    """Remove what was built of part {number}."""
    print("cleaned")
''',
)
_KIND_NAMES = ("build-{number}", "check-{number}", "clean-{number}")
_ALWAYS = ("line", "lines", "wait", "report")
_PADDING = "." * 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project with this number of tasks: `line`, then `lines`, `wait` and `report`, then others."""

    tasks: int
    import_seconds: float = 0.0
    """Seconds that a module sleeps when the project imports it."""
    lines: int = 1_000
    """Lines that the tasks `lines` and `report` print."""
    wait: float = 1.0
    """Seconds that the task `wait` takes."""

    @property
    def names(self) -> list[str]:
        """The names of its tasks."""
        others = [_KIND_NAMES[number % len(_KINDS)].format(number=number) for number in range(self.tasks)]
        return [*_ALWAYS, *others][: self.tasks]


def printed(project: Project) -> str:
    """Return what the task `lines` prints."""
    return "".join(f"line {number}\n" for number in range(project.lines))


def write(root: Path, project: Project) -> Path:
    """Write a project into `root`, and return its tasks module."""
    tasks = root / "_qk"
    tasks.mkdir(parents=True)
    source = _HEAD.format(line=LINE, lines=project.lines, wait=project.wait, padding=_PADDING)
    for name in _ALWAYS[project.tasks :]:
        source = re.sub(rf"@task.*\ndef {name}\(", f"def {name}(", source)
    if project.import_seconds:
        (tasks / "_slow.py").write_text(f"import time\n\ntime.sleep({project.import_seconds})\n")
        source += "\n\nfrom . import _slow  # what a project imports may take its time\n"
    for number in range(project.tasks - len(_ALWAYS)):
        source += _KINDS[number % len(_KINDS)].format(number=number)
    (tasks / "__init__.py").write_text(source)
    return tasks
