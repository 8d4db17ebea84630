"""What may stand behind a task: its options, and what they and its positional arguments can be."""

from collections.abc import Sequence

from qk_mcp.cli.completion.answers import Answer, Candidate
from qk_mcp.tasks.catalog import Argument, Task
from qk_mcp.text import one_line

__all__ = ["complete_argument"]

_ANY = 1_000_000


def complete_argument(task: Task, words: Sequence[str], current: str) -> Answer:
    """Return what may follow `words`, the task's arguments so far, where `current` was begun."""
    options = {flag: argument for argument in task.args for flag in argument.flags if flag.startswith("-")}
    taken, missing, ended = 0, 0, False
    pending: Argument | None = None
    for word in words:
        flag, equals, _ = word.partition("=")
        if missing:
            missing -= 1
        elif ended or word == "-" or not word.startswith("-"):
            taken += 1
        elif word == "--":
            ended = True
        elif flag in options:
            pending = options[flag]
            missing = 0 if equals else _words(pending, least=True)
    if missing and pending:
        return _values(pending)
    if ended or not current.startswith("-"):
        return _values(_positional(task, taken))
    flag, equals, _ = current.partition("=")
    if equals:
        values = _values(options.get(flag))
        return Answer([Candidate(f"{flag}={each.value}", each.about) for each in values.candidates], values.files)
    return Answer([Candidate(flag, one_line(argument.help or "")) for flag, argument in options.items()])


def _positional(task: Task, taken: int) -> Argument | None:
    """Return the positional argument that the next word is for, after `taken` others."""
    for argument in task.args:
        if argument.flags == (argument.dest,):
            taken -= _words(argument, least=False)
            if taken < 0:
                return argument
    return None


def _words(argument: Argument, *, least: bool) -> int:
    """Return how many words an argument takes, at least or at most."""
    match argument.nargs:
        case int(count):
            return count
        case "?":
            return 0 if least else 1
        case "*" | "...":
            return 0 if least else _ANY
        case "+" | "A...":
            return 1 if least else _ANY
    return 1


def _values(argument: Argument | None) -> Answer:
    """Return an argument's choices; where anything may stand, it may well be a file."""
    if argument is None or argument.choices is None:
        return Answer(files=True)
    return Answer([Candidate(str(choice)) for choice in argument.choices])
