"""Turns the usage errors of cyclopts into messages like all others of this program."""

from collections.abc import Iterable

from cyclopts import App
from cyclopts.exceptions import (
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from qk_mcp.errors import UsageError
from qk_mcp.text import nearest

__all__ = ["usage_error"]

_SYNONYMS = {
    ("qk-mcp", "version"): "qk-mcp --version",
    ("qk-mcp", "list"): "qk-mcp projects list",
    ("qk-mcp", "ls"): "qk-mcp projects list",
    ("qk-mcp", "add"): "qk-mcp projects add",
    ("qk-mcp", "remove"): "qk-mcp projects remove",
    ("qk-mcp", "rm"): "qk-mcp projects remove",
    ("qk-mcp", "tasks"): "qk-mcp inspect",
    ("qk-mcp", "show"): "qk-mcp inspect",
    ("qk-mcp", "history"): "qk-mcp runs",
    ("qk-mcp", "log"): "qk-mcp runs",
    ("qk-mcp", "ps"): "qk-mcp runs",
    ("qk-mcp", "stop"): "qk-mcp runs stop",
    ("qk-mcp projects", "help"): "qk-mcp projects --help",
    ("qk-mcp projects", "ls"): "qk-mcp projects list",
    ("qk-mcp projects", "rm"): "qk-mcp projects remove",
    ("qk-mcp projects", "delete"): "qk-mcp projects remove",
}
"""What people type, because other programs have it, and what it is called here."""


def usage_error(error: CycloptsError, app: App, *, implied: bool = False) -> UsageError:
    """Return the failure that says what is wrong with the command line of `app`, and what may have been meant.

    The message does not name a command that was `implied` and not typed.
    """
    command = " ".join(("qk-mcp", *(error.command_chain or ())))
    help_hint = f"{command} --help shows what it takes"
    command = "qk-mcp" if implied else command
    match error:
        case UnknownCommandError(unused_tokens=[word, *_], app=App() as group):
            known = [name for name in group if not name.startswith("-")]
            hint = _command_hint(word, known, command) or _project_hint(word, command) or help_hint
            return UsageError(f"{command} has no command {word!r}", f"Commands: {', '.join(known)}.", hint)
        case UnknownOptionError():
            word = error.token.keyword or error.token.value
            known = [name for argument in error.argument_collection for name in argument.names if name[0] == "-"]
            if implied:
                known += app.version_flags
            return UsageError(f"{command} has no option {word}", hint=_near_hint(word, [*known, "--help"]) or help_hint)
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            hint = f"a command comes first: qk-mcp {word}" if word in app else help_hint
            return UsageError(f"{command} does not take {word!r}", hint=hint)
        case MissingArgumentError(argument=argument) if argument is not None:
            option = error.keyword or argument.name
            what = f"{option} needs a value" if option.startswith("-") else f"{option} is missing"
            return UsageError(f"{command}: {what}", hint=help_hint)
        case RepeatArgumentError():
            return UsageError(f"{command}: {error.token.keyword} is given twice", hint="give it once")
    error.verbose = False
    message = str(error).removesuffix(".")
    return UsageError(f"{command}: {message[:1].lower()}{message[1:]}", hint=help_hint)


def _command_hint(word: str, known: Iterable[str], command: str) -> str:
    if synonym := _SYNONYMS.get((command, word)):
        return f"did you mean {synonym}?"
    return _near_hint(word, known, f"{command} ")


def _near_hint(word: str, known: Iterable[str], prefix: str = "") -> str:
    near = nearest(word, known, 1)
    return f"did you mean {prefix}{near[0]}?" if near else ""


def _project_hint(word: str, command: str) -> str:
    if command == "qk-mcp" and (":" in word or "/" in word):
        declaration = word if ":" in word else f"NAME:{word}"
        return f"to serve a project, write: qk-mcp serve --project {declaration}"
    return ""
