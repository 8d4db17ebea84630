"""Every failure a person can meet, with its remedy.

A failure says what went wrong, why, and what to do next. The command line
prints it on stderr and leaves with `exit_code`; the server answers it as a
tool error. Each kind of failure is written here once.
"""

from collections.abc import Sequence
from typing import ClassVar

__all__ = ["GuestFailed", "QkMcpError", "RunLost", "RunTimedOut", "UnknownTask", "UsageError"]


class QkMcpError(Exception):
    """A failure with a cause and a remedy, in plain text.

    `what` is one line; `why` and `hint` may be empty; `details` is longer
    material (output, a traceback) that goes last.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, why: str = "", hint: str = "", details: str = "") -> None:
        super().__init__(what, why, hint, details)
        self.what = what
        self.why = why
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        parts = (self.what, self.why, self.hint and f"hint: {self.hint}", self.details)
        return "\n".join(part for part in parts if part)


class UsageError(QkMcpError):
    """The command line or a tool was used wrongly (exit code 2)."""

    exit_code: ClassVar[int] = 2


class UnknownTask(QkMcpError):
    """No task of the project has that name or alias."""

    def __init__(self, alias: str, task: str, near: Sequence[str]) -> None:
        super().__init__(
            f"project {alias!r} has no task named {task!r}",
            "Did you mean " + " or ".join(repr(name) for name in near) + "?" if near else "",
            "list_tasks shows every task; a name must match exactly",
        )


class RunTimedOut(QkMcpError):
    """A task ran longer than it was allowed to."""

    def __init__(self, task: str, timeout: float, stdout: str, stderr: str) -> None:
        super().__init__(
            f"task {task!r} was still running after its timeout of {timeout:g} s; it and all it had started were stopped",
            hint="pass a larger `timeout` if the task needs longer",
            details=_output_so_far(stdout, stderr),
        )


class RunLost(QkMcpError):
    """Nobody saw how a task ended."""

    def __init__(self, task: str, stdout: str, stderr: str) -> None:
        super().__init__(
            f"the run of task {task!r} was lost: the process that watched it was killed",
            "All that the task had started was stopped; its exit code is not known.",
            "see whether the machine ran out of memory, then run the task again",
            details=_output_so_far(stdout, stderr),
        )


def _output_so_far(stdout: str, stderr: str) -> str:
    parts = [
        f"--- {name} so far ---\n{text.rstrip()}" for name, text in (("stdout", stdout), ("stderr", stderr)) if text
    ]
    return "\n".join(parts) or "It had printed nothing."


class GuestFailed(QkMcpError):
    """The project's interpreter could not be started."""

    def __init__(self, alias: str, python: str, error: Exception) -> None:
        super().__init__(
            f"project {alias!r}: its interpreter could not be started: {python}",
            f"{type(error).__name__}: {error}",
            "run that interpreter by hand to see why; `qk-mcp inspect` tells how it was chosen",
        )
