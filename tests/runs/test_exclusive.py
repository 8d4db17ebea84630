"""Locks of tasks: who has one, who waits for one, and when it ends."""

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from qk_mcp.errors import LockUnusable
from qk_mcp.runs.exclusive import TaskLock

pytestmark = pytest.mark.anyio

ROOT, TASK = (1, 2), "build"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def locks(tmp_path: Path) -> tuple[TaskLock, TaskLock]:
    """The locks of two runs."""
    return TaskLock(tmp_path / "locks", "the first run", 4711), TaskLock(tmp_path / "locks", "the second run", 4712)


async def test_a_second_run_waits_for_the_first_and_knows_it(locks: tuple[TaskLock, TaskLock], tmp_path: Path) -> None:
    first, second = locks
    others: list[str] = []
    waiting = anyio.Event()

    def on_wait(other: str) -> None:
        others.append(other)
        waiting.set()

    await first.acquire(ROOT, TASK)
    [file] = (tmp_path / "locks").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second.acquire, ROOT, TASK, on_wait)
        await waiting.wait()
        assert second.is_waiting
        first.release(remove=True)
    [other] = others
    assert other.startswith("the first run (process 4711), since ")
    assert second.other == other
    assert second.waited > 0
    assert not second.is_waiting
    second.release(remove=True)


@pytest.mark.parametrize("place", [((1, 3), "build"), ((1, 2), "test"), ((12, 0), "build")])
async def test_roots_and_tasks_have_locks_of_their_own(
    locks: tuple[TaskLock, TaskLock], place: tuple[tuple[int, int], str]
) -> None:
    await locks[0].acquire(ROOT, TASK)
    await locks[1].acquire(*place)
    assert not locks[1].waited
    for lock in locks:
        lock.release(remove=True)


async def test_a_cancelled_wait_leaves_nothing(locks: tuple[TaskLock, TaskLock]) -> None:
    first, second = locks
    await first.acquire(ROOT, TASK)
    before = _descriptors()
    with anyio.move_on_after(0.1) as limit:
        await second.acquire(ROOT, TASK)
    assert limit.cancelled_caught
    assert second.is_waiting
    assert _descriptors() == before
    first.release(remove=True)
    await second.acquire(ROOT, TASK)
    second.release(remove=True)


async def test_a_lock_lasts_as_long_as_there_is_a_copy_of_its_descriptor(locks: tuple[TaskLock, TaskLock]) -> None:
    first, second = locks
    copy = os.dup(await first.acquire(ROOT, TASK))
    first.release(remove=False)
    with anyio.move_on_after(0.1) as limit:
        await second.acquire(ROOT, TASK)
    assert limit.cancelled_caught
    os.close(copy)
    await second.acquire(ROOT, TASK)
    second.release(remove=True)


async def test_many_runs_never_hold_it_together_and_leave_no_file(tmp_path: Path) -> None:
    held = 0

    async def hold(number: int) -> None:
        nonlocal held
        lock = TaskLock(tmp_path / "locks", f"run {number}", number)
        await lock.acquire(ROOT, TASK)
        held += 1
        assert held == 1
        await anyio.lowlevel.checkpoint()
        held -= 1
        lock.release(remove=True)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(hold, number)
    assert list((tmp_path / "locks").iterdir()) == []


async def test_an_unreadable_owner_is_another_run(locks: tuple[TaskLock, TaskLock], tmp_path: Path) -> None:
    first, second = locks
    await first.acquire(ROOT, TASK)
    [file] = (tmp_path / "locks").iterdir()
    file.write_bytes(b"\xff{")
    with anyio.move_on_after(0.1):
        await second.acquire(ROOT, TASK)
    assert second.other == "another run"
    first.release(remove=True)


async def test_a_lock_file_that_cannot_be_made_is_an_error(locks: tuple[TaskLock, TaskLock], tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file")
    with pytest.raises(LockUnusable, match=r"cannot be used: (Not a directory|File exists)"):
        await locks[0].acquire(ROOT, TASK)


def _descriptors() -> set[str]:
    return {entry.name for entry in Path("/dev/fd").iterdir()}
