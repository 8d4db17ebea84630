"""Every failure a person can meet, with its remedy.

A failure says what went wrong, why, and what to do next. The command line
prints it on stderr and leaves with `exit_code`; the server answers it as a
tool error. Each kind of failure is written here once.
"""

from typing import ClassVar

__all__ = ["QkMcpError", "UsageError"]


class QkMcpError(Exception):
    """A failure with a cause and a remedy: `what`, `why` and `hint` are plain text, the last two may be empty."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, why: str = "", hint: str = "") -> None:
        super().__init__(what, why, hint)
        self.what = what
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.why, self.hint and f"hint: {self.hint}") if part)


class UsageError(QkMcpError):
    """The command line or a tool was used wrongly (exit code 2)."""

    exit_code: ClassVar[int] = 2
