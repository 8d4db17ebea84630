"""Declarations, names, and where tasks lie."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qk_mcp.errors import InvalidDeclaration, InvalidName, NoDirectory, PathMissing, QkMcpError, TasksNotFound
from qk_mcp.projects.project import (
    Project,
    check_alias,
    current_directory,
    expand,
    fit_alias,
    locate,
    parse_declaration,
)
from tests.support.projects import make_project

BASE = Path("/base")


def _locate(path: Path) -> tuple[Path, Path]:
    location = locate(Project(alias="app", path=path))
    return location.tasks, location.root


# Names


@pytest.mark.parametrize("name", ["a", "my app", "x.y", "é", "日本", "list", "a-b_c", "'\"#=", "9", "x" * 64])
def test_a_name_may_be_any_printable_text(name: str) -> None:
    check_alias(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("x" * 65, "65 characters"),
        (" a", "blank"),
        ("a ", "blank"),
        ("-a", "option"),
        ("a:b", "':'"),
        ("a/b", "'/'"),
        ("a\\b", r"'\\'"),
        ("a\nb", r"'\n'"),
        ("a\tb", r"'\t'"),
        ("a\u200bb", r"'\u200b'"),
        ("a\x1b[31m", r"'\x1b'"),
        ("\ud800", r"'\ud800'"),
    ],
)
def test_what_cannot_be_a_name_is_refused_with_the_reason_and_the_rule(name: str, why: str) -> None:
    with pytest.raises(InvalidName) as caught:
        check_alias(name)
    assert why in caught.value.what
    assert "1 to 64 printable characters" in caught.value.hint
    assert caught.value.exit_code == 2


@given(st.text(max_size=100))
def test_a_directorys_name_is_made_to_fit(name: str) -> None:
    fitted = fit_alias(name)
    check_alias(fitted)
    assert fit_alias(fitted) == fitted


@pytest.mark.parametrize("name", ["app", "my app", "x.y", unicodedata.normalize("NFD", "é")])
def test_a_directorys_name_that_fits_is_kept(name: str) -> None:
    assert fit_alias(name) == name


@pytest.mark.parametrize(
    ("name", "fitted"), [("", "project"), ("--", "project"), ("a:b", "a-b"), (" -x ", "x"), ("-", "project")]
)
def test_a_directorys_name_that_does_not_fit_is_changed(name: str, fitted: str) -> None:
    assert fit_alias(name) == fitted


# Declarations


@pytest.mark.parametrize(
    ("text", "alias", "path"),
    [
        ("app:/x/app", "app", "/x/app"),
        ("app:sub/_qk", "app", "/base/sub/_qk"),
        ("app:C:\\x", "app", "/base/C:\\x"),
        ("my app:/with blank/and:colon", "my app", "/with blank/and:colon"),
        ("app:.", "app", "/base"),
        ("app:/x//y/./", "app", "/x/y"),
        ("app:~", "app", "/home/me"),
        ("app:~/x", "app", "/home/me/x"),
        ("app:$WORK/x", "app", "/work/x"),
        ("app:${WORK}x", "app", "/workx"),
        ("app:$NONE/x", "app", "/base/$NONE/x"),
        ("app:/x/$", "app", "/x/$"),
        ("app:/x~/y", "app", "/x~/y"),
    ],
)
def test_a_declaration_is_split_at_its_first_colon_and_expanded(text: str, alias: str, path: str) -> None:
    project = parse_declaration(text, BASE, {"HOME": "/home/me", "WORK": "/work"})
    assert (project.alias, str(project.path), project.origin) == (alias, path, "--project")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/x/my-app", "my-app:/x/my-app"),
        ("app", "app:app"),
        ("", "app:/path"),
        ("app:", "app:/path"),
        (":", "app:/path"),
        ("a: /x", "a:/x"),
    ],
)
def test_what_is_no_declaration_is_refused_with_an_example(text: str, hint: str) -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        parse_declaration(text, BASE, {})
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_relative_path_needs_a_current_directory() -> None:
    with pytest.raises(NoDirectory, match="absolute path"):
        parse_declaration("a:x", None, {})
    assert parse_declaration("a:/x", None, {}).path == Path("/x")


def test_going_up_goes_up_from_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "sub")
    assert expand("link/../x", tmp_path, {}) == tmp_path / "real" / "x"
    assert expand("link/x", tmp_path, {}) == tmp_path / "link" / "x"


# Where tasks lie


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / 'a project\'s "röot"'


def test_a_package_is_found_by_itself_and_by_its_root(root: Path) -> None:
    make_project(root, "")
    for path in (root, root / "_qk", root / "_qk" / "__init__.py"):
        assert _locate(path) == (root / "_qk", root)


def test_a_file_is_found_by_itself_without_its_suffix_and_by_its_root(root: Path) -> None:
    make_project(root, "", single_file=True)
    for path in (root, root / "_qk.py", root / "_qk"):
        assert _locate(path) == (root / "_qk.py", root)


def test_a_package_comes_before_a_file_and_a_plain_directory_after_it(root: Path) -> None:
    make_project(root, {"_qk.py": "", "_qk/helper.py": ""})
    for path in (root, root / "_qk"):
        assert _locate(path) == (root / "_qk.py", root)
    (root / "_qk" / "__init__.py").touch()
    for path in (root, root / "_qk"):
        assert _locate(path) == (root / "_qk", root)
    (root / "_qk.py").unlink()
    (root / "_qk" / "__init__.py").unlink()
    assert _locate(root) == (root / "_qk", root)


@pytest.mark.parametrize("name", ["_qkg/__init__.py", "_qkg.py"])
def test_a_module_of_another_name_is_taken(root: Path, name: str) -> None:
    make_project(root, {name: ""})
    tasks = root / name.removesuffix("/__init__.py")
    for path in (tasks, root / "_qkg"):
        assert _locate(path) == (tasks, root)


def test_a_project_that_is_a_package_itself_is_a_root(root: Path) -> None:
    make_project(root, {"__init__.py": "", "_qk.py": ""})
    assert _locate(root) == (root / "_qk.py", root)


def test_a_project_whose_directory_is_called_qk_is_a_root(tmp_path: Path) -> None:
    make_project(tmp_path / "_qk", "", single_file=True)
    assert _locate(tmp_path / "_qk") == (tmp_path / "_qk" / "_qk.py", tmp_path / "_qk")


@pytest.mark.parametrize("single_file", [True, False])
def test_tasks_behind_a_link_belong_to_the_directory_of_the_link(tmp_path: Path, root: Path, single_file: bool) -> None:
    make_project(tmp_path / "shared", "", single_file=single_file)
    root.mkdir()
    name = "_qk.py" if single_file else "_qk"
    (root / name).symlink_to(tmp_path / "shared" / name)
    (tmp_path / "link").symlink_to(root)
    assert _locate(root) == (root / name, root)
    assert _locate(tmp_path / "link" / name) == (tmp_path / "link" / name, tmp_path / "link")


def test_a_missing_path_gets_suggestions(root: Path) -> None:
    make_project(root / "website", "")
    with pytest.raises(PathMissing) as caught:
        locate(Project(alias="app", path=root / "webside", origin="/my/config.toml"))
    assert str(caught.value) == (
        f"project 'app': there is no {root}/webside\nDeclared by /my/config.toml.\nhint: did you mean {root}/website?"
    )
    with pytest.raises(PathMissing, match=r"the variable \$NONE is not set"):
        locate(Project(alias="app", path=expand("$NONE/x", root, {})))


def test_a_path_without_tasks_gets_directories_that_have_some(root: Path) -> None:
    make_project(root, "")
    make_project(root / "src" / "one", "")
    with pytest.raises(TasksNotFound) as caught:
        locate(Project(alias="app", path=root / "src"))
    assert str(caught.value) == (
        f"project 'app': no tasks at {root}/src\nIt contains neither _qk/ nor _qk.py.\n"
        f"hint: tasks are in {root} or {root}/src/one: use that path"
    )


@pytest.mark.parametrize("name", ["readme.txt", "broken.py", "loop", "fifo", "x" * 300, "nul\0"])
def test_other_kinds_of_paths_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "readme.txt").touch()
    (tmp_path / "broken.py").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(QkMcpError, match="project 'app': "):
        _locate(tmp_path / name)


def test_a_deleted_current_directory_is_none(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    before = Path.cwd()
    os.chdir(gone)
    try:
        assert current_directory() == gone
        gone.rmdir()
        assert current_directory() is None
    finally:
        os.chdir(before)
