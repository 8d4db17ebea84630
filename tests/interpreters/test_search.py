"""The search for a project's Python, on real environments."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qk_mcp.errors import NoInterpreter, QuickieTooOld
from qk_mcp.interpreters.search import Interpreter, find_interpreter
from qk_mcp.projects.project import Location, Project
from tests.support.environments import (
    TAG,
    ask,
    install_quickie,
    make_broken,
    make_conda,
    make_orphan,
    make_script,
    make_venv,
    remove_quickie,
    site_of,
)

_STARTED: list[str] = []


def _note(event: str, _: tuple[object, ...]) -> None:
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"):
        _STARTED.append(event)


sys.addaudithook(_note)


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without quickie, used as if it ran qk-mcp."""
    return str(make_venv(tmp_path_factory.mktemp("bare") / "env"))


class Search:
    """A project in a directory of its own, searched with the variables and the config that a test sets."""

    def __init__(self, directory: Path, own: str) -> None:
        self.root = directory / "project"
        self.tasks = self.root / "_qk"
        self.tasks.mkdir(parents=True)
        self.own = own
        self.python: str | None = None
        self.environ: dict[str, str] = {"PATH": str(directory / "nothing"), "HOME": str(directory / "home")}

    def __call__(self) -> Interpreter:
        project = Project(alias="app", path=self.root, python=self.python)
        started = len(_STARTED)
        try:
            return find_interpreter(project, Location(tasks=self.tasks, root=self.root), self.environ, own=self.own)
        finally:
            assert len(_STARTED) == started, "a search starts no process"

    def truthful(self) -> Interpreter:
        """Search, and compare the result with what that Python itself reports."""
        found = self()
        answer = ask(found.python, self.environ)
        assert answer == {"prefix": str(found.prefix), "quickie": found.quickie, "version": found.version}
        return found

    def refusal(self) -> NoInterpreter:
        with pytest.raises(NoInterpreter) as caught:
            self()
        return caught.value


@pytest.fixture
def search(tmp_path: Path, bare: str) -> Search:
    return Search(tmp_path, bare)


# The order


def test_rejected_places_are_listed_with_the_fix(search: Search) -> None:
    lacking = make_venv(search.root / ".venv")
    search.own = str(make_venv(search.root.parent / "own", quickie="1.0.0"))
    search.environ["UV_PROJECT_ENVIRONMENT"] = "gone"
    found = search()
    assert found.reason == "the Python that runs qk-mcp"
    assert found.passed == (
        f"the .venv in the project's root ({search.root / '.venv'}): quickie is not installed there",
        f"UV_PROJECT_ENVIRONMENT ({search.root / 'gone'}): it does not exist",
    )
    assert found.lacking == lacking


def test_the_first_place_that_has_quickie_wins(search: Search, tmp_path: Path) -> None:
    root, tasks = search.root, search.tasks
    beside = make_venv(tmp_path / "beside", quickie="1.0.0").parent
    make_script(beside / "qk", f"#!{beside / 'python'}")
    own = make_venv(tmp_path / "own", quickie="1.0.0")
    pdm = make_venv(tmp_path / "pdm", quickie="1.0.0")
    (root / ".pdm-python").write_text(f"{pdm}\n")
    executable = make_venv(tmp_path / "executable", quickie="1.0.0").parent
    search.own = str(own)
    search.environ |= {
        "UV_PROJECT_ENVIRONMENT": "build/uv",
        "QK_EXECUTABLE": str(make_script(executable / "qk", f"#!{executable / 'python'}")),
        "VIRTUAL_ENV": str(tmp_path / "active"),
        "CONDA_PREFIX": str(tmp_path / "conda"),
        "PATH": str(beside),
    }
    order = [
        ("the .venv in _qk", tasks / ".venv"),
        ("the venv in _qk", tasks / "venv"),
        ("the .venv in the project's root", root / ".venv"),
        ("the venv in the project's root", root / "venv"),
        ("UV_PROJECT_ENVIRONMENT", root / "build" / "uv"),
        ("pixi's default environment", root / ".pixi" / "envs" / "default"),
        ("the path in .pdm-python", tmp_path / "pdm"),
        (f"QK_EXECUTABLE, {executable / 'qk'}", tmp_path / "executable"),
        ("the active VIRTUAL_ENV", tmp_path / "active"),
        ("the active CONDA_PREFIX", tmp_path / "conda"),
        (f"the qk on PATH, {beside / 'qk'}", tmp_path / "beside"),
        ("the Python that runs qk-mcp", tmp_path / "own"),
    ]
    for reason, prefix in order:
        if not prefix.exists():
            (make_conda if "pixi" in reason or "CONDA" in reason else make_venv)(prefix, quickie="1.0.0")
    for reason, prefix in order:
        found = search()
        assert (found.reason, found.prefix, found.python) == (reason, prefix, prefix / "bin" / "python")
        remove_quickie(site_of(prefix))  # nothing may be cached
    why = search.refusal().why
    for reason, _ in order:
        assert f"{reason} (" in why


