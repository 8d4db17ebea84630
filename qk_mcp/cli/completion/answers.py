"""What completion answers."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Answer", "Candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that may stand at the cursor."""

    value: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What may stand at the cursor; with `files`, the name of any file, too."""

    candidates: Sequence[Candidate] = ()
    files: bool = False
