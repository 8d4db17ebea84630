"""The final garbage collection is skipped only if that cannot be observed."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.environment import BARE_PATH
from tests.support.guests import Ran, run

_HEAD = '''
import os
from quickie import Arg, Task, task


def say(text):
    os.write(1, (text + "\\n").encode())


class Loud:
    """Prints its name when it is finalized."""

    def __init__(self, name):
        self.name = name

    def __del__(self, say=say):
        say(self.name + " ended")


class Slotted:
    __slots__ = ()

    def __del__(self, say=say):
        say("slotted ended")
'''
_TASK = """

@task
def t():
    print("done", flush=True)
"""
_CALLBACK = """
import weakref

class Thing: pass

thing = Thing()
thing.itself = thing
notified = weakref.{by}(thing, lambda _, say=say: say("thing ended"))
"""
_LOUD = {
    "a file that was not flushed": _HEAD + 'file = open("out.txt", "w")\nfile.write("all of it")' + _TASK,
    "a file of a class": _HEAD
    + """
@task
class T(Task):
    file = open("out.txt", "w")

    def run(self):
        self.file.write("all of it")
""",
    "a file of another module": {
        "_qk/__init__.py": _HEAD + "from . import other" + _TASK,
        "_qk/other.py": "file = open('out.txt', 'w')\nfile.write('all of it')",
    },
    "a temporary file": _HEAD + 'import tempfile\nfile = tempfile.NamedTemporaryFile(dir=".", prefix="out")' + _TASK,
    "a temporary directory": _HEAD
    + 'import tempfile\ndirectory = tempfile.TemporaryDirectory(dir=".", prefix="out")'
    + _TASK,
    "a finalizer": _HEAD + 'loud = Loud("global")' + _TASK,
    "a finalizer in a cycle": _HEAD + 'loud = Loud("cycle")\nloud.itself = loud' + _TASK,
    "a finalizer in a function's default": _HEAD + "def f(of=[Loud('default')]): pass" + _TASK,
    "a finalizer that quickie refers to": _HEAD
    + """
@task(args=[Arg("--of", type=lambda text: Loud(text), default="option")])
def t(of):
    print("done", flush=True)
""",
    "a finalizer without a __dict__": _HEAD + "slotted = [Slotted()]" + _TASK,
    "a finalizer that is added later": _HEAD
    + "class Late: pass\nlate = Late()\nLate.__del__ = lambda self: say('late ended')"
    + _TASK,
    "a finalizer in an exit handler": _HEAD
    + "import atexit\nkept = []\natexit.register(lambda: kept.append(Loud('handler')))"
    + _TASK,
    "exit handlers cleared": _HEAD
    + 'import atexit\natexit._clear()\nfile = open("out.txt", "w")\nfile.write("all")'
    + _TASK,
    "an interactive hook that is replaced": _HEAD
    + 'import sys\nsys.__interactivehook__ = None\nloud = Loud("global")'
    + _TASK,
    "a standard stream that is replaced": _HEAD
    + """
import sys

out = sys.stdout

@task
def t():
    print("step 1 ... ", end="")
    sys.stdout = sys.stderr
""",
    "a standard stream that is dropped": _HEAD
    + """
import sys

@task
def t():
    global file
    print("x", flush=True)
    sys.stdout = sys.__stdout__ = None
    file = open("out.txt", "w")
    file.write("data")
""",
    "a writer that does not flush": _HEAD
    + """
import sys

class Writer:
    def __init__(self, to): self.to = to
    def write(self, text): self.to.write("> " + text)
    def flush(self): pass

@task
def t():
    sys.stdout = Writer(sys.stdout)
    print("step", end="")
""",
    "a metaclass that prints on each access": _HEAD
    + """
class Meta(type):
    def __getattribute__(self, name):
        say(name)
        return super().__getattribute__(name)

class Odd(metaclass=Meta): pass

odd = [Odd.__new__(Odd)]
"""
    + _TASK,
    "a suspended generator": _HEAD
    + """
def numbers():
    try:
        yield 1
    finally:
        say("generator ended")

waiting = numbers()
next(waiting)
"""
    + _TASK,
    "a weak reference with a callback": _HEAD + _CALLBACK.format(by="ref") + _TASK,
    "a proxy with a callback": _HEAD + _CALLBACK.format(by="proxy") + _TASK,
    "an object that prints when its class is read": _HEAD
    + """
class Odd:
    @property
    def __class__(self):
        say("asked")
        return int

odd = [Odd()]
"""
    + _TASK,
    "a module that prints when a name is missing": {
        "_qk/__init__.py": _HEAD + "from . import other\ndel other.__loader__" + _TASK,
        "_qk/other.py": "import os\ndef __getattr__(name): os.write(1, name.encode())",
    },
    "a finalizer of the standard library": _HEAD
    + "import weakref\nclass Thing: pass\nthing = Thing()\nweakref.finalize(thing, say, 'finalized')"
    + _TASK,
    "a failure": _HEAD + "@task\ndef t():\n    loud = Loud('local')\n    raise SystemExit('sorry')\n",
    "a child process": _HEAD + 'import subprocess\nchild = subprocess.Popen(["true"])\nchild.wait()' + _TASK,
    "a thread that keeps running": _HEAD
    + """
import threading, time

def work():
    while True:
        time.sleep(0.001)

threading.Thread(target=work, daemon=True).start()
loud = Loud("global")
"""
    + _TASK,
}


@pytest.mark.long
@pytest.mark.parametrize("project", _LOUD)
def test_a_run_ends_as_under_qk(project: str, newest: Path, make: Callable[..., Path]) -> None:
    ours, theirs = make(_LOUD[project], "ours"), make(_LOUD[project], "theirs")
    ran = run(ours, "t", python=newest)
    assert (_plain(ran), _files(ours)) == (_qk(newest, theirs), _files(theirs))


def _plain(ran: Ran) -> tuple[int, str, str]:
    return ran.exit_code, ran.stdout, ran.stderr


def _qk(python: Path, root: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [python.with_name("qk"), "t"],
        cwd=root,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": BARE_PATH, "HOME": str(root.parent), "QK_LAUNCHER_RUNNING": "true"},
    )
    return done.returncode, done.stdout, done.stderr


def _files(root: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in root.glob("out*") if file.is_file()} | {
        file.name[:3]: "a directory" for file in root.glob("out*") if file.is_dir()
    }


_IMPORTS = """
import argparse, asyncio, dataclasses, enum, json, pathlib, re, subprocess, typing
import gc

gc.set_debug(gc.DEBUG_STATS)
"""


def _kept(root: Path, python: Path) -> int:
    """Return how many objects the final collection skipped, as Python reports on stderr."""
    ran = run(root, "t", python=python)
    assert ran.exit_code == 0, ran.stderr
    return int(re.findall(r"in permanent generation: (\d+)", ran.stderr)[-1])


def test_objects_without_finalizers_are_not_collected(python: Path, make: Callable[..., Path]) -> None:
    quiet = make(_HEAD.replace("__del__", "end") + _IMPORTS + _TASK, "quiet")
    loud = make(_HEAD + _IMPORTS + "loud = Loud('global')" + _TASK, "loud")
    assert _kept(quiet, python) > 10_000
    assert _kept(loud, python) < 1_000
