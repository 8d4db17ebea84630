"""The projects of a server while the user edits the config."""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from qk_mcp.errors import RulesUnknown, UnknownProject
from qk_mcp.projects.registry import Registry, build_registry
from qk_mcp.projects.served import ServedProjects
from tests.support.projects import make_project

type Edit = Callable[[str], None]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = Path(os.environ["XDG_CONFIG_HOME"]) / "qk-mcp" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


def _served(cwd: Path) -> ServedProjects:
    build = partial(build_registry, [], None, environ=dict(os.environ), cwd=cwd)
    return ServedProjects(build(), build)


def _aliases(served: ServedProjects) -> list[str]:
    return [project.alias for project in served.projects]


def test_added_removed_and_changed_projects_take_effect(tmp_path: Path, config: Path) -> None:
    root = make_project(tmp_path / "code" / "shop", "")
    served = _served(tmp_path)
    changes: list[None] = []
    served.on_change(lambda: changes.append(None))

    assert _aliases(served) == []
    config.write_text(f'[projects]\nshop = "{root}"\nweb = "/web"\n')
    assert _aliases(served) == ["shop", "web"]
    config.write_text(f'[projects]\nshop = "{root}"\nwob = "/web"\n')  # the same size, at the same time
    assert _aliases(served) == ["shop", "wob"]
    with pytest.raises(UnknownProject):
        served.find("web")
    config.write_text(f'[projects.shop]\npath = "{root}"\ndeny = ["deploy"]\n')
    assert served.find("shop").rules.deny == ("deploy",)
    assert served.default is not None
    assert served.find(None).rules.deny == ("deploy",)
    assert len(changes) == 3


@pytest.mark.parametrize("broken", ["[projects", "[projects.shop]\npath='/x'\ndenny=[]\n", None])
def test_an_unreadable_config_keeps_the_projects_and_forbids_runs(
    tmp_path: Path, config: Path, broken: str | None
) -> None:
    config.write_text('[projects]\nshop = "/shop"\n')
    served = _served(tmp_path)
    served.check_rules()
    assert served.note == ""

    if broken is None:
        config.unlink()
    else:
        config.write_text(broken)
    assert _aliases(served) == ["shop"]
    for _ in range(2):
        with pytest.raises(RulesUnknown) as caught:
            served.check_rules()
        assert str(config) in str(caught.value)
    assert "no task can run" in served.note

    config.write_text('[projects]\nshop = "/shop"\nweb = "/web"\n')
    served.check_rules()
    assert (_aliases(served), served.note) == (["shop", "web"], "")


def test_a_config_whose_directory_is_gone_forbids_runs(tmp_path: Path, config: Path) -> None:
    config.write_text('[projects]\nshop = "/shop"\n')
    served = _served(tmp_path)
    shutil.rmtree(config.parent)
    with pytest.raises(RulesUnknown):
        served.check_rules()


def test_a_fixed_set_stays(tmp_path: Path, config: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text('[projects]\na = "/a"\n')
    build = partial(build_registry, [], file, environ=dict(os.environ), cwd=tmp_path)
    served = ServedProjects(build(), build)
    file.write_text("[projects")
    config.write_text('[projects]\nb = "/b"\n')
    served.check_rules()
    assert _aliases(served) == ["a"]


def test_a_config_that_has_just_changed_is_read_each_time(tmp_path: Path, config: Path) -> None:
    """The clock of a file system may be too coarse to show a second change."""
    config.write_text('[projects]\nshop = "/shop"\n')
    first = build_registry([], None, environ=dict(os.environ), cwd=tmp_path)
    built: list[Registry] = []

    def build() -> Registry:
        built.append(build_registry([], None, environ=dict(os.environ), cwd=tmp_path))
        return built[-1]

    served = ServedProjects(first, build)
    for _ in range(3):
        assert _aliases(served) == ["shop"]
    assert len(built) == 3