def test_tasks_in_one_file_have_no_environment_in_them(search: Search) -> None:
    search.tasks.rmdir()
    search.tasks = search.root / "_qk.py"
    search.tasks.write_text("")
    assert "in _qk" not in search.refusal().why
    make_venv(search.root / ".venv", quickie="1.0.0")
    assert search().reason == "the .venv in the project's root"


def test_a_new_environment_is_found_at_once(search: Search) -> None:
    search.refusal()
    make_venv(search.root / "venv", quickie="1.0.0")
    assert search().prefix == search.root / "venv"
    make_venv(search.root / ".venv", quickie="0.11.0")
    assert (search().prefix, search().quickie) == (search.root / ".venv", "0.11.0")
    shutil.rmtree(search.root / ".venv")
    assert search().prefix == search.root / "venv"


def test_results_are_equal_until_packages_change(search: Search) -> None:
    make_venv(search.root / ".venv", quickie="1.0.0")
    before = search()
    assert search() == before
    os.utime(site_of(search.root / ".venv"), ns=(1, 1))
    (site_of(search.root / ".venv") / "another-1.0.dist-info").mkdir()
    assert search() != before


def test_an_old_quickie_is_found_and_refused(search: Search, tmp_path: Path) -> None:
    python = make_venv(search.root / ".venv", quickie="0.5.1")
    search.own = str(make_venv(tmp_path / "own", quickie="1.0.0"))
    with pytest.raises(QuickieTooOld) as caught:
        search()
    message = str(caught.value)
    assert "0.5.1" in message
    assert "0.6" in message
    assert f"{python}, the .venv in the project's root" in message
    assert "'quickie-runner>=0.6'" in caught.value.hint
    for version in ("0.6.0", "0.10.1", "2.0.0rc1"):
        remove_quickie(site_of(search.root / ".venv"))
        install_quickie(site_of(search.root / ".venv"), version)
        assert search().quickie == version


# The config


def test_the_config_names_an_environment_or_a_python_or_a_command(search: Search, tmp_path: Path) -> None:
    make_venv(search.root / ".venv", quickie="1.0.0")
    other = make_venv(tmp_path / "home" / "other", quickie="0.9.0")
    search.environ["PATH"] = str(tmp_path / "nothing") + os.pathsep + str(other.parent)
    for python in (str(other.parents[1]), str(other), f"{other.parent}/../bin/python", "~/other", "$HOME/other", TAG):
        search.python = python
        found = search()
        assert (found.prefix, found.quickie, found.reason) == (other.parents[1], "0.9.0", "`python` in the config")
    for python in (".venv", "./.venv", ".venv/bin/python3"):
        search.python = python
        assert search.truthful().prefix == search.root / ".venv"


