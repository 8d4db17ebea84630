"""What cyclopts has against a command line, in the program's own voice."""

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

__all__ = ["explain"]


def explain(error: CycloptsError) -> UsageError:
    """Return the failure that says what is wrong with the command line, and what was meant."""
    command = " ".join(("qk-mcp", *(error.command_chain or ())))
    help_hint = f"{command} --help shows what it takes"
    match error:
        case UnknownCommandError(unused_tokens=[word, *_], app=App() as app):
            known = [name for name in app if not name.startswith("-")]
            hint = _meant(word, known, command) or _project_meant(word, command) or help_hint
            return UsageError(f"{command} has no command {word!r}", f"Commands: {', '.join(known)}.", hint)
        case UnknownOptionError():
            word = error.token.keyword or error.token.value
            known = [name for argument in error.argument_collection for name in argument.names if name[0] == "-"]
            return UsageError(f"{command} has no option {word}", hint=_meant(word, [*known, "--help"]) or help_hint)
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            return UsageError(f"{command} does not take {word!r}", hint=_command_first(word) or help_hint)
        case MissingArgumentError(argument=argument) if argument is not None:
            option = error.keyword or argument.name
            what = f"{option} needs a value" if option.startswith("-") else f"{option} is missing"
            return UsageError(f"{command}: {what}", hint=help_hint)
        case RepeatArgumentError():
            return UsageError(f"{command}: {error.token.keyword} is given twice", hint="give it once")
    error.verbose = False
    said = str(error).removesuffix(".")
    return UsageError(f"{command}: {said[:1].lower()}{said[1:]}", hint=help_hint)


def _meant(word: str, known: Iterable[str], command: str = "") -> str:
    near = nearest(word, known, 1)
    return f"did you mean {command} {near[0]}?".replace("  ", " ") if near else ""


def _command_first(word: str) -> str:
    from qk_mcp.cli.app import app

    return f"a command comes first: qk-mcp {word}" if word in app else ""


def _project_meant(word: str, command: str) -> str:
    if command == "qk-mcp" and (":" in word or "/" in word):
        declaration = word if ":" in word else f"NAME:{word}"
        return f"to serve a project, write: qk-mcp serve --project {declaration}"
    return ""
