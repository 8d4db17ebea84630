"""Which Python a project's tasks run with, and in which environment, as an agent sees it."""

import sys
from pathlib import Path

from tests.support.environments import make_conda, make_venv, site_of
from tests.support.projects import make_project
from tests.support.serving import serving

SOURCE = """
    import os, sys
    from quickie import task

    @task
    def python():
        print(sys.prefix)

    @task
    def variable():
        print(os.environ.get("FROM_PACKAGE"), os.environ.get("FROM_STATE"))
"""


def _with_quickies_dependencies(directory: Path) -> None:
    (site_of(directory) / "what-quickie-needs.pth").write_text(f"{site_of(Path(sys.prefix))}\n")


def test_a_member_of_a_uv_workspace_runs_in_its_environment(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    root = make_project(workspace / "packages" / "a", SOURCE)
    (workspace / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*"]\n')
    (root / "pyproject.toml").write_text('[project]\nname = "a"\nversion = "0"\n')
    make_venv(workspace / ".venv", quickie="1.0.0")
    _with_quickies_dependencies(workspace / ".venv")
    with serving(tmp_path / "home", root) as client:
        answer = client.run("python").data
        assert answer["stdout"] == f"{workspace / '.venv'}\n"
        assert "note" not in answer


def test_a_workspaces_environment_without_quickie_is_noted(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    root = make_project(workspace / "a", SOURCE)
    (workspace / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["a"]\n')
    (root / "pyproject.toml").write_text('[project]\nname = "a"\nversion = "0"\n')
    make_venv(workspace / ".venv")
    with serving(tmp_path / "home", root) as client:
        assert "the .venv of the project's uv workspace" in client.run("python").data["note"]


def test_tasks_have_the_variables_of_a_conda_environment(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project", SOURCE)
    environment = root / ".pixi" / "envs" / "default"
    environment.parent.mkdir(parents=True)
    make_conda(environment, quickie="1.0.0")
    _with_quickies_dependencies(environment)
    (environment / "etc" / "conda" / "env_vars.d").mkdir(parents=True)
    (environment / "etc" / "conda" / "env_vars.d" / "package.json").write_text('{"FROM_PACKAGE": "1"}')
    state = environment / "conda-meta" / "state"
    with serving(tmp_path / "home", root) as client:
        assert client.run("variable").data["stdout"] == "1 None\n"
        state.write_text('{"env_vars": {"FROM_STATE": "2"}}')
        assert client.run("variable").data["stdout"] == "1 2\n", "as soon as it is set"


def test_an_unknown_module_gets_no_command(tmp_path: Path) -> None:
    """An agent would run it, and a misspelt name may be somebody else's package."""
    root = make_project(tmp_path / "project", "import yml\n")
    with serving(tmp_path / "home", root) as client:
        failure = client.run("any").text
        assert "No module named 'yml'" in failure
        assert "ask the user which package provides it" in failure
        assert "install yml" not in failure


def test_a_managed_project_gets_the_command_of_its_manager(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project", "import plumbum\n")
    (root / "poetry.lock").touch()
    make_venv(root / ".venv", quickie="1.0.0")
    _with_quickies_dependencies(root / ".venv")
    with serving(tmp_path / "home", root) as client:
        assert f"poetry -C {root} add --group dev plumbum" in client.run("any").text
