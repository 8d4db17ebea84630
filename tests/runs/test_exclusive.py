"""Locks of tasks: who has one, who waits for one, and when it ends."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from qk_mcp.errors import LockUnusable
from qk_mcp.runs.exclusive import TaskLock, lock_file

pytestmark = pytest.mark.anyio

type MakeLock = Callable[[str], TaskLock]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return lock_file(tmp_path / "locks", (1, 2), "build")


@pytest.fixture
def make_lock(file: Path) -> MakeLock:
    return lambda owner: TaskLock(file, "build", owner, 4711)


def test_roots_and_tasks_have_locks_of_their_own(tmp_path: Path) -> None:
    places = [((1, 2), "build"), ((1, 2), "test"), ((1, 3), "build"), ((12, 0), "x")]
    assert len({lock_file(tmp_path, root, task) for root, task in places}) == len(places)


async def test_a_second_run_waits_for_the_first_and_knows_it(make_lock: MakeLock, file: Path) -> None:
    waiting = anyio.Event()
    first, second = make_lock("the first run"), make_lock("the second run")
    second.on_wait = lambda _: waiting.set()
    await first.acquire()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second.acquire)
        await waiting.wait()
        assert second.other.startswith("the first run (process 4711), since ")
        assert not second.is_held
        first.release()
    assert second.is_held
    assert second.waited > 0
    second.release()


async def test_a_cancelled_wait_leaves_nothing(make_lock: MakeLock) -> None:
    first, second = make_lock("one"), make_lock("two")
    await first.acquire()
    before = _descriptors()
    with anyio.move_on_after(0.1) as limit:
        await second.acquire()
    assert limit.cancelled_caught
    assert _descriptors() == before
    first.release()
    await second.acquire()
    second.release()


async def test_a_lock_lasts_as_long_as_there_is_a_copy_of_its_descriptor(make_lock: MakeLock) -> None:
    first, second = make_lock("one"), make_lock("two")
    descriptor = await first.acquire()
    copy = os.dup(descriptor)
    first.release()
    with anyio.move_on_after(0.1) as limit:
        await second.acquire()
    assert limit.cancelled_caught
    os.close(copy)
    await second.acquire()
    second.release()


async def test_an_unreadable_owner_is_another_run(make_lock: MakeLock, file: Path) -> None:
    first, second = make_lock("one"), make_lock("two")
    await first.acquire()
    file.write_bytes(b"\xff{")
    with anyio.move_on_after(0.1):
        await second.acquire()
    assert second.other == "another run"
    first.release()


async def test_a_lock_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file")
    lock = TaskLock(lock_file(tmp_path / "locks", (1, 2), "build"), "build", "a run", 1)
    with pytest.raises(LockUnusable, match=r"cannot be used: (Not a directory|File exists)"):
        await lock.acquire()


def _descriptors() -> set[str]:
    return {entry.name for entry in Path("/dev/fd").iterdir()}
