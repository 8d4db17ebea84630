"""Writes `table.json`, the commands and options that Tab completes, and `completions/`, the scripts of the shells.

Run it in the source tree after a change of the app: `qk completions`.
"""

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cyclopts import App

from qk_mcp.cli.completion.scripts import FILES, SCRIPTS

__all__ = ["choices_of", "generated_files"]

_ABOUT = 80
"""Characters of the description that a shell shows next to a word."""


def generated_files() -> dict[Path, str]:
    """Return the contents of the generated files by path in the source tree."""
    from qk_mcp.cli.app import app

    here = Path(__file__).parent
    scripts = here.parents[2] / "completions"
    table = {" ".join(path): entry for path, entry in _entries(app, ()).items()}
    return {here / "table.json": json.dumps(table, indent=1) + "\n"} | {
        scripts / FILES[shell]: script for shell, script in SCRIPTS.items()
    }


def _entries(app: App, path: tuple[str, ...]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the commands and options of `app`, and of each command below it."""
    flags = {*app.help_flags, *app.version_flags}
    commands = {name: command for name, command in app.resolved_commands().items() if name not in flags}
    options = {
        name: _option(argument.parameter.help, _value(argument), repeatable=_is_repeatable(argument))
        | ({"choices": choices} if (choices := choices_of(argument.hint)) else {})
        for argument in (app.assemble_argument_collection(parse_docstring=True) if app.default_command else ())
        for name in argument.names
        if name.startswith("-")
    }
    options |= {name: _option("Show its help.") for name in app.help_flags}
    if not path:
        options |= {name: _option("Show the version.") for name in app.version_flags}
        options |= {name: _option(command.help) for name, command in commands.items() if name.startswith("-")}
    entries = {path: {"commands": {name: _about(each.help) for name, each in commands.items()}, "options": options}}
    for name, command in commands.items():
        entries |= _entries(command, (*path, name))
    return entries


def _option(about: str | None, value: str | None = None, *, repeatable: bool = False) -> dict[str, Any]:
    return {"about": _about(about), "value": value, "repeatable": repeatable}


def _about(text: str | None) -> str:
    """Return the first sentence of a help text, shortened at a punctuation mark if it is too long."""
    text = " ".join((text or "").split("\n\n")[0].split())
    ends = [text.rfind(mark, 0, _ABOUT) for mark in (". ", "; ", ": ", ", ")]
    return text if len(text) <= _ABOUT else text[: next(end for end in (*ends, _ABOUT) if end > 0)]


def _value(argument: Any) -> str | None:
    """Return the placeholder of an option's value, `FILE` for a path; None for a flag."""
    if argument.is_flag():
        return None
    if Path in (argument.hint, *get_args(argument.hint)):
        return "FILE"
    return argument.parameter.metavar or ""


def choices_of(hint: Any) -> list[str]:
    """Return the words that a type like `Literal["a", "b"] | None` allows; none if it allows any."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [choice for each in get_args(hint) for choice in choices_of(each)]


def _is_repeatable(argument: Any) -> bool:
    """Return whether an option may be repeated."""
    return bool(argument.parameter.count) or any(
        each is list or getattr(each, "__origin__", None) is list for each in (argument.hint, *get_args(argument.hint))
    )


if __name__ == "__main__":
    for path, text in generated_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
