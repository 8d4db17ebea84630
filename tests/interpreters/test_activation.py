"""The variables of a task, and how real programs use them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qk_mcp.errors import InvalidVariable
from qk_mcp.interpreters.activation import MARK, activated_environment
from qk_mcp.interpreters.search import Interpreter
from qk_mcp.projects.project import Project
from tests.support.environments import BASE, make_conda, make_venv

_BIN = "/usr/bin"
_TEXT = "é€😀"
_PRINT = f"print({_TEXT!a})"
_LATIN = r"print('\xe9')"
_READ = "import sys; print(ascii(sys.stdin.read()))"


@pytest.fixture
def venv(tmp_path: Path) -> Interpreter:
    python = make_venv(tmp_path / "env")
    return Interpreter(python, tmp_path / "env", "", "1.0.0")


@pytest.fixture
def plain() -> Interpreter:
    return Interpreter(BASE, BASE.parents[1], "", "1.0.0")


def _variables(
    interpreter: Interpreter, environ: dict[str, str], env: dict[str, str | None] | None = None
) -> dict[str, str]:
    return activated_environment(interpreter, Project(alias="app", path=Path("/app"), env=env or {}), environ)


def _output(variables: dict[str, str], *command: str | Path, stdin: bytes = b"") -> bytes:
    return subprocess.run(command, env=variables, input=stdin, capture_output=True, check=True, timeout=60).stdout


def _shell(variables: dict[str, str], script: str) -> list[str]:
    return _output(variables, "/bin/sh", "-c", script).decode().splitlines()


# Activation


def test_commands_of_a_virtual_environment_come_first(venv: Interpreter) -> None:
    variables = _variables(venv, {"PATH": _BIN, "PYTHONHOME": "/another", "VIRTUAL_ENV_PROMPT": "another"})
    assert _shell(variables, 'command -v python; echo "$VIRTUAL_ENV"; command -v env') == [
        str(venv.python),
        str(venv.prefix),
        "/usr/bin/env",
    ]
    assert _output(variables, "python", "-c", "import sys; print(sys.prefix)").decode().strip() == str(venv.prefix)
    assert "VIRTUAL_ENV_PROMPT" not in variables


def test_it_is_on_path_once(venv: Interpreter) -> None:
    once = _variables(venv, {"PATH": f"/opt:{venv.prefix}/bin/:{_BIN}:{venv.prefix}/bin"})
    assert once["PATH"] == f"{venv.prefix}/bin:/opt:{_BIN}"
    assert _variables(venv, once) == once


def test_another_active_environment_comes_second_on_path(venv: Interpreter) -> None:
    variables = _variables(venv, {"PATH": f"/another/bin:{_BIN}", "VIRTUAL_ENV": "/another"})
    assert variables["PATH"] == f"{venv.prefix}/bin:/another/bin:{_BIN}"
    assert variables["VIRTUAL_ENV"] == str(venv.prefix)


def test_the_servers_own_environment_is_deactivated(venv: Interpreter, plain: Interpreter) -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("the tests do not run in a virtual environment")
    own = {"PATH": f"{sys.prefix}/bin:{_BIN}", "VIRTUAL_ENV": sys.prefix, "VIRTUAL_ENV_PROMPT": "own"}
    assert _variables(venv, own)["PATH"] == f"{venv.prefix}/bin:{_BIN}"
    variables = _variables(plain, own)
    assert variables["PATH"] == f"{BASE.parent}:{_BIN}"
    assert not variables.keys() & {"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"}
    itself = Interpreter(Path(sys.executable), Path(sys.prefix), "", "1.0.0")
    assert _variables(itself, own)["PATH"] == own["PATH"]
    assert _variables(itself, own)["VIRTUAL_ENV"] == sys.prefix


def test_a_conda_environment_is_activated_as_by_conda(tmp_path: Path) -> None:
    active = {"PATH": _BIN, "CONDA_PREFIX": "/base", "CONDA_DEFAULT_ENV": "base", "VIRTUAL_ENV": "/another"}
    for directory, name in (
        (tmp_path / "conda" / "envs" / "data", "data"),
        (tmp_path / "elsewhere", str(tmp_path / "elsewhere")),
    ):
        python = make_conda(directory)
        variables = _variables(Interpreter(python, directory, "", "1.0.0"), active)
        assert variables["PATH"] == f"{directory}/bin:{_BIN}"
        assert (variables["CONDA_PREFIX"], variables["CONDA_DEFAULT_ENV"]) == (str(directory), name)
        assert "VIRTUAL_ENV" not in variables
        assert _output(variables, "python", "-c", "import sys; print(sys.prefix)").decode().strip() == str(directory)
    (tmp_path / "elsewhere" / "condabin").mkdir()
    assert _variables(Interpreter(python, directory, "", "1.0.0"), active)["CONDA_DEFAULT_ENV"] == "base"


def test_variables_of_a_conda_environment_are_set(tmp_path: Path) -> None:
    """Packages set some in `etc/conda/env_vars.d`; `conda env config vars` writes the others, which win."""
    directory = tmp_path / "env"
    interpreter = Interpreter(make_conda(directory), directory, "", "1.0.0")
    packages = directory / "etc" / "conda" / "env_vars.d"
    packages.mkdir(parents=True)
    (packages / "a.json").write_text('{"FROM_A": "a", "BOTH": "a", "NUMBER": 1, "": "x"}')
    (packages / "b.json").write_text('{"BOTH": "b", "STATE": "b"}')
    (packages / "c.json").write_text("not JSON")
    (packages / "d.txt").write_text('{"TEXT": "x"}')
    state = directory / "conda-meta" / "state"
    state.write_text('{"version": 1, "env_vars": {"STATE": "state", "GONE": "***unset***"}}')
    variables = _variables(interpreter, {"PATH": _BIN, "BOTH": "before"}, {"FROM_A": "project"})
    assert _shell(variables, 'echo "$BOTH $STATE $FROM_A"') == ["b state project"]
    assert not variables.keys() & {"", "NUMBER", "TEXT", "GONE"}
    assert variables["PATH"] == f"{directory}/bin:{_BIN}"
    state.write_text('["nothing"]')
    assert _variables(interpreter, {})["STATE"] == "b"


def test_a_plain_python_is_not_activated(plain: Interpreter) -> None:
    order = f"/usr/local/bin:{BASE.parent}:{_BIN}"
    variables = _variables(plain, {"PATH": order})
    assert variables["PATH"] == order
    assert not variables.keys() & {"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"}
    assert _variables(plain, {"PATH": "/opt"})["PATH"] == f"{BASE.parent}:/opt"
    assert "PYTHONHOME" not in _variables(plain, {"PATH": order, "PYTHONHOME": "/another"})


@pytest.mark.parametrize("environ", [{}, {"PATH": ""}])
def test_commands_are_found_without_a_path(venv: Interpreter, environ: dict[str, str]) -> None:
    assert _variables(venv, environ)["PATH"] == f"{venv.prefix}/bin{os.pathsep}{os.defpath}"
    assert _shell(_variables(venv, environ), "command -v python; command -v ls >/dev/null && echo ls") == [
        str(venv.python),
        "ls",
    ]


# The server's and the project's variables


def test_the_servers_own_variables_do_not_reach_tasks(venv: Interpreter) -> None:
    kept = {"HOME": "/home/me", "PYTHONPATH": "/lib", "QK_LOG_FILE": "/log", f"{MARK}1f": "1", "QK_EXECUTABLE": "/qk"}
    servers = {"QK_MCP_CONFIG", "QK_MCP_", "QK_LAUNCHER_RUNNING"}
    variables = _variables(venv, {"PATH": _BIN, **kept, **dict.fromkeys(servers, "true")})
    assert not variables.keys() & servers
    assert kept.items() <= variables.items()
    assert variables.keys() == kept.keys() | {"PATH", "VIRTUAL_ENV", "PYTHONUNBUFFERED"}


def test_the_projects_variables_win(venv: Interpreter) -> None:
    env = {"PATH": "/mine", "EDITOR": None, "ABSENT": None, "PYTHONUNBUFFERED": None, "QK_MCP_CONFIG": "x", "A": ""}
    variables = _variables(venv, {"PATH": _BIN, "EDITOR": "vi"}, env)
    assert variables == {"PATH": "/mine", "VIRTUAL_ENV": str(venv.prefix), "QK_MCP_CONFIG": "x", "A": ""}


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "x"), ("A=B", "x"), ("=", None), ("A\0B", "x"), ("A", "x\0y"), ("\ud800", "x"), ("A", "\ud800")],
)
def test_a_variable_that_no_process_can_have_is_an_error(venv: Interpreter, name: str, value: str | None) -> None:
    with pytest.raises(InvalidVariable) as caught:
        _variables(venv, {}, {name: value})
    assert repr(name) in caught.value.what
    assert caught.value.why


def test_any_other_name_and_value_reaches_the_task(venv: Interpreter) -> None:
    env: dict[str, str | None] = {"a b.c-d": "x=y\nz", "ünïcode": "é", "BYTES": "\udcff"}
    script = "import os; print(ascii([os.environ[n] for n in ('a b.c-d', 'ünïcode', 'BYTES')]))"
    output = _output(_variables(venv, {}, env), venv.python, "-c", script)
    assert output.decode().strip() == ascii(["x=y\nz", "é", "\udcff"])


# Text


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LANG": "C"},
        {"LANG": ""},
        {"LC_ALL": "POSIX"},
        {"LANG": "C.UTF-8"},
        {"LC_CTYPE": "UTF-8"},
        {"LANG": "xx_YY.UTF-8"},
        {"LC_ALL": "de_DE.ISO-8859-1"},
        {"LANG": "en_US"},
        {"LANG": "de_DE@euro"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": ":surrogateescape"},
        {"LANG": "C", "PYTHONIOENCODING": "UTF8:surrogateescape", "PYTHONUTF8": "1"},
    ],
)
def test_python_and_its_children_write_utf8_in_any_locale(venv: Interpreter, environ: dict[str, str]) -> None:
    variables = _variables(venv, environ)
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_PRINT!r}], check=True)"
    expected = _TEXT.encode() + b"\n"
    assert _output(variables, venv.python, "-c", _PRINT) == expected
    assert _output(variables, venv.python, "-c", child) == expected
    read = _output(variables, venv.python, "-c", _READ, stdin=_TEXT.encode())
    assert read.decode().strip() == ascii(_TEXT)


def test_a_locale_of_another_encoding_that_is_installed(venv: Interpreter, tmp_path: Path) -> None:
    name = "de_DE.ISO-8859-1"
    try:
        made = subprocess.run(["localedef", "-i", "de_DE", "-f", "ISO-8859-1", tmp_path / name], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no localedef to make a locale with")
    environ = {"LOCPATH": str(tmp_path), "LC_ALL": name}
    if made.returncode or _output(environ, venv.python, "-c", _LATIN) != b"\xe9\n":
        pytest.skip("localedef cannot make that locale here")
    assert _output(_variables(venv, environ), venv.python, "-c", _LATIN) == b"\xc3\xa9\n"


@pytest.mark.parametrize("environ", [{}, {"LANG": "en_US.UTF-8"}, {"LC_ALL": "C.utf8"}, {"PYTHONUTF8": "1"}])
def test_nothing_is_set_if_python_writes_utf8_by_itself(venv: Interpreter, environ: dict[str, str]) -> None:
    assert "PYTHONIOENCODING" not in _variables(venv, environ)


def test_bytes_that_are_not_text_pass_through_with_a_set_encoding(venv: Interpreter) -> None:
    variables = _variables(venv, {"LC_ALL": "C", "PYTHONUTF8": "0"})
    script = "import sys; print(sys.stdin.read())"
    assert _output(variables, venv.python, "-c", script, stdin=b"\xe9\xff") == b"\xe9\xff\n"


def test_a_project_may_choose_its_encoding(venv: Interpreter) -> None:
    assert _output(_variables(venv, {}, {"PYTHONIOENCODING": "latin-1"}), venv.python, "-c", _LATIN) == b"\xe9\n"
    # A locale alone does not choose an encoding.
    assert _output(_variables(venv, {}, {"LC_ALL": "de_DE"}), venv.python, "-c", _LATIN) == b"\xc3\xa9\n"


def test_the_locale_decides_how_a_task_opens_files(venv: Interpreter) -> None:
    script = "import locale; print(locale.getencoding(), locale.getpreferredencoding(False))"
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0"}
    output = _output(_variables(venv, environ), venv.python, "-c", script)
    assert output == _output(environ, venv.python, "-c", script)


def test_the_output_of_a_python_child_is_visible_at_once(venv: Interpreter) -> None:
    script = "import os; print('at once'); os._exit(0)"
    environ = {"PATH": _BIN}
    assert _output(environ, venv.python, "-c", script) == b""
    assert _output(_variables(venv, environ), venv.python, "-c", script) == b"at once\n"
    assert _output(_variables(venv, environ, {"PYTHONUNBUFFERED": None}), venv.python, "-c", script) == b""
