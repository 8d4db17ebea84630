"""Edits of a config file: what stays, and what survives a failure."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qk_mcp.errors import ConfigBroken, ConfigNotWritten, EditRefused, InvalidSetting, NameTaken, UnknownProject
from qk_mcp.projects.config_edit import add_project, change_setting, remove_projects
from tests.support.environment import scrubbed

HAND_WRITTEN = '\ufeff# mine\r\n[projects]\r\napp = "/x" # the app\r\n\r\n[other]\r\nkey = 1'


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "config"
    directory.mkdir()
    yield directory / "config.toml"
    left = sorted(path.name for path in directory.iterdir()) if directory.exists() else []
    assert not [name for name in left if name.startswith(".")], "a lock or a temporary file was left"


def _add(file: Path, alias: str, path: str, *, force: bool = False) -> str:
    return add_project(file, alias, path, {"HOME": "/home/me"}, force=force)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_config_is_private_and_so_is_its_directory(tmp_path: Path) -> None:
    file = tmp_path / "new" / "qk-mcp" / "config.toml"
    old = os.umask(0)
    try:
        assert _add(file, "app", "/x") == "added"
    finally:
        os.umask(old)
    assert file.read_text() == '[projects]\napp = "/x"\n'
    assert (_mode(file), _mode(file.parent)) == (0o600, 0o700)
    assert list(file.parent.iterdir()) == [file]


def test_an_edit_keeps_every_other_byte(file: Path) -> None:
    file.write_bytes(HAND_WRITTEN.encode())
    _add(file, "my lib", "/lib")
    entry = '"my lib" = "/lib"\r\n'
    assert file.read_bytes().decode() == HAND_WRITTEN.replace("\r\n\r\n", f"\r\n{entry}\r\n")
    remove_projects(file, ["my lib"])
    assert file.read_bytes().decode() == HAND_WRITTEN
    _add(file, "app", "/y", force=True)
    assert file.read_bytes().decode() == HAND_WRITTEN.replace("/x", "/y")
    remove_projects(file, ["app"])
    assert file.read_bytes().decode() == HAND_WRITTEN.replace('app = "/x" # the app\r\n', "")


def test_the_mode_the_owner_and_a_link_stay(file: Path) -> None:
    target = file.parent / "elsewhere.toml"
    target.write_text("")
    target.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(target, 12345, 12346)
    before = target.stat()
    file.symlink_to(target.name)
    _add(file, "app", "/x")
    after = target.stat()
    assert file.is_symlink()
    assert "app" in target.read_text()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino, "it was written in place"


def test_a_link_to_nothing_makes_what_it_leads_to(file: Path) -> None:
    file.symlink_to(file.parent / "deep" / "target.toml")
    _add(file, "app", "/x")
    assert file.is_symlink()
    assert "app" in file.read_text()


def test_the_same_path_in_other_words_changes_nothing(file: Path) -> None:
    file.write_text('projects = { app = "~/x" }')
    before = file.stat()
    for path in ("~/x", "/home/me/x", "/home/me//x/"):
        assert _add(file, "app", path) == "kept"
    assert file.stat() == before


def test_another_path_needs_force_and_keeps_other_settings(file: Path) -> None:
    file.write_text('[projects.app]\npython = "p"\npath = "/x"\nwhat = 1\n')
    with pytest.raises(NameTaken, match=r"Its path is /x\.\nhint: .*--force"):
        _add(file, "app", "/y")
    assert _add(file, "app", "/y", force=True) == "changed"
    assert file.read_text() == '[projects.app]\npython = "p"\npath = "/y"\nwhat = 1\n'


def test_a_name_that_differs_only_by_case_is_refused_also_with_force(file: Path) -> None:
    _add(file, "Straße", "/x")
    before = file.read_bytes()
    for force in (False, True):
        with pytest.raises(NameTaken, match="only by case"):
            _add(file, "STRASSE", "/x", force=force)
    assert file.read_bytes() == before


def test_removing_takes_all_or_nothing(file: Path) -> None:
    file.write_text('[projects]\napp = "/x"\nweb = "/y"\nlib = "/z"\n')
    before = file.stat()
    with pytest.raises(UnknownProject, match=r"'wep'(.|\n)*Projects: app, web, lib\.\nhint: did you mean 'web'\?"):
        remove_projects(file, ["app", "wep"])
    assert file.stat() == before
    remove_projects(file, ["app", "lib", "app"])
    assert file.read_text() == '[projects]\nweb = "/y"\n'


def test_removing_from_no_config_makes_none(tmp_path: Path) -> None:
    with pytest.raises(UnknownProject):
        remove_projects(tmp_path / "none" / "config.toml", ["app"])
    assert not (tmp_path / "none").exists()


def test_a_broken_entry_can_be_removed(file: Path) -> None:
    file.write_text('[projects]\n"a:b" = 5\napp = "/x"\n')
    remove_projects(file, ["a:b"])
    assert file.read_text() == '[projects]\napp = "/x"\n'


@pytest.mark.parametrize(
    ("content", "failure"),
    [
        (b"[projects]\napp = x\n", ConfigBroken),
        (b"projects = 1\n", ConfigBroken),
        (b"[projects]\napp = '\xff'\n", ConfigBroken),
        (b"[projects.app]\npython = 'p'\n", EditRefused),
    ],
)
def test_a_config_that_cannot_be_parsed_stays_as_it_is(file: Path, content: bytes, failure: type[Exception]) -> None:
    file.write_bytes(content)
    before = file.stat()
    with pytest.raises(failure):
        _add(file, "app", "/x", force=True)
    assert (file.stat(), file.read_bytes()) == (before, content)


def test_a_refusal_shows_what_to_write(file: Path) -> None:
    file.write_text("[projects.app]\npython = 'p'\n")
    with pytest.raises(EditRefused) as caught:
        _add(file, "app", "/x", force=True)
    assert caught.value.hint == 'write this by hand:\n\n[projects]\napp = "/x"\n'


def test_a_json_config_is_only_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"projects": {"app": "/x"}}')
    with pytest.raises(EditRefused, match='write this by hand under "projects": "web": "/y"'):
        _add(file, "web", "/y")
    with pytest.raises(EditRefused):
        remove_projects(file, ["app"])
    assert file.read_text() == '{"projects": {"app": "/x"}}'


def test_a_config_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigNotWritten, match="It is a directory"):
        _add(tmp_path, "app", "/x")
    with pytest.raises(ConfigNotWritten, match="/dev/null is not a directory"):
        _add(Path("/dev/null/config.toml"), "app", "/x")


def test_a_path_that_is_not_utf8_cannot_be_kept(file: Path) -> None:
    file.write_text("# mine\n")
    with pytest.raises(ConfigNotWritten, match="not UTF-8"):
        _add(file, "app", os.fsdecode(b"/x\xff"))
    assert file.read_text() == "# mine\n"


# Other processes

_ADD = """
import sys
from pathlib import Path
from qk_mcp.projects.config_edit import add_project