def test_a_python_in_the_config_is_the_only_candidate(search: Search, tmp_path: Path) -> None:
    make_venv(search.root / ".venv", quickie="1.0.0")
    lacking = make_venv(tmp_path / "lacking")
    shim = make_script(tmp_path / "shims" / "python3", "#!/usr/bin/env bash")
    search.environ["PATH"] = str(shim.parent)
    for python, why in (
        (str(tmp_path / "absent"), "it does not exist"),
        (str(lacking), "quickie is not installed there"),
        ("no-such-python", "there is no command no-such-python on PATH"),
        ("python3", "a version manager's shim"),
        ("nul\0", "is not a path"),
        ("/nul\0", "it does not exist"),
        ("/\0/../nul", "is not a path"),
        ("\ud800", "is not a path"),
    ):
        search.python = python
        refusal = search.refusal()
        assert len(refusal.why.splitlines()) == 1
        assert refusal.why.startswith("`python` in the config")
        assert why in refusal.why
        assert refusal.hint
    search.python = str(lacking)
    assert search.refusal().hint.startswith(f"{lacking} ")


def test_a_link_to_an_environments_python_is_not_that_environment(search: Search, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "env", quickie="1.0.0")
    (tmp_path / "link").symlink_to(python)
    answer = ask(tmp_path / "link")
    assert answer["prefix"] != str(tmp_path / "env"), "Python itself does not follow it"
    search.python = str(tmp_path / "link")
    if answer["quickie"]:
        search.truthful()
    else:
        search.refusal()


# The qk script


def test_a_script_is_followed_to_the_python_in_its_first_line(search: Search, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "an environment", quickie="1.0.0")
    for lines in (
        ["#!/bin/sh", f'\'\'\'exec\' "{python}" "$0" "$@"', "' '''"],
        ["#!/bin/sh", f"'''exec' {make_venv(tmp_path / 'blankless', quickie='1.0.0')} \"$0\" \"$@\"", "' '''"],
        [f"#!{tmp_path / 'blankless' / 'bin' / 'python'} -sP"],
    ):
        script = make_script(tmp_path / "scripts" / "qk", *lines)
        search.environ["QK_EXECUTABLE"] = str(script)
        found = search.truthful()
        assert found.prefix.name == (
            "an environment" if "an env" in lines[-2 if len(lines) > 1 else 0] else "blankless"
        )
        assert found.reason == f"QK_EXECUTABLE, {script}"


def test_a_script_leads_to_the_python_in_its_directory(search: Search, tmp_path: Path) -> None:
    """In a moved environment the first line is outdated; uv's relocatable scripts contain no path."""
    python = make_venv(tmp_path / "env", quickie="1.0.0")
    for lines in (
        ["#!/where/it/was/bin/python"],
        ["#!/usr/bin/env python3"],
        ["#!/bin/sh", '\'\'\'exec\' "$(dirname -- "$(realpath -- "$0")")"/\'python\' "$0" "$@"', "' '''"],
        ["no script at all"],
        [""],
    ):
        search.environ["QK_EXECUTABLE"] = str(make_script(python.parent / "qk", *lines))
        assert search().python == python
    search.environ["QK_EXECUTABLE"] = "../env/bin/qk"
    assert search().prefix.samefile(tmp_path / "env")
    search.environ["QK_EXECUTABLE"] = str(tmp_path / "env")
    assert search().python == python


def test_the_script_that_pip_made_is_understood(search: Search) -> None:
    script = Path(sys.prefix, "bin", "qk")
    if not script.is_file():
        pytest.skip("quickie's script is not next to the Python that runs the tests")
    search.environ["PATH"] = str(script.parent)
    assert search.truthful().prefix == Path(sys.prefix)


def test_qk_on_path_is_followed_through_links(search: Search, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "tools" / "quickie-runner", quickie="1.0.0")
    script = make_script(python.parent / "qk", f"#!{python}")
    local = tmp_path / "local"
    local.mkdir()
    (local / "qk").symlink_to("../local/again")
    (local / "again").symlink_to(os.path.relpath(script, local))
    make_venv(tmp_path / "other")
    (local / "python").symlink_to(tmp_path / "other" / "bin" / "python")
    search.environ["PATH"] = os.pathsep.join(("", "relative", str(tmp_path / "nothing"), str(local)))
    found = search.truthful()
    assert (found.python, found.reason) == (python, f"the qk on PATH, {local / 'qk'}")


