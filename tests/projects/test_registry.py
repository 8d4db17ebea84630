"""Which projects are served, and finding one."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qk_mcp.errors import ConfigBroken, ConfigUnreadable, InvalidName, PathNotServed, ProjectNeeded, UnknownProject
from qk_mcp.projects.registry import HERE, Registry, build_registry
from tests.support.projects import make_project


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of one's own, also for what asks the process for it."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.delenv("QK_MCP_CONFIG", raising=False)
    (home / ".config" / "qk-mcp").mkdir(parents=True)
    before = Path.cwd()
    yield home
    os.chdir(before)


@pytest.fixture
def own(home: Path) -> Callable[[str], Path]:
    """Writes the user's own config."""

    def write(text: str) -> Path:
        file = home / ".config" / "qk-mcp" / "config.toml"
        file.write_text(text)
        file.chmod(0o600)
        return file

    return write


def _build(*declarations: str, config: Path | None = None, cwd: Path | None = None, **environ: str) -> Registry:
    return build_registry(declarations, config, environ=os.environ | environ, cwd=cwd)


def _served(registry: Registry) -> dict[str, str]:
    return {project.alias: str(project.path) for project in registry.projects}


# Which projects


def test_what_options_name_is_all_there_is(tmp_path: Path, own: Callable[[str], Path]) -> None:
    own("[projects]\nmine = '/mine'\n")
    here = make_project(tmp_path / "here", "")
    registry = _build("a:/a", "b:sub", "a:/c", cwd=here)
    assert _served(registry) == {"a": "/c", "b": f"{here}/sub"}
    assert (registry.default, registry.warnings) == (None, ())


def test_a_config_and_options_together_are_all_there_is(tmp_path: Path, own: Callable[[str], Path]) -> None:
    own("[projects]\nmine = '/mine'\n")
    file = tmp_path / "team" / "qk.toml"
    file.parent.mkdir()
    file.write_text("[projects]\na = 'a'\nb = '/b'\ntypo.path = '/t'\n[colours]\n")
    file.chmod(0o600)
    here = make_project(tmp_path / "here", "")
    for registry in (
        _build("b:/other", config=file, cwd=here),
        _build("b:/other", cwd=here, QK_MCP_CONFIG=str(file)),
        _build("b:/other", config=Path("../team/qk.toml"), cwd=here, QK_MCP_CONFIG="/none"),
        _build("b:/other", cwd=here, QK_MCP_CONFIG="$TEAM/qk.toml", TEAM=str(file.parent)),
    ):
        assert _served(registry) == {"a": f"{file.parent}/a", "b": "/other", "typo": "/t"}
        assert [project.origin for project in registry.projects] == [str(file), "--project", str(file)]
        assert len(registry.warnings) == 1


def test_a_config_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigUnreadable):
        _build(config=tmp_path / "none.toml", cwd=tmp_path)
    with pytest.raises(ConfigUnreadable):
        _build("a:/a", cwd=tmp_path, QK_MCP_CONFIG="none.toml")


def test_a_config_without_projects_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "qk.json").write_text("{}")
    (tmp_path / "qk.json").chmod(0o600)
    registry = _build(config=tmp_path / "qk.json", cwd=tmp_path)
    assert registry == Registry((), None, (f"the config {tmp_path}/qk.json has no projects",))


def test_a_malformed_declaration_is_an_error() -> None:
    with pytest.raises(InvalidName):
        _build("a/b:/x")


def test_without_options_it_is_the_users_own_and_the_one_here(tmp_path: Path, own: Callable[[str], Path]) -> None:
    own("[projects]\nmine = '~/mine'\n")
    here = make_project(tmp_path / "here", "")
    (here / "src").mkdir()
    registry = _build(cwd=here / "src")
    assert _served(registry) == {"mine": str(tmp_path / "home" / "mine"), "here": str(here)}
    assert registry.projects[1].origin == HERE
    assert registry.default is registry.projects[1]
    assert registry.warnings == ()
    assert _build(cwd=here / "src", QK_MCP_CONFIG="") == registry


@pytest.mark.parametrize("path", ["{here}", "{here}/_qk", "{link}", "{link}/_qk"])
def test_the_one_here_is_not_served_twice(tmp_path: Path, own: Callable[[str], Path], path: str) -> None:
    here = make_project(tmp_path / "here", "")
    (tmp_path / "link").symlink_to(here)
    path = path.format(here=here, link=tmp_path / "link")
    own(f"[projects]\nmine = '{path}'\nother = '/other'\n")
    for cwd in (here, tmp_path / "link"):
        registry = _build(cwd=cwd)
        assert _served(registry) == {"mine": path, "other": "/other"}
        assert registry.default is registry.projects[0]


