"""The commands that hints give to install a package."""

import sys
from pathlib import Path

import pytest

from qk_mcp.interpreters.install_commands import environment_command, install_command
from qk_mcp.projects.project import Location
from tests.support.environments import TAG, make_conda, make_venv


def _command(python: Path, requirement: str = "quickie-runner") -> str:
    return install_command(python, requirement, {})


def test_pip_installs_into_a_conda_environment(tmp_path: Path) -> None:
    python = make_conda(tmp_path / "env")
    assert _command(python, "a b").endswith(f"{python} -m pip install 'a b'")


def test_nothing_is_installed_into_a_managed_python(tmp_path: Path) -> None:
    python = make_conda(tmp_path / "env")
    (tmp_path / "env" / "lib" / TAG / "EXTERNALLY-MANAGED").touch()
    assert _command(python) == ""


def test_pipx_installs_into_its_tools(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "quickie-runner")
    (tmp_path / "quickie-runner" / "pipx_metadata.json").touch()
    assert _command(python, "PyYAML") == "pipx inject quickie-runner PyYAML"
    assert _command(python, "quickie-runner>=0.6") == "pipx upgrade quickie-runner"


def test_uv_keeps_the_earlier_packages_of_its_tools(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "quickie-runner")
    receipt = tmp_path / "quickie-runner" / "uv-receipt.toml"
    receipt.write_text('[tool]\nrequirements = [{ name = "quickie-runner" }, { name = "rich", specifier = ">=15" }]\n')
    assert _command(python, "PyYAML") == "uv tool install --force --with 'rich>=15' --with PyYAML quickie-runner"
    assert _command(python, "quickie-runner>=0.6") == "uv tool upgrade quickie-runner"
    receipt.write_text('[tool]\nrequirements = [{ name = "quickie-runner" }, { name = "rich", git = "https://x" }]\n')
    assert _command(python, "PyYAML") == "", "the command could not repeat where rich came from"


@pytest.mark.parametrize("marker", ["uv-receipt.toml", "pipx_metadata.json"])
def test_quickie_never_goes_into_the_environment_of_qk_mcp(tmp_path: Path, marker: str) -> None:
    """Its script `qk-mcp` would replace ours there."""
    python = make_venv(tmp_path / "qk-mcp")
    (tmp_path / "qk-mcp" / marker).touch()
    assert _command(python).startswith("pipx install quickie-runner")


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"uv.lock": ""}, "uv add --project {root} --dev quickie-runner"),
        ({"pyproject.toml": "[tool.uv]\n"}, "uv add --project {root} --dev quickie-runner"),
        ({"poetry.lock": "", "pyproject.toml": ""}, "poetry -C {root} add --group dev quickie-runner"),
        ({"pyproject.toml": "[tool.poetry]\nname = 'x'\n"}, "poetry -C {root} add --group dev quickie-runner"),
        ({"pdm.lock": ""}, "pdm add -p {root} -d quickie-runner"),
        ({"pixi.toml": ""}, "pixi add --manifest-path {root}/pixi.toml --pypi quickie-runner"),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, f"{sys.executable} -m venv {{root}}/.venv && "),
    ],
)
def test_a_projects_manager_makes_its_environment(tmp_path: Path, files: dict[str, str], command: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    location = Location(tasks=tmp_path / "_qk", root=tmp_path)
    hint = environment_command(location, None, sys.executable)
    assert hint.startswith(command.format(root=tmp_path))
    assert ("venv" in hint) == ("venv" in command)
