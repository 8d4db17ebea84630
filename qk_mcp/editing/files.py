"""Replaces a person's file so that nobody ever sees half of it, and one writer at a time."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["locked", "replace"]


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep other processes that use this function out while `file` is read, changed and replaced; wait for them.

    The lock is a file beside it, which goes when its holder is done: a waiter whose
    lock file is no longer the one on disk begins anew. Raises OSError.
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


def replace(file: Path, data: bytes) -> None:
    """Make `data` the content of `file`: mode and owner stay, a new file is private. `file` must not be a link.

    Whatever happens meanwhile, `file` is the old one or the new one, also after a crash. Raises OSError.
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
            if old:
                with suppress(PermissionError):  # only root can give a file back to its owner
                    os.fchown(new.fileno(), old.st_uid, old.st_gid)
                os.fchmod(new.fileno(), stat.S_IMODE(old.st_mode))
            os.fsync(new.fileno())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every directory can be synced; the file is in place all the same
        directory = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