def test_on_a_clash_of_names_the_one_here_wins_with_a_warning(tmp_path: Path, own: Callable[[str], Path]) -> None:
    own("[projects]\nhere = '/elsewhere'\n")
    here = make_project(tmp_path / "here", "")
    registry = _build(cwd=here)
    assert _served(registry) == {"here": str(here)}
    assert registry.warnings == (f"the project 'here' is the one at {here}; the config's /elsewhere is not served",)


def test_the_one_here_gets_a_name_that_fits(tmp_path: Path) -> None:
    here = make_project(tmp_path / "-my: app ", "")
    assert list(_served(_build(cwd=here))) == ["my- app"]


@pytest.mark.parametrize("here", [True, False])
def test_without_any_project_a_warning_says_how_to_add_one(tmp_path: Path, here: bool) -> None:
    registry = _build(cwd=tmp_path if here else None)
    assert registry.projects == ()
    assert "qk-mcp projects add NAME:PATH" in registry.warnings[0]
    with pytest.raises(ProjectNeeded, match="qk-mcp projects add NAME:PATH"):
        registry.find(None)


def test_a_broken_config_of_ones_own_is_an_error(own: Callable[[str], Path], tmp_path: Path) -> None:
    own("[projects]\na = 1\n")
    with pytest.raises(ConfigBroken):
        _build(cwd=tmp_path)
    assert _served(_build("a:/a", cwd=tmp_path)) == {"a": "/a"}


# Finding one


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    outer = make_project(tmp_path / "outer", "")
    make_project(outer / "inner", {"_qk.py": "", "src/x.py": "", "x/y": ""})
    (tmp_path / "outerspace").mkdir()
    (tmp_path / "link").symlink_to(outer / "inner")
    return _build(f"outer:{outer}", f"inner:{tmp_path}/link", "gone:/gone/away")


def test_a_project_is_found_by_its_name(registry: Registry) -> None:
    assert [registry.find(project.alias) for project in registry.projects] == list(registry.projects)


@pytest.mark.parametrize(
    ("path", "alias"),
    [
        ("outer", "outer"),
        ("outer/", "outer"),
        ("outer/_qk/__init__.py", "outer"),
        ("outer/../outer", "outer"),
        ("outer/inner", "inner"),
        ("outer/inner/src/x.py", "inner"),
        ("link/src", "inner"),
        ("/gone/away/src", "gone"),
    ],
)
def test_a_project_is_found_by_a_path_the_deepest_root_wins(
    registry: Registry, tmp_path: Path, path: str, alias: str
) -> None:
    assert registry.find(str(tmp_path / path) if path[0] != "/" else path).alias == alias


def test_a_relative_path_starts_from_the_current_directory(registry: Registry, tmp_path: Path) -> None:
    os.chdir(tmp_path / "outer" / "inner")
    assert registry.find(".").alias == "inner"
    assert registry.find("..").alias == "outer"
    assert registry.find("./x/y").alias == "inner"


def test_a_path_that_starts_with_the_name_of_a_root_is_not_in_it(registry: Registry, tmp_path: Path) -> None:
    for path in (f"{tmp_path}/outerspace", str(tmp_path), "/", "~", "/x\0y"):
        with pytest.raises(UnknownProject) as caught:
            registry.find(path)
        assert caught.value.what == f"no project contains the path {path!r}"
        assert caught.value.why == "Projects: outer, inner, gone."


def test_a_path_that_does_not_exist_is_in_no_project(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(PathNotServed, match=r"It does not exist\."):
        registry.find(f"{tmp_path}/outer/removed/worktree")


def test_an_unknown_name_gets_the_names_and_the_nearest(registry: Registry) -> None:
    with pytest.raises(UnknownProject) as caught:
        registry.find("Iner")
    assert str(caught.value) == "no project is named 'Iner'\nProjects: outer, inner, gone.\nhint: did you mean 'inner'?"


@pytest.mark.parametrize("name", [None, ""])
def test_no_name_needs_a_default(registry: Registry, name: str | None) -> None:
    with pytest.raises(ProjectNeeded, match="outer, inner, gone"):
        registry.find(name)
    assert _build("only:/x").find(name).alias == "only"


def test_a_name_comes_before_a_path(tmp_path: Path) -> None:
    outer = make_project(tmp_path / "outer", "")
    registry = _build(f"~:{outer}", "outer:/x", f".:{outer}")
    assert [registry.find(name).alias for name in ("~", "outer", ".", str(outer))] == ["~", "outer", ".", "~"]
