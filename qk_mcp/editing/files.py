"""Edits a user's file under a lock, atomically, and without losing what belongs to it."""

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

__all__ = ["CannotEdit", "backups_of", "edit_locked", "locked", "read_regular", "replace_file"]

_BOM = "\ufeff"
_BACKUPS = 5
"""Backups of a file that are kept, newest first."""


class CannotEdit(Exception):
    """Only a person should make this edit; the message, if any, says why."""


def edit_locked(
    path: Path, change: Callable[[str], str | None], *, backup: str = "", private: bool = True
) -> Path | None:
    """Replace the text of `path` by `change(text)` while no other edit runs; a missing file has the text "".

    A byte order mark and a link stay; missing directories are made. What is new is `private`, or has the usual
    permissions. Nothing is written if the text does not change. If `change` returns None, the file is removed. With
    `backup`, a suffix, the content that is replaced is kept beside `path`, where the newest five backups stay, and
    its path is returned. Raises OSError, UnicodeError, and what `change` raises; the file is then as it was.
    """
    file = Path(os.path.realpath(path))
    file.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    with locked(file):
        exists = file.exists()
        old = read_regular(file) if exists else b""
        text = old.decode()
        mark, body = _BOM * text.startswith(_BOM), text.removeprefix(_BOM)
        changed = change(body)
        if changed is None:
            file.unlink()
            return None
        new = (mark + changed).encode()
        if new == old:
            return None
        if exists and not os.access(file, os.W_OK):
            raise PermissionError("it may not be written")
        kept = _keep(path, old, backup) if exists and backup else None
        replace_file(file, new, private=private)
        return kept


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file. Raises OSError, also for a FIFO or a device, which could block."""
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path.read_bytes()


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of `file`, waiting for other processes that hold it. Raises OSError.

    The lock is a file beside it, which its holder deletes. A process that waited for a deleted lock file
    therefore tries again.
    """
    import fcntl

    lock = file.with_name(f".{file.name}.lock")
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                    break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def replace_file(file: Path, data: bytes, *, private: bool = True) -> None:
    """Make `data` the content of `file`, which must not be a link. Raises OSError.

    The mode, owner, ACL and extended attributes stay; a new file is `private`, or has the usual permissions. The
    replacement is atomic: after a crash, `file` has its old content or the new one. Only a file that a replacement
    would change (its owner, an attribute, another hard link, a mount point) is written in place.
    """
    from tempfile import mkstemp

    try:
        old = file.stat()
    except FileNotFoundError:
        old = None
    descriptor, name = mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with open(descriptor, "wb") as new:
            new.write(data)
            new.flush()
            if old is None and not private:
                os.fchmod(new.fileno(), 0o666 & ~_umask())
            faithful = old is None or (old.st_nlink == 1 and _copy_metadata(file, old, new.fileno()))
            os.fsync(new.fileno())
        try:
            if faithful:
                os.replace(name, file)
        except OSError as error:
            if error.errno != errno.EBUSY:  # a mount point
                raise
            faithful = False
        if not faithful:
            _overwrite(file, data)
            Path(name).unlink()
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_directory(file.parent)


def _umask() -> int:
    mask = os.umask(0o077)  # there is no way to only read it
    os.umask(mask)
    return mask


def _copy_metadata(file: Path, status: os.stat_result, new: int) -> bool:
    """Give the open file `new` the owner, mode, ACL and attributes of `file`; return whether all of them are equal."""
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.fstat(new).st_gid):
        try:
            os.fchown(new, status.st_uid, status.st_gid)
        except PermissionError:
            if status.st_uid != os.geteuid():
                return False
            try:
                os.fchown(new, -1, status.st_gid)
            except PermissionError:
                return False
    attributes = _attributes(file)
    for name in _attributes(new).keys() - attributes.keys():  # such as an ACL that the directory passed on
        with suppress(OSError):
            os.removexattr(new, name)
    os.fchmod(new, stat.S_IMODE(status.st_mode))
    for name, value in attributes.items():  # after the mode, which would change the ACL's mask
        try:
            os.setxattr(new, name, value)
        except OSError:
            if not name.startswith("security."):  # the system's own label, which it sets itself
                return False
    return True


def _attributes(file: Path | int) -> dict[str, bytes]:
    """Return the extended attributes of a file; Linux keeps ACLs there. Other systems have no such calls."""
    if sys.platform != "linux":
        return {}
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file)}
    except OSError:  # not every file system has them
        return {}


def _overwrite(file: Path, data: bytes) -> None:
    """Write a file in place; if that fails, its old content is written back."""
    with file.open("r+b", buffering=0) as stream:
        old = stream.read()
        try:
            _fill(stream.fileno(), data)
        except BaseException:
            _fill(stream.fileno(), old)
            raise


def _fill(descriptor: int, data: bytes) -> None:
    position = 0
    while position < len(data):
        position += os.pwrite(descriptor, data[position:], position)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def _sync_directory(path: Path) -> None:
    with suppress(OSError):  # some directories cannot be synced; the file is in place anyway
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def backups_of(path: Path, suffix: str) -> list[Path]:
    """Return the backups that `edit_locked` keeps of a file, the oldest first."""
    file = Path(os.path.realpath(path))
    name = re.compile(re.escape(file.name + suffix) + r"(-\d+)?")
    found = [entry for entry in file.parent.iterdir() if name.fullmatch(entry.name) and entry.is_file()]
    return sorted(found, key=lambda entry: entry.stat().st_mtime_ns)


def _keep(file: Path, data: bytes, suffix: str) -> Path:
    """Write `data` to a backup of `file` and return where; remove the oldest backups if there are too many."""
    kept = backups_of(file, suffix)
    if same := next((each for each in kept if each.read_bytes() == data), None):
        os.utime(same)  # it is the newest now
        return same
    names = (file.with_name(f"{file.name}{suffix}{f'-{number}' if number > 1 else ''}") for number in count(1))
    backup = next(name for name in names if not os.path.lexists(name))
    replace_file(backup, data)
    for each in kept[: max(0, len(kept) + 1 - _BACKUPS)]:
        each.unlink()
    return backup