add_project(Path(sys.argv[1]), sys.argv[2], "/x", {})
"""


def _start(file: Path, alias: str, prelude: str = "", **more: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", prelude + _ADD, str(file), alias]
    environ = scrubbed(file.parent.parent / "home") | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, **more)  # type: ignore[call-overload,no-any-return]


@pytest.mark.long
def test_edits_at_the_same_time_add_up(file: Path) -> None:
    count = 12
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: _start(file, f"app{n}").communicate(timeout=60), range(count)))
    assert sorted(file.read_text().splitlines()[1:]) == sorted(f'app{n} = "/x"' for n in range(count))


def test_an_edit_waits_for_the_one_before(file: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from qk_mcp.editing.files import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin
    assert holder.stdout
    with holder:
        assert holder.stdout.readline() == "held\n"
        waiting = _start(file, "app")
        time.sleep(0.5)
        assert waiting.poll() is None
        holder.kill()  # a lock goes with its holder
    assert waiting.wait(20) == 0, waiting.stderr
    assert waiting.stderr
    waiting.stderr.close()
    assert "app" in file.read_text()


def test_an_edit_that_is_killed_leaves_the_old_file_or_the_new_one(file: Path) -> None:
    old = "# mine\n" * 1000
    for moment in range(0, 60, 4):
        file.write_text(old)
        process = _start(file, "app")
        time.sleep(0.05 + moment / 300)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)
        assert file.read_text() in (old, old + '\n[projects]\napp = "/x"\n')
    for left in file.parent.glob(".*"):
        left.unlink()


def test_a_full_disk_leaves_the_file_as_it_was(file: Path) -> None:
    old = "# mine\n" * 1000
    file.write_text(old)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    _, stderr = _start(file, "app", limit).communicate(timeout=20)
    assert b"File too large; the file has not changed." in stderr
    assert file.read_text() == old


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
@pytest.mark.parametrize("locked", ["file", "directory"])
def test_a_config_that_may_not_be_written_is_left_as_it_was(file: Path, locked: str) -> None:
    for path in (file.parent, *file.parent.parents[:2]):
        path.chmod(0o755)
    file.write_text("# mine\n")
    os.chown(file.parent, 12345 if locked == "file" else 0, -1)
    file.chmod(0o444)
    user = "import os; os.setgid(12345); os.setuid(12345)\n"
    imports = "import qk_mcp.projects.config_edit, tomli_w, tempfile, fcntl\n"  # while it still may
    _, stderr = _start(file, "app", imports + user).communicate(timeout=20)
    assert b"cannot write the config" in stderr
    assert file.read_text() == "# mine\n"


def test_a_setting_grows_and_shrinks_and_no_other_byte_changes(file: Path) -> None:
    file.write_bytes(HAND_WRITTEN.encode())

    def set_(key: str, *words: str) -> object:
        return change_setting(file, "app", key, words)

    def unset(key: str, *words: str) -> object:
        return change_setting(file, "app", key, words, remove=True)

    assert set_("deny", "deploy*") == ["deploy*"]
    assert set_("deny", "db:*", "deploy*") == ["deploy*", "db:*"]
    entry = '{ path = "/x", deny = ["deploy*", "db:*"] }'
    assert file.read_bytes().decode() == HAND_WRITTEN.replace('"/x"', entry)
    assert (set_("max_timeout", "60"), set_("max_timeout", "1.5"), set_("log_args", "false")) == (60, 1.5, False)
    assert (set_("redact", "false"), set_("redact", "X_*"), set_("reports", "a.xml")) == (False, ["X_*"], ["a.xml"])
    for key in ("max_timeout", "log_args", "redact", "reports"):
        assert unset(key) is None
    assert (unset("deny", "deploy*"), unset("deny", "db:*"), unset("grace")) == (["db:*"], None, None)
    assert file.read_bytes().decode() == HAND_WRITTEN.replace('"/x"', '{ path = "/x" }')
    assert (set_("allow", "test"), unset("allow", "test"), unset("allow")) == (["test"], [], None)


def test_a_json_config_keeps_its_form(tmp_path: Path) -> None:
    file = tmp_path / "team.json"
    file.write_text('{\n  "projects": {"a": "/x",\n    "b": {"path": "/y"}}\n}\n')
    assert change_setting(file, "a", "deny", ["deploy*"]) == ["deploy*"]
    assert change_setting(file, "b", "max_timeout", ["60"]) == 60
    entries = json.loads(file.read_text())["projects"]
    assert entries == {"a": {"path": "/x", "deny": ["deploy*"]}, "b": {"path": "/y", "max_timeout": 60}}
    change_setting(file, "b", "max_timeout", [], remove=True)
    assert json.loads(file.read_text())["projects"]["b"] == {"path": "/y"}


@pytest.mark.parametrize(
    ("key", "words", "remove", "why"),
    [
        ("denny", ["x"], False, "did you mean deny"),
        ("pyton", ["x"], False, "there is no such setting"),
        ("deny", [""], False, "is empty"),
        ("deny", ["x" * 301], False, "more than 300 characters"),
        ("max_timeout", ["0"], False, "from 1 to 86400, not 0"),
        ("max_timeout", ["nan"], False, "from 1 to 86400, not nan"),
        ("max_timeout", ["soon"], False, "not 'soon'"),
        ("max_timeout", ["1", "2"], False, "one value, not 2"),
        ("log_args", ["yes"], False, "true or false, not 'yes'"),
        ("reports", ["/tmp/x.xml"], False, "relative to the project's root"),
        ("deny", ["y"], True, "it does not have 'y'"),
        ("grace", ["1"], True, "not a list"),
    ],
)
def test_a_wrong_setting_is_not_written(file: Path, key: str, words: list[str], remove: bool, why: str) -> None:
    text = '[projects.app]\npath = "/x"\ndeny = ["x"]\n'
    file.write_text(text)
    with pytest.raises(InvalidSetting) as caught:
        change_setting(file, "app", key, words, remove=remove)
    assert why in str(caught.value)
    assert file.read_text() == text


def test_a_setting_of_an_unknown_project_is_not_written(file: Path) -> None:
    file.write_text('[projects]\napp = "/x"\n')
    with pytest.raises(UnknownProject):
        change_setting(file, "ap", "deny", ["x"])
    file.unlink()
    with pytest.raises(UnknownProject):
        change_setting(file, "app", "deny", ["x"])
    file.write_text('[projects.app]\npath = "/x"\ndeny = ["x", # why\n]\n')
    with pytest.raises(EditRefused) as caught:
        change_setting(file, "app", "deny", ["y"])
    assert 'deny = ["y"]' in caught.value.hint
