"""Project managers: which one a project has, and where its environment is."""

from pathlib import Path

import pytest

from qk_mcp.interpreters.managers import find_manager, poetry_environment, uv_workspace

_PROJECT = '[project]\nname = "x"\nversion = "0"\n'


def _write(file: Path, text: str = _PROJECT) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("members", "path", "belongs"),
    [
        ('members = ["packages/*"]', "packages/a", True),
        ('members = ["packages/*"]', "packages/a/b", False),
        ('members = ["packages/**"]', "packages/a/b", True),
        ('members = ["./packages/a/"]', "packages/a", True),
        ('members = ["packages/*"]\nexclude = ["packages/a"]', "packages/a", False),
        ('members = "packages/*"', "packages/a", False),
        ("", "packages/a", False),
    ],
)
def test_members_of_a_uv_workspace(tmp_path: Path, members: str, path: str, belongs: bool) -> None:
    _write(tmp_path / "pyproject.toml", f"[tool.uv.workspace]\n{members}\n")
    member = _write(tmp_path / path / "pyproject.toml").parent
    assert uv_workspace(member) == (tmp_path if belongs else None)
    manager = find_manager(member)
    assert (manager.name if manager else "") == ("uv" if belongs else "")


def test_the_nearest_project_above_decides(tmp_path: Path) -> None:
    _write(tmp_path / "pyproject.toml", '[tool.uv.workspace]\nmembers = ["**"]\n')
    _write(tmp_path / "a" / "pyproject.toml")
    member = _write(tmp_path / "a" / "b" / "pyproject.toml").parent
    assert uv_workspace(member) is None


def test_a_lock_file_outweighs_a_table(tmp_path: Path) -> None:
    _write(tmp_path / "pyproject.toml", "[tool.uv]\n")
    _write(tmp_path / "poetry.lock", "")
    manager = find_manager(tmp_path)
    assert manager
    assert manager.name == "Poetry"


def test_the_environments_of_poetry(tmp_path: Path) -> None:
    """The name is the one that Poetry 2 gives; its hash is that of the root."""
    root = tmp_path / "project"
    _write(root / "pyproject.toml", '[tool.poetry]\nname = "x"\n')
    home = {"HOME": str(tmp_path), "POETRY_CACHE_DIR": str(tmp_path / "cache")}
    assert poetry_environment(root, home) is None

    from base64 import urlsafe_b64encode
    from hashlib import sha256

    digest = urlsafe_b64encode(sha256(str(root.resolve()).encode()).digest()).decode()[:8]
    environments = tmp_path / "cache" / "virtualenvs"
    for version in ("3.9", "3.12", "3.13"):
        (environments / f"x-{digest}-py{version}").mkdir(parents=True)
    (environments / "x-AAAAAAAA-py3.13").mkdir()
    assert poetry_environment(root, home) == environments / f"x-{digest}-py3.13"
    _write(environments / "envs.toml", f'[x-{digest}]\nminor = "3.12"\npatch = "3.12.1"\n')
    assert poetry_environment(root, home) == environments / f"x-{digest}-py3.12"

    environments.rename(tmp_path / "elsewhere")
    _write(root / "poetry.toml", f'[virtualenvs]\npath = "{tmp_path / "elsewhere"}"\n')
    assert poetry_environment(root, home) == tmp_path / "elsewhere" / f"x-{digest}-py3.12"
    _write(root / "pyproject.toml")
    assert poetry_environment(root, home) is None, "it is no Poetry project"
