"""A row of the table: our figures, those of another program, and a goal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

__all__ = ["Goal", "Row", "in_turn"]

type Kind = Literal["times", "more", "at most"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound: a multiple of the other figure (`times`), a difference from it (`more`), or a figure (`at most`)."""

    kind: Kind
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measurement, in seconds, bytes or megabytes (10^6 bytes)."""

    key: str
    label: str
    ours: Sequence[float]
    against: str = ""
    theirs: Sequence[float] = ()
    unit: Literal["s", "B", "MB"] = "s"
    goal: Goal | None = None
    note: str = ""
    wrong: str = ""
    """What was wrong with an answer; without figures then."""

    @property
    def figure(self) -> float | None:
        """Our median."""
        return median(self.ours) if self.ours else None

    @property
    def other(self) -> float | None:
        """The other's median."""
        return median(self.theirs) if self.theirs else None

    @property
    def ratio(self) -> float | None:
        """Our median divided by the other's."""
        return self.figure / self.other if self.figure is not None and self.other else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a figure to compare with."""
        if self.goal is None or self.figure is None:
            return None
        if self.goal.kind == "at most":
            return self.figure <= self.goal.bound
        if self.other is None:
            return None
        limit = self.other * self.goal.bound if self.goal.kind == "times" else self.other + self.goal.bound
        return self.figure <= limit


def in_turn[T](rounds: int, works: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Call all `works` one after the other, once per round; return the results of each."""
    done: dict[str, list[T]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            done[name].append(work())
    return done
