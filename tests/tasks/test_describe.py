"""Describing a project: every task that can be described is, and no process is left."""

import time

import pytest

from qk_mcp.errors import ProjectBroken
from tests.support.processes import new_children
from tests.tasks.conftest import Describe


@pytest.mark.long
def test_two_thousand_tasks_are_described(described: Describe) -> None:
    tasks = "".join(f"@task(args=['--option', 'word'])\ndef task_{number}(**_): 'Help.'\n" for number in range(2_000))
    assert len(described(f"from quickie import task\n{tasks}").tasks) == 2_000


def test_a_module_that_does_not_end_is_stopped_with_its_process_tree(described: Describe) -> None:
    source = """
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "300"], start_new_session=True)
        print("on my way", flush=True)
        time.sleep(300)
    """
    before, began = new_children(set()), time.monotonic()
    with pytest.raises(ProjectBroken) as failure:
        described(source, seconds=1.0)
    assert time.monotonic() - began < 30
    assert "within 1 s" in str(failure.value)
    assert "on my way" in str(failure.value)
    assert not new_children(before)


def test_processes_that_an_import_leaves_running_are_ended(described: Describe) -> None:
    before = new_children(set())
    described("import subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True)\n")
    assert not new_children(before)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("os._exit(7)", "exit code 7"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("print('x' * 1_000_000, flush=True); os._exit(0)", "exit code 0"),
        ("sys.exit('no more')", "no more"),
    ],
)
def test_a_module_that_ends_its_interpreter_is_an_error(line: str, expected: str, described: Describe) -> None:
    with pytest.raises(ProjectBroken) as failure:
        described(f"import os, sys\n{line}\n")
    assert expected in str(failure.value)
    assert len(str(failure.value)) < 5_000


@pytest.mark.parametrize(
    ("hang", "error"),
    [
        ("time.sleep(600)", "describing it took longer than 3 s"),
        ("os._exit(3)", "describing it ended with exit code 3"),
    ],
)
def test_a_task_that_ends_its_description_hides_no_other(hang: str, error: str, described: Describe) -> None:
    source = f"""
        import os, time
        from quickie import Task, task

        class Middle(Task):
            def get_help(self):
                {hang}

        middle = Middle()

        @task(aliases=["a"])
        def after(): "After it."

        @task
        def before(): "Before it."
    """
    after, before, middle = described(source, seconds=3.0).tasks
    assert (after.name, after.aliases, before.name) == ("after", ("a",), "before")
    assert middle.error == error
    assert not before.error or before.error.startswith("not described because describing the task 'middle'")


def test_a_namespace_that_never_answers_hides_no_task(described: Describe) -> None:
    source = """
        import time
        from quickie import namespace, task

        @namespace
        def slow():
            time.sleep(600)

        @task
        def fine(): "Works."
    """
    catalog = described(source, seconds=3.0)
    [fine] = catalog.tasks
    assert fine.error == "not described because listing the namespace 'slow' took longer than 3 s"
    assert catalog.problems == ("slow: listing it took longer than 3 s",)


def test_a_huge_default_is_bounded_as_a_whole(described: Describe) -> None:
    source = """
        from quickie import Arg, task

        @task(args=[Arg(f"--o{number}", default=[["x" * 2000] * 100] * 100) for number in range(20)])
        def big(**given): ...
    """
    [task] = described(source).tasks
    assert len(repr(task.args)) < 20 * 40_000


def test_an_error_names_the_place_and_the_interpreter(described: Describe) -> None:
    with pytest.raises(ProjectBroken) as failure:
        described("def outer():\n    inner()\ndef inner():\n    1 / 0\nouter()\n")
    assert "_qk/__init__.py:2: inner()" in str(failure.value)
