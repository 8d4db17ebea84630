"""What a config says: its forms, and everything that can be wrong with it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import tomli_w

from qk_mcp.errors import ConfigBroken, ConfigUnreadable
from qk_mcp.projects.config import Config, read_config, user_config_path
from qk_mcp.projects.project import Project
from qk_mcp.projects.rules import Rules
from tests.support.projects import make_project

HOME = {"HOME": "/home/me"}


def _read(directory: Path, text: str | bytes, name: str = "config.toml") -> Config:
    file = directory / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(0o600)
    return read_config(file, HOME)


def _faults(directory: Path, text: str | bytes, name: str = "config.toml") -> list[str]:
    with pytest.raises(ConfigBroken) as caught:
        _read(directory, text, name)
    assert caught.value.what == f"the config {directory / name} is broken"
    assert caught.value.hint
    return caught.value.why.splitlines()


def test_entries_are_texts_or_tables(tmp_path: Path) -> None:
    config = _read(
        tmp_path,
        """
        [projects]
        app = "~/code/app"
        "my lib" = { path = "lib/_qk", python = ".venv/bin/python" }
        [projects.web]
        path = "/web"
        env = { PORT = "8080", DEBUG = false, EMPTY = "" }
        grace = 10
        reports = ["build/junit*.xml"]
        """,
    )
    origin = str(tmp_path / "config.toml")
    assert config.projects == (
        Project(alias="app", path=Path("/home/me/code/app"), origin=origin),
        Project(alias="my lib", path=tmp_path / "lib/_qk", python=".venv/bin/python", origin=origin),
        Project(
            alias="web",
            path=Path("/web"),
            env={"PORT": "8080", "DEBUG": None, "EMPTY": ""},
            grace=10.0,
            reports=("build/junit*.xml",),
            origin=origin,
        ),
    )
    assert config.warnings == ()


@pytest.mark.parametrize("name", ["config.json", "config.JSON"])
def test_json_gives_the_same_projects(tmp_path: Path, name: str) -> None:
    entries = {"app": "x", "web": {"path": "/web", "python": "python3", "env": {"A": "1", "B": False}}}
    config = _read(tmp_path, json.dumps({"projects": entries}), name)
    assert [project.path for project in config.projects] == [tmp_path / "x", Path("/web")]
    assert config.projects[1].env == {"A": "1", "B": None}


@pytest.mark.parametrize("text", ["", "# nothing\n", "[projects]\n", "\ufeff", "\ufeff[projects]\r\n"])
def test_a_config_may_be_empty(tmp_path: Path, text: str) -> None:
    assert _read(tmp_path, text).projects == ()
    assert _read(tmp_path, "\ufeff{}", "config.json").projects == ()


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    assert _read(tmp_path, '\ufeff[projects]\r\napp = "/x"\r\n').projects[0].path == Path("/x")


def test_an_unknown_key_of_a_project_is_a_fault(tmp_path: Path) -> None:
    """A misspelt `deny` must not allow anything, nor a misspelt `projects`."""
    text = """
        project = 1
        [projects]
        app = "/x"
        [projects.web]
        path = "/web"
        denny = ["deploy"]
        colour = "red"
        """
    known = (
        "path, python, env, grace, reports, host, via, command, allow, deny, confirm, read_only, tools, exclusive, "
        "max_timeout, redact, log_args"
    )
    assert _faults(tmp_path, text) == [
        "line 2: project is an unknown key; did you mean 'projects'?",
        "line 7: projects.web.denny is an unknown key; did you mean 'deny'?",
        f"line 8: projects.web.colour is an unknown key; known here: {known}",
    ]


def test_an_unknown_key_outside_projects_is_a_warning(tmp_path: Path) -> None:
    config = _read(tmp_path, '[projects]\napp = "/x"\n[colours]\n')
    assert config.warnings == (
        f"{tmp_path / 'config.toml'}, line 3: the unknown key 'colours' is ignored; known here: projects",
    )
    assert [project.alias for project in config.projects] == ["app"]


@pytest.mark.parametrize("name", ["config.toml", "config.json"])
def test_rules_are_read(tmp_path: Path, name: str) -> None:
    rules = {
        "allow": ["test", "lint*"],
        "deny": ["deploy*", "db:*"],
        "confirm": ["release*"],
        "read_only": ["lint"],
        "tools": ["test"],
        "exclusive": ["build"],
        "max_timeout": 1800,
        "redact": ["STRIPE_*"],
        "log_args": False,
    }
    data = {"projects": {"a": {"path": "/x", **rules}, "b": {"path": "/y", "redact": False, "allow": []}}}
    config = _read(tmp_path, json.dumps(data) if name.endswith("json") else tomli_w.dumps(data), name)
    texts = {key: tuple(value) for key, value in rules.items() if isinstance(value, list)}
    origin = str(tmp_path / name)
    assert config.projects[0].rules == Rules(**texts, max_timeout=1800.0, log_args=False, origin=origin)
    assert config.projects[1].rules == Rules(redact=None, allow=(), origin=origin)


def test_every_fault_of_rules_is_reported(tmp_path: Path) -> None:
    text = f"""
