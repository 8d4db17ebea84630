"""Replacing a file keeps what belongs to it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from qk_mcp.editing.files import CannotEdit, backups_of, edit_locked, read_regular, replace_file

_ACL = bytes.fromhex("0200000001000600ffffffff020004003930000004000000ffffffff10000400ffffffff20000000ffffffff")
"""user::rw- user:12345:r-- group::--- mask::r-- other::---"""  # fmt: skip

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs extended attributes")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_text("old")
    return file


def _set(file: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        pytest.skip(f"this file system has no {name}: {error}")


@on_linux
def test_an_acl_and_attributes_stay(file: Path) -> None:
    _set(file, "user.note", b"mine")
    _set(file, "system.posix_acl_access", _ACL)
    before = file.stat()
    replace_file(file, b"new")
    assert file.read_bytes() == b"new"
    assert os.getxattr(file, "user.note") == b"mine"
    assert os.getxattr(file, "system.posix_acl_access") == _ACL
    assert file.stat().st_mode == before.st_mode
    assert file.stat().st_ino != before.st_ino


@on_linux
def test_a_default_acl_of_the_directory_adds_nothing(file: Path) -> None:
    _set(file.parent, "system.posix_acl_default", _ACL)
    replace_file(file, b"new")
    assert "system.posix_acl_access" not in os.listxattr(file)


def test_hard_links_stay_together(file: Path) -> None:
    other = file.with_name("other")
    other.hardlink_to(file)
    replace_file(file, b"something longer, then shorter")
    replace_file(file, b"new")
    assert other.read_bytes() == b"new"
    assert sorted(path.name for path in file.parent.iterdir()) == ["file", "other"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
@pytest.mark.parametrize(("owner", "group"), [(12345, 12346), (12347, 12346)])
def test_the_owner_of_a_file_that_a_group_shares_stays(file: Path, owner: int, group: int) -> None:
    for parent in (file.parent, *file.parent.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o777)
    os.chown(file, owner, group)
    file.chmod(0o660)
    source = (
        "import os, sys; from pathlib import Path; from qk_mcp.editing.files import replace_file; import tempfile\n"
        f"os.setgroups([{group}]); os.setgid(12347); os.setuid(12345); replace_file(Path(sys.argv[1]), b'new')\n"
    )
    subprocess.run([sys.executable, "-c", source, file], check=True, timeout=60)
    status = file.stat()
    assert file.read_bytes() == b"new"
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (owner, group, 0o660)


def test_a_fifo_and_a_device_are_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/zero")):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_regular(path)


def test_an_edit_gets_the_text_without_its_byte_order_mark(file: Path) -> None:
    file.write_bytes("\ufeffa\r\n".encode())
    backup = edit_locked(file, lambda text: text.replace("a\r\n", "b\r\n"), backup=".old")
    assert file.read_bytes() == "\ufeffb\r\n".encode()
    assert backup == file.with_name("file.old")
    assert backup.read_bytes() == "\ufeffa\r\n".encode()


def test_an_edit_that_changes_nothing_or_fails_writes_nothing(file: Path) -> None:
    before = file.stat()

    def refuse(_: str) -> str:
        raise CannotEdit

    assert edit_locked(file, str, backup=".old") is None
    with pytest.raises(CannotEdit):
        edit_locked(file, refuse, backup=".old")
    assert file.stat() == before
    assert list(file.parent.iterdir()) == [file]


def test_the_newest_five_backups_are_kept_and_none_twice(file: Path) -> None:
    other = file.with_name("file.old-notes")
    other.write_text("not a backup")
    for number in range(8):
        edit_locked(file, lambda _, number=number: f"{number}", backup=".old")  # type: ignore[misc]
    kept = backups_of(file, ".old")
    assert [backup.read_text() for backup in kept] == ["2", "3", "4", "5", "6"]
    edit_locked(file, lambda _: "2", backup=".old")
    assert edit_locked(file, lambda _: "new", backup=".old") == kept[0]
    assert [backup.read_text() for backup in backups_of(file, ".old")] == ["4", "5", "6", "7", "2"]
    assert other.exists()


def test_an_edit_can_remove_the_file(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    assert edit_locked(link, lambda _: None, backup=".old") is None
    assert [path.name for path in file.parent.iterdir()] == ["link"]
