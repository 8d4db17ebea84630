"""`qk_mcp.server.start_slots`: the turns of runs that start, in order and through the wire."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from qk_mcp.server.start_slots import StartSlots
from tests.conftest import Serve
from tests.support.processes import until

COUNT = 60


def test_a_free_slot_goes_to_the_project_that_holds_the_fewest() -> None:
    async def turns() -> list[str]:
        slots, order = StartSlots(3), []

        async def wait(project: str) -> None:
            await slots.acquire(project)
            order.append(project)

        for _ in range(3):
            await slots.acquire("slow")
        waiting = [asyncio.create_task(wait(project)) for project in ("slow", "slow", "quick", "quick", "other")]
        await asyncio.sleep(0)
        for _ in range(3):
            slots.release("slow")
            await asyncio.sleep(0)
        slots.release("quick")
        await asyncio.sleep(0)
        slots.release("slow")
        await asyncio.gather(*waiting)
        return order

    assert asyncio.run(turns()) == ["quick", "other", "slow", "quick", "slow"]


def test_a_cancelled_wait_loses_no_slot() -> None:
    async def count() -> int:
        slots = StartSlots(1)
        await slots.acquire("first")
        waiting = [asyncio.create_task(slots.acquire(name)) for name in ("second", "second", "third")]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        slots.release("first")
        waiting[1].cancel()  # it has been granted in this moment
        await asyncio.wait_for(waiting[2], 10)
        slots.release("third")
        await asyncio.wait_for(slots.acquire("fourth"), 10)
        return 1

    assert asyncio.run(count()) == 1


@pytest.mark.long
def test_a_project_does_not_wait_for_all_runs_of_another(serve: Serve, project: Callable[..., Path]) -> None:
    slow = project(
        """
        import os, time
        from pathlib import Path
        from quickie import task

        (Path(__file__).parents[1] / f"started-{os.getpid()}").touch()
        time.sleep(600)

        @task
        def work(): ...
        """,
        "slow",
    )
    quick = project(
        """
        from quickie import task

        @task
        def work():
            print("done")
        """,
        "quick",
    )
    client = serve({"slow": slow, "quick": quick}, "--no-warm")
    crowd = [client.start("run_task", task_name="work", project="slow") for _ in range(COUNT)]
    until(lambda: list(slow.glob("started-*")), what="the first to start")
    late = client.start("run_task", task_name="work", project="slow", timeout=1)
    assert client.run("work", project="quick").data["stdout"] == "done\n"
    assert len(list(slow.glob("started-*"))) < COUNT, "the others wait"
    refusal = late.wait().refusal
    assert "waited for other runs to start" in refusal
    assert "loading" not in refusal
    for call in crowd:
        call.cancel()