[projects.web]
path = "/web"
allow = "test"
deny = ["deploy", 5]
confirm = [""]
read_only = ["{"x" * 301}"]
tools = {{}}
exclusive = false
max_timeout = "60"
redact = true
log_args = 1
[projects.app]
path = "/app"
max_timeout = 0
"""
    assert _faults(tmp_path, text) == [
        "line 4: projects.web.allow must be an array of globs, not a text",
        "line 5: projects.web.deny must be an array of globs, not a number",
        "line 6: projects.web.confirm is empty",
        "line 7: projects.web.read_only has a glob that cannot be used: it has more than 300 characters",
        "line 8: projects.web.tools must be an array of globs, not a table",
        "line 9: projects.web.exclusive must be an array of globs, not a boolean",
        "line 10: projects.web.max_timeout must be a number of seconds from 1 to 86400, not a text",
        "line 11: projects.web.redact must be an array of globs, or false, not a boolean",
        "line 12: projects.web.log_args must be a boolean, not a number",
        "line 15: projects.app.max_timeout must be a number of seconds from 1 to 86400, not 0",
    ]


def test_every_fault_is_reported_with_its_line(tmp_path: Path) -> None:
    variable = "must be a text, or false to remove the variable, not"
    text = """
[projects]
ok = "/x"
number = 5
empty = ""
"a:b" = "/x"
none = {}
wrong = { path = 1979-05-27, python = [], env = "A=1", grace = "10", reports = "a.xml" }
absolute = { path = "/x", reports = ["/tmp/*.xml"] }
[projects.web]
path = true
[projects.env.env]
PORT = 8080
"A=B" = "x"
YES = true
NUL = "\\u0000"
"""
    assert _faults(tmp_path, text) == [
        "line 4: projects.number must be a path or a table, not a number",
        "line 5: projects.empty is empty",
        "line 6: 'a:b' cannot be a project's name: it contains ':'",
        "line 7: projects.none has no path",
        "line 8: projects.wrong.path must be a text, not a date",
        "line 8: projects.wrong.python must be a text, not an array",
        "line 8: projects.wrong.env must be a table, not a text",
        "line 8: projects.wrong.grace must be a number of seconds from 0 to 600, not a text",
        "line 8: projects.wrong.reports must be an array of patterns, not a text",
        "line 9: projects.absolute.reports must have patterns that are relative to the project's root",
        "line 11: projects.web.path must be a text, not a boolean",
        "line 12: projects.env has no path",
        "line 14: projects.env.env: 'A=B' cannot be a variable's name",
        f"line 13: projects.env.env.PORT {variable} a number",
        f"line 15: projects.env.env.YES {variable} a boolean",
        f"line 16: projects.env.env.NUL {variable} one with a NUL character",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[projects]\napp = x\n", "line 2, column 7: Invalid value"),
        ("a = 1\na = 2\n", "line 2, column 6: Cannot overwrite a value"),
        ('a = "', "end of document: Unterminated string"),
        ("projects = 1", "projects must be a table, not a number"),
        ("[[projects]]", "projects must be a table, not an array"),
        (b"[projects]\napp = '\xff'\n", "line 2: this is not UTF-8"),
        ("a = 1\n".encode("utf-16"), "line 1: this is not UTF-8"),
        ("a = " + "[" * 100_000, "recursion"),
        ("a = " + "1" * 10_000, "integer string conversion"),
        ("a\0b = 1", "line 1, column 2"),
    ],
)
def test_a_broken_toml_config_is_refused_with_the_place(tmp_path: Path, text: str | bytes, fault: str) -> None:
    [message] = _faults(tmp_path, text)
    assert fault in message


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"projects": {\n"a" 1}}', "line 2, column 5: Expecting ':' delimiter"),
        ("[]", "the config must be a table, not an array"),
        ("null", "the config must be a table, not null"),
        ('{"projects": null}', "projects must be a table, not null"),
        ('{"projects": {"a": null}}', "projects.a must be a path or a table, not null"),
        ("[" * 100_000, "recursion"),
        ('{"projects": {"a": "/x", "b": "/y", "a": "/z"}}', "the key 'a' is there twice"),
    ],
)
def test_a_broken_json_config_is_refused_with_the_place(tmp_path: Path, text: str, fault: str) -> None:
    [message] = _faults(tmp_path, text, "config.json")
    assert fault in message


def test_an_unreadable_config_is_reported_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path, why in {
        tmp_path / "none": "There is no such file.",
        tmp_path: "It is a directory.",
        tmp_path / "loop": "Too many levels of symbolic links.",
        tmp_path / ("x" * 300): "File name too long.",
        Path("/dev/null/x"): "Not a directory.",
    }.items():
        with pytest.raises(ConfigUnreadable) as caught:
            read_config(path, HOME)
        assert (caught.value.what, caught.value.why) == (f"cannot read the config {path}", why)
        assert caught.value.hint


def test_a_config_that_others_may_write_is_warned_of(tmp_path: Path) -> None:
    _read(tmp_path, "")
    file = tmp_path / "config.toml"
    for mode, who in {0o660: "its group", 0o606: "everybody", 0o666: "everybody"}.items():
        file.chmod(mode)
        assert read_config(file, HOME).warnings == (f"{file} can be changed by {who}: chmod go-w {file}",)
    file.chmod(0o644)
    assert read_config(file, HOME).warnings == ()
    tmp_path.chmod(0o777)
    [warning] = read_config(file, HOME).warnings
    assert warning.endswith(f"can be replaced by everybody, because its directory is writable: chmod o-w {tmp_path}")
    tmp_path.chmod(0o1777)
    assert read_config(file, HOME).warnings == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_config_that_others_can_change_gets_a_warning(tmp_path: Path) -> None:
    _read(tmp_path, "")
    os.chown(tmp_path / "config.toml", 12345, 12345)
    [warning] = read_config(tmp_path / "config.toml", HOME).warnings
    assert "belongs to another user" in warning


def test_the_users_config_is_where_the_platform_keeps_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert user_config_path().is_relative_to("/home/me")
    assert user_config_path().parts[-2:] == ("qk-mcp", "config.toml")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user without a home")
def test_without_a_home_there_is_no_config_of_ones_own() -> None:
    with tempfile.TemporaryDirectory() as directory:  # pytest's own is closed to other users
        Path(directory).chmod(0o755)
        make_project(Path(directory) / "here", "")
        _check_without_a_home(Path(directory) / "here")


def _check_without_a_home(here: Path) -> None:
    script = f"""
import os, pathlib, platformdirs.unix
from qk_mcp import errors
from qk_mcp.projects import config
from qk_mcp.projects import registry

os.setuid(54321)
os.environ.clear()
registry = registry.build_registry([], None, environ=os.environ, cwd=pathlib.Path({str(here)!r}))
assert [project.alias for project in registry.projects] == ["here"], registry
try:
    config.user_config_path()
except errors.NoConfig as error:
    assert "--config FILE" in error.hint
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
