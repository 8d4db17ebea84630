"""Checks the answers: the speed of wrong ones means nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Wrong", "check", "check_listing", "check_printed", "check_run"]


class Wrong(AssertionError):
    """An answer is wrong."""


def check(holds: bool, what: str) -> None:
    """Raise `Wrong`, which says `what` is wrong, unless the condition `holds`."""
    if not holds:
        raise Wrong(what)


def check_listing(entries: Any, expected: Mapping[str, Sequence[str]], *, full: bool = True) -> None:
    """Check that a listing has exactly the `expected` task names; with `full`, check that each task is described."""
    check(isinstance(entries, list), f"a listing is no list: {str(entries)[:200]}")
    listed = {}
    for entry in entries:
        check(not entry.get("error"), f"a project cannot be listed: {str(entry)[:500]}")
        listed[entry["project"]] = sorted(task["name"] for task in entry["tasks"])
        for task in entry["tasks"]:
            check(not full or bool(task.get("help") and task.get("usage")), f"a task is not described: {task}")
    for project, names in expected.items():
        check(listed.get(project) == sorted(names), f"{project} lists {str(listed.get(project))[:300]}")
    check(len(listed) == len(expected), f"a listing has the projects {sorted(listed)}")


def check_run(answer: Any, stdout: str) -> None:
    """Check that a task succeeded and printed `stdout`; quickie's own server drops the last newline."""
    check(isinstance(answer, dict) and answer.get("exit_code") == 0, f"a run failed: {str(answer)[:500]}")
    check(answer["stdout"].rstrip("\n") == stdout, f"a task's output is not its own: {answer['stdout'][:300]!r}")
    check(answer["stderr"] == "", f"a task's stderr is not empty: {answer['stderr'][:300]!r}")


def check_printed(answer: Any, printed: str) -> None:
    """Check that everything a task `printed` is in the answer or, if that is truncated, in the file it names."""
    check(isinstance(answer, dict) and answer.get("exit_code") == 0, f"a run failed: {str(answer)[:500]}")
    truncated = answer.get("truncated")
    if truncated is None:
        check(answer["stdout"].rstrip("\n") == printed.rstrip("\n"), "printed lines are missing or wrong")
        return
    stdout = answer["stdout"]
    check(
        printed.startswith(stdout[:1000]) and printed.endswith(stdout[-1000:]),
        "the answer lacks the beginning or the end",
    )
    check(Path(truncated["stdout"]["file"]).read_text() == printed, "the file lacks output")