def test_a_shim_is_skipped_for_the_next_qk(search: Search, tmp_path: Path) -> None:
    shim = make_script(tmp_path / "pyenv" / "shims" / "qk", "#!/usr/bin/env bash", "set -e")
    make_script(tmp_path / "pyenv" / "shims" / "python", "#!/usr/bin/env bash", "set -e")
    search.environ["PATH"] = str(shim.parent)
    assert f"the qk on PATH, {shim}: it is a version manager's shim" in search.refusal().why
    (tmp_path / "link").symlink_to(shim)
    (tmp_path / "loop").symlink_to("loop")
    for executable, why in (("link", "it is a version manager's shim"), ("loop", "there is no Python beside it")):
        search.environ["QK_EXECUTABLE"] = str(tmp_path / executable)
        assert f"QK_EXECUTABLE, {tmp_path / executable}: {why}" in search.refusal().why
    python = make_venv(tmp_path / "env", quickie="1.0.0")
    make_script(python.parent / "qk", f"#!{python}")
    search.environ["PATH"] += os.pathsep + str(python.parent)
    assert search().python == python


def test_another_program_named_qk_is_skipped(search: Search, tmp_path: Path) -> None:
    other = make_script(tmp_path / "bin" / "qk", "#!/bin/sh")
    search.environ["PATH"] = str(other.parent)
    assert f"the qk on PATH, {other}: there is no Python beside it" in search.refusal().why


# What to do


def test_variables_with_missing_paths_are_reported(search: Search, tmp_path: Path) -> None:
    names = ("UV_PROJECT_ENVIRONMENT", "QK_EXECUTABLE", "VIRTUAL_ENV", "CONDA_PREFIX")
    absent = search.refusal().why.splitlines()[-1]
    assert absent.startswith("not there: ")
    assert all(name in absent for name in names)
    search.environ |= {name: str(tmp_path / "gone" / name) for name in names}
    why = search.refusal().why
    for name in names:
        assert any(name in line and line.endswith("it does not exist") for line in why.splitlines()), name


def test_an_environment_is_reported_once(search: Search) -> None:
    make_venv(search.root / ".venv")
    search.environ["VIRTUAL_ENV"] = str(search.root / ".venv")
    search.own = str(search.root / ".venv" / "bin" / "python")
    assert search.refusal().why.count("quickie is not installed there") == 1


def test_the_remedy_installs_into_the_projects_environment(search: Search) -> None:
    environment = search.root / ".venv"
    python = make_venv(environment)
    assert search.refusal().hint == f"{python} -m ensurepip && {python} -m pip install quickie-runner"
    (site_of(environment) / "pip").mkdir()
    (site_of(environment) / "pip" / "__init__.py").write_text("")
    assert search.refusal().hint == f"{python} -m pip install quickie-runner"
    shutil.rmtree(site_of(environment) / "pip")
    with (environment / "pyvenv.cfg").open("a") as config:
        config.write("uv = 0.9.0\n")
    assert search.refusal().hint == f"uv pip install --python {python} quickie-runner"


@pytest.mark.parametrize("make", [None, make_broken, make_orphan, Path.mkdir])
def test_the_remedy_makes_an_environment(search: Search, make: Callable[[Path], None] | None, tmp_path: Path) -> None:
    search.root = search.root.rename(tmp_path / "a project")
    search.tasks = search.root / "_qk"
    if make:
        make(search.root / ".venv")
    hint = search.refusal().hint
    command, _, install = hint.partition(" (or, ")[0].partition(" && ")
    # Tests cannot use the package index, so quickie is copied to where pip would have put it.
    subprocess.run([*shlex.split(command), "--without-pip"], check=True, timeout=60)
    python, *words = shlex.split(install)
    assert words == ["-m", "pip", "install", "quickie-runner"]
    install_quickie(site_of(Path(python).parents[1]))
    assert search.truthful().python == Path(python)
    assert ("--clear" in hint) == (make in (make_broken, make_orphan))
