"""Live output: log and progress messages."""

import time

from tests.conftest import Demo, Serve
from tests.support.client import MODERN
from tests.support.processes import until

GATED = """
    import sys, time
    from pathlib import Path
    from quickie import task

    def wait_for(name):
        while not Path(name).exists():
            time.sleep(0.01)

    @task
    def talk():
        print("one")
        wait_for("a")
        print("two", file=sys.stderr)
        wait_for("b")
        print("three")
        wait_for("c")

    @task
    def prompt():
        print("Continue? [y/N] ", end="", flush=True)
        wait_for("a")
        print("yes")

    @task
    def redraw():
        for percent in range(101):
            print(f"\\r{percent}%", end="", flush=True)
        print("\\rdone")

    @task
    def silent():
        time.sleep(2.5)

    @task
    def quick():
        print("quick")

    @task
    def steady():
        for number in range(30):
            print("tick", number)
            time.sleep(0.1)
"""


def test_lines_arrive_while_the_task_runs(demo: Demo) -> None:
    client = demo(GATED)
    call = client.start("run_task", task_name="talk")
    for level, line, gate in (("info", "one", "a"), ("warning", "two", "b"), ("info", "three", "c")):
        client.hear(line, level)
        assert not call.answered
        (demo.root / gate).touch()
    assert call.wait().data == {"exit_code": 0, "stdout": "one\nthree\n", "stderr": "two\n"}


def test_the_task_is_the_logger(demo: Demo) -> None:
    client = demo(GATED)
    client.run("quick")
    messages = client.notifications("notifications/message")
    assert {message.params["logger"] for message in messages} == {"quick"}


def test_a_prompt_is_sent_while_the_task_waits(demo: Demo) -> None:
    client = demo(GATED)
    call = client.start("run_task", task_name="prompt")
    client.hear("Continue? [y/N]", "info")
    assert not call.answered
    (demo.root / "a").touch()
    assert call.wait().data["stdout"] == "Continue? [y/N] yes\n"
    assert "".join(client.logs("info")).count("Continue?") == 1, "the prompt is sent once"


def test_every_line_is_sent_once_and_in_order(demo: Demo) -> None:
    client = demo(GATED)
    answer = client.run("steady").data
    assert "\n".join(client.logs("info")) + "\n" == answer["stdout"]


def test_many_lines_share_a_message(demo: Demo) -> None:
    client = demo("""
        from quickie import task

        @task
        def count():
            for number in range(5000):
                print(number)
    """)
    client.run("count")
    assert "\n".join(client.logs("info")).splitlines() == [str(number) for number in range(5000)]
    assert len(client.logs("info")) < 100


def test_a_redrawn_line_is_sent_in_few_states(demo: Demo) -> None:
    client = demo(GATED)
    assert client.run("redraw").data["stdout"] == "done\n"
    shown = "\n".join(client.logs("info"))
    assert shown.endswith("done")
    assert "\r" not in shown
    assert shown.count("%") < 20


def test_a_bar_that_is_never_quiet_is_sent_once_a_second(demo: Demo) -> None:
    client = demo("""
        import itertools, time
        from pathlib import Path
        from quickie import task

        def until(name):
            for step in itertools.count():
                if Path(name).exists():
                    break
                yield step
                time.sleep(0.1)

        @task
        def bar():
            for step in until("bar"):
                print(f"\\r{step} of 40", end="", flush=True)

        @task
        def dots():
            for step in until("dots"):
                print(".", end="", flush=True)
    """)
    for task, shown in (("bar", " of 40"), ("dots", "....")):
        client.messages.clear()
        call = client.start("run_task", task_name=task, progress=True)
        while shown not in call.first_report().params["message"]:  # "no output yet", if the task starts slowly
            client.messages.clear()
        client.hear(shown)
        (demo.root / task).touch()
        answer = call.wait().data
    assert "".join(client.logs("info")) == answer["stdout"]


# Progress


def test_progress_has_the_last_line(demo: Demo) -> None:
    client = demo(GATED)
    call = client.start("run_task", task_name="steady", progress=True)
    answered = call.wait().at
    reports = call.progress
    assert 2 <= len(reports) <= answered - call.sent_at, "at most one a second"
    assert reports[0].at - call.sent_at >= 0.95, "nothing before the first second"
    seconds = [report.params["progress"] for report in reports]
    assert seconds == sorted(set(seconds)), "progress only grows"
    messages = [report.params["message"] for report in reports]
    assert all(message.startswith(("tick ", "no output yet")) for message in messages), "the latter if it starts slowly"
    assert messages[-1].startswith("tick ")


def test_the_answer_comes_well_after_the_last_progress(demo: Demo) -> None:
    """Some clients close the connection if they handle progress after the answer."""
    client = demo("""
        import os
        from quickie import Arg, task

        @task(args=[Arg("gate")])
        def wait(gate):
            while not os.path.exists(gate):
                pass
            os._exit(0)
    """)
    gaps = []
    for gate in "abc":  # several tries: a busy machine may deliver both together
        call = client.start("run_task", task_name="wait", args=[gate], progress=True)
        report = call.first_report()
        (demo.root / gate).touch()
        gaps.append(call.wait().at - report.at)
    assert max(gaps) > 0.03, gaps


def test_a_silent_task_has_progress(demo: Demo) -> None:
    client = demo(GATED)
    call = client.start("run_task", task_name="silent", progress=True)
    call.wait()
    assert len(call.progress) >= 2
    assert all(report.params["message"] for report in call.progress)


def test_progress_needs_a_token(demo: Demo) -> None:
    client = demo(GATED)
    client.run("steady")
    assert client.notifications("notifications/progress") == []


def test_a_quick_task_has_no_progress(demo: Demo) -> None:
    client = demo(GATED)
    call = client.start("run_task", task_name="quick", progress=True)
    answered = call.wait().at
    assert call.progress == [] or answered - call.sent_at > 0.9, "progress before the first second"


def test_modern_clients_get_the_log_level_that_they_ask_for(serve: Serve) -> None:
    client = serve(GATED, version=MODERN)
    for asked, heard in ((None, False), ("error", False), ("warning", False), ("info", True), ("debug", True)):
        client.messages.clear()
        client.start("run_task", log_level=asked, task_name="quick").wait()
        assert ("quick" in client.logs("info")) is heard, asked


def test_a_client_that_sets_a_level_gets_no_lower_one(serve: Serve) -> None:
    client = serve(GATED)
    client.request("logging/setLevel", {"level": "error"}).wait()
    client.run("quick")
    assert client.logs() == []


# A slow client


def test_a_client_that_does_not_read_does_not_slow_the_task(demo: Demo) -> None:
    client = demo("""
        import os
        from pathlib import Path
        from quickie import task

        @task
        def flood():
            for number in range(200_000):
                print(number, "x" * 100)
            Path("done").touch()
    """)
    client.pause()
    call = client.start("run_task", task_name="flood", timeout=100)
    until(lambda: (demo.root / "done").exists(), 60, "the task to end while nobody reads")
    time.sleep(0.2)
    client.resume()
    answer = call.wait().data
    assert answer["exit_code"] == 0
    assert answer["stdout"].endswith(f"199999 {'x' * 100}\n")
    shown = "\n".join(client.logs("info"))
    assert "lines are not shown live" in shown, "a gap is marked"
    assert len(shown) < 2_000_000
