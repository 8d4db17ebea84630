"""Random modules from pieces of quickie's grammar: what is listed is quickie's own listing, and can be run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.guest.test_equality import quickie
from tests.support.guests import listed, run
from tests.support.projects import make_project

_NAMES = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="\ufe0e\ufe0f\u115f\u1160\u3164\uffa0"
    ),
    min_size=1,
    max_size=8,
)
_WORDS = st.sampled_from(["alpha", "beta", "Gamma_x", "_delta", "Ünï", "e2"])
_HELP = st.sampled_from(["", "One line.", "A summary.\n\nAnd more,\nover lines.", "x" * 60, "  indented\n\tby tabs"])


@st.composite
def _arguments(draw: st.DrawFn) -> str:
    shown = []
    for name in draw(st.lists(st.sampled_from("abcdef"), max_size=3, unique=True)):
        options: dict[str, Any] = draw(
            st.fixed_dictionaries({}, optional={"help": st.sampled_from(["short", "with a (parenthesis)"])})
        )
        kind = draw(st.sampled_from(["optional", "flag", "choice", "int", "list", "positional"]))
        flags = f"'--{name}'" if draw(st.booleans()) else f"'-{name}', '--{name}-long'"
        if kind == "positional":
            flags, options = f"'{name}'", options | {"nargs": "?"}
        elif kind == "flag":
            options |= {"action": "store_true"}
        elif kind == "choice":
            options |= {"choices": ["x", "y"], "default": "x"}
        elif kind == "list":
            options |= {"nargs": draw(st.sampled_from(["+", 2, "?"])), "default": ["d"]}
        given = [f"{key}={value!r}" for key, value in options.items()] + (["type=int"] if kind == "int" else [])
        shown.append(f"Arg({', '.join([flags, *given])})")
    return f"[{', '.join(shown)}]"


@st.composite
def _tasks(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["task", "script", "command", "class"]))
    identifier, about, arguments = draw(_WORDS), draw(_HELP), draw(_arguments())
    if kind == "class":
        return (
            f"class {identifier}_class(Task):\n    {about!r}\n    args = {arguments}\n"
            f"    def run(self, **given):\n        print(sorted(given))\n{identifier} = {identifier}_class()\n"
        )
    options = [f"args={arguments}"]
    if draw(st.booleans()):
        options.append(f"name={draw(_NAMES)!r}")
    if draw(st.booleans()):
        options.append(f"aliases={draw(st.lists(_NAMES, max_size=2))!r}")
    if draw(st.integers(0, 5)) == 0:
        options.append("private=True")
    result = {"task": "print(sorted(given))", "script": "return 'echo script'", "command": "return ['echo', 'command']"}
    return f"@{kind}({', '.join(options)})\ndef {identifier}(**given):\n    {about!r}\n    {result[kind]}\n"


@st.composite
def _namespaces(draw: st.DrawFn, known: list[str]) -> str:
    path = draw(st.sampled_from(["", "ns", "other", "deep:er"]))
    members = draw(st.lists(st.sampled_from(known), max_size=3))
    inner = draw(st.sampled_from(["", "in", "a:b"]))
    mapping = f"{{{inner!r}: [{', '.join(members)}]}}"
    if draw(st.booleans()):
        return f"@namespace(path={path!r})\ndef lazy_{draw(st.integers(0, 3))}():\n    return {mapping}\n"
    return f"ns_{draw(st.integers(0, 3))} = Namespace({mapping}, path={path!r})\n"


@st.composite
def _modules(draw: st.DrawFn) -> str:
    tasks = draw(st.lists(_tasks(), min_size=1, max_size=5))
    known = [
        line.split("(")[0].removeprefix("def ") for text in tasks for line in text.splitlines() if line[:4] == "def "
    ]
    spaces = draw(st.lists(_namespaces(known), max_size=3)) if known else []
    imports = "from quickie import Arg, Namespace, Task, command, namespace, script, task\n\n"
    return imports + "\n".join([*tasks, *spaces])


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return lambda: tmp_path_factory.mktemp("random") / "project"


@pytest.mark.long
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(source=_modules(), data=st.data())
def test_a_random_module(source: str, data: st.DataObject, newest: Path, directories: Callable[[], Path]) -> None:
    root = make_project(directories(), {"_qk/__init__.py": source})
    ours = listed(root, newest)
    assert list(ours.values()) == quickie(newest, root)
    names = sorted(name for task in ours.values() for name in (task["name"], *task["aliases"]))
    if names:
        name = data.draw(st.sampled_from(names))
        ((exit_code, stdout, _),) = quickie(newest, root, [[name]]) if name[0] not in "-:" else ((0, None, ""),)
        ran = run(root, name, python=newest)
        assert (ran.began, ran.event) == (True, {"event": "began"})
        assert ran.exit_code == exit_code
        assert stdout is None or ran.stdout == stdout
