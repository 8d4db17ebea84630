"""`qk-mcp projects`: the projects in the user's config."""

import json
import os
import shlex
import sys
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from qk_mcp.cli.options import ConfigOption
from qk_mcp.cli.ui.help import examples
from qk_mcp.cli.ui.messages import note, paint, warn
from qk_mcp.errors import InvalidDeclaration, InvalidOption, QkMcpError, UsageError
from qk_mcp.projects.config import may_exist, read_config, read_config_text, user_config_path
from qk_mcp.projects.project import (
    Project,
    current_directory,
    escape_variables,
    expand,
    fit_alias,
    is_literal,
    locate,
    parse_declaration,
)
from qk_mcp.projects.registry import config_path
from qk_mcp.projects.rules import written_rules
from qk_mcp.text import printable

__all__ = ["projects"]

_DESCRIBE_TIMEOUT = 15.0
"""Seconds that describing a new project may take."""

projects = App(
    name="projects",
    help="Add, remove and list the projects in your config.",
    group_parameters=Group("Options"),
    help_epilogue=examples("qk-mcp projects add app:~/code/app", "qk-mcp projects list"),
)


@projects.command(help_epilogue=examples("qk-mcp projects add .", "qk-mcp projects add global:~/_qkg"))
def add(
    project: Annotated[str, Parameter(name="NAME:PATH")],
    /,
    *,
    python: Annotated[str | None, Parameter(metavar="PATH")] = None,
    env: Annotated[list[str] | None, Parameter(negative="", metavar="NAME=VALUE")] = None,
    host: Annotated[str | None, Parameter(metavar="USER@MACHINE")] = None,
    via: Annotated[str | None, Parameter(metavar="COMMAND")] = None,
    command: Annotated[str | None, Parameter(metavar="COMMAND")] = None,
    force: Annotated[bool, Parameter(negative="")] = False,
    config: ConfigOption = None,
) -> None:
    """Add a project to your config, and report how many tasks it has.

    Parameters
    ----------
    project
        A name, and the path of the project, of its _qk directory or _qk.py file. Without a name, the project
        is named after its directory.
    python
        The Python that runs its tasks; without it, qk-mcp searches for one.
    env
        A variable for its tasks; may be repeated.
    host
        The machine that the project is on, as ssh knows it; the path is meant over there.
    via
        A command that runs another one where the project is, such as 'docker exec -i app'.
    command
        How qk-mcp is started over there, if not by its name.
    force
        Replace the path and these settings of a project that has this name already.
    """
    elsewhere = _elsewhere(host, via, command)
    if elsewhere:
        alias, _, where = project.partition(":")
        shown: str | Path = where
        if not where.startswith(("/", "~")):
            why = "a project on another machine needs a name, and a path there that begins with / or ~"
            raise InvalidDeclaration(project, why, f"{alias or 'app'}:~/{where or 'path/to/it'}")
    else:
        declared, where = _declared(project)
        shown = where if where.startswith("~") else declared.path
        locate(declared)
        alias = declared.alias
    settings = elsewhere | _settings(python, env or [])
    file = _file(config)
    from qk_mcp.projects.config_edit import add_project

    match add_project(file, alias, where, os.environ, settings=settings, force=force):
        case "added":
            note(f"added {alias} ({shown}) to {file}")
        case "changed":
            note(f"{alias} is now {shown} in {file}")
        case "kept":
            note(f"{alias} ({shown}) is in {file} already")
    try:
        for added in read_config(file, os.environ).projects:
            if added.alias == alias:
                _report_tasks(added)
    except QkMcpError as failure:  # in another entry: this one was added
        warn(str(failure))


@projects.command(
    usage="Usage: qk-mcp projects remove [OPTIONS] NAME...",
    help_epilogue=examples("qk-mcp projects remove app", "qk-mcp projects remove app web --config team.toml"),
)
def remove(*names: Annotated[str, Parameter(name="NAME")], config: ConfigOption = None) -> None:
    """Remove projects from your config: all of them, or none if one is unknown.

    Parameters
    ----------
    names
        The names of the projects.
    """
    if not names:
        raise UsageError("which projects?", hint="name them: qk-mcp projects remove NAME...")
    file = _file(config)
    from qk_mcp.projects.config_edit import remove_projects

    if config_path(config, os.environ, current_directory()) is not None:
        read_config_text(file)  # a missing file that was named is another mistake than an unknown project
    remove_projects(file, names)
    note(f"removed {', '.join(names)} from {file}")


@projects.command(
    name="set",
    usage="Usage: qk-mcp projects set [OPTIONS] NAME KEY VALUE...",
    help_epilogue=examples("qk-mcp projects set shop deny 'deploy*' 'db:*'", "qk-mcp projects set shop log_args false"),
)
def set_(
    project: Annotated[str, Parameter(name="NAME")],
    key: Annotated[str, Parameter(name="KEY")],
    /,
    *values: Annotated[str, Parameter(name="VALUE")],
    config: ConfigOption = None,
) -> None:
    """Set a rule of a project: allow, deny, confirm, read_only, tools, exclusive, redact, max_timeout, log_args.

    Running servers obey it in the next call.

    Parameters
    ----------
    project
        The name of the project.
    key
        The rule, or `grace` or `reports`.
    values
        Globs are added to those that are there; any other value replaces the old one. `redact` also takes false.
    """
    if not values:
        raise UsageError("which value?", hint=f"qk-mcp projects set {quote(project)} {quote(key)} VALUE...")
    _change(project, key, values, config, remove=False)


@projects.command(
    usage="Usage: qk-mcp projects unset [OPTIONS] NAME KEY [VALUE...]",
    help_epilogue=examples("qk-mcp projects unset shop deny", "qk-mcp projects unset shop deny 'db:*'"),
)
def unset(
    project: Annotated[str, Parameter(name="NAME")],
    key: Annotated[str, Parameter(name="KEY")],
    /,
    *values: Annotated[str, Parameter(name="VALUE")],
    config: ConfigOption = None,
) -> None:
    """Remove a rule of a project, or some of its globs.

    Parameters
    ----------
    project
        The name of the project.
    key
        The rule, or `grace` or `reports`.
    values
        The globs to remove; without them, the whole rule is removed.
    """
    _change(project, key, values, config, remove=True)


@projects.command(name="list", help_epilogue=examples("qk-mcp projects list", "qk-mcp projects list --json"))
def list_(
    *, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False, config: ConfigOption = None
) -> None:
    """List the projects in your config: path, root, interpreter and errors.

    Parameters
    ----------
    as_json
        Print JSON only.
    """
    file = _file(config)
    named = config_path(config, os.environ, current_directory()) is not None
    found = read_config(file, os.environ) if named or may_exist(file) else None
    for warning in found.warnings if found else ():
        warn(warning)
    entries = [_entry(project) for project in found.projects] if found else []
    if as_json:
        print(json.dumps(entries, indent=2))
    elif entries:
        print("\n\n".join(map(_block, entries)))
    else:
        note(f"there are no projects in {file}: `qk-mcp projects add NAME:PATH` adds one")


@projects.command(help_epilogue=examples("qk-mcp projects path", "qk-mcp projects path --config team.toml"))
def path(*, config: ConfigOption = None) -> None:
    """Print the path of your config."""
    print(_file(config))


def _change(project: str, key: str, values: tuple[str, ...], config: Path | None, *, remove: bool) -> None:
    file = _file(config)
    from qk_mcp.editing.toml import render_value
    from qk_mcp.projects.config_edit import change_setting

    if config_path(config, os.environ, current_directory()) is not None:
        read_config_text(file)  # a missing file that was named is another mistake than an unknown project
    value = change_setting(file, project, key, values, remove=remove)
    state = f"has no {key} any more" if value is None else f"has {key} = {render_value(value)}"
    note(f"{project} {state} in {file}")


def _file(config: Path | None) -> Path:
    return config_path(config, os.environ, current_directory()) or user_config_path()


def _elsewhere(host: str | None, via: str | None, command: str | None) -> dict[str, Any]:
    """Return the settings of a project on another machine or in a container; empty for one on this machine."""
    if command and not (host or via):
        raise InvalidOption("--command", "it is for --host or --via, which is missing")
    given = {"host": host, "via": _words("--via", via), "command": _words("--command", command)}
    return {key: value for key, value in given.items() if value is not None}


def _words(option: str, text: str | None) -> list[str] | None:
    """Return the words of a command. Raises InvalidOption."""
    if text is None:
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidOption(option, f"{text!r} cannot be split into words: {error}") from None
    if not words:
        raise InvalidOption(option, "it is empty")
    return words


def _settings(python: str | None, variables: list[str]) -> dict[str, Any]:
    """Return the settings that the options give to a project. Raises InvalidOption."""
    settings: dict[str, Any] = {}
    if python is not None:
        settings["python"] = escape_variables(expand(python, current_directory(), os.environ))
    for text in variables:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidOption("--env", f"{text!r} is not NAME=VALUE")
        settings.setdefault("env", {})[name] = value
    return settings


def _report_tasks(project: Project) -> None:
    """Describe a project that was added; write how many tasks it has, what failed to load, and what to do next."""
    import asyncio

    from qk_mcp.tasks.cache import CatalogCache

    try:
        catalog = asyncio.run(CatalogCache(os.environ, timeout=_DESCRIBE_TIMEOUT).get(project))
    except QkMcpError as failure:
        warn(str(failure))
        return
    for problem in catalog.problems:
        warn(problem)
    count = len(catalog.tasks)
    note(f"it has {count} task{'s' if count != 1 else ''}: `qk-mcp inspect {quote(project.alias)}` shows them")
    note("next: `qk-mcp install CLIENT` connects an agent; a server that runs already serves it in the next call")


def _declared(text: str) -> tuple[Project, str]:
    """Return the project that `NAME:PATH` or a bare path declares, and the path to write into the config."""
    cwd = current_directory()
    name, colon, path_text = text.partition(":")
    if not text or (colon and not ("/" in name or name.startswith(("~", ".")))):
        project = parse_declaration(text, cwd, os.environ, "", typed=True)
    else:
        path_text = text
        bare = expand(escape_variables(text) if is_literal(text, cwd, os.environ) else text, cwd, os.environ)
        root = locate(Project(alias="", path=bare)).root
        project = Project(alias=fit_alias(root.name), path=bare)
    return project, _lasting(path_text, project.path)


def _lasting(text: str, path: Path) -> str:
    """Return a path that means the same in every directory; a `~` that the shell did not expand stays."""
    return text if text.startswith("~") and "$" not in text else escape_variables(path)


def _entry(project: Project) -> dict[str, Any]:
    from qk_mcp.interpreters.plan import resolve

    entry: dict[str, Any] = {"alias": project.alias, "path": str(project.path)}
    entry |= dict.fromkeys(("root", "python", "reason", "quickie", "error"))
    entry["rules"] = written_rules(project.rules)
    if project.remote is not None:
        return entry | {"place": project.remote.place}
    try:
        entry["root"] = str(locate(project).root)
        found = resolve(project, os.environ).interpreter
        entry |= {"python": str(found.python), "reason": found.reason, "quickie": found.quickie}
    except QkMcpError as failure:
        entry["error"] = str(failure)
    return entry


def _block(entry: dict[str, Any]) -> str:
    lines = [paint(printable(entry["alias"]), "1", sys.stdout)]
    if entry["python"]:
        entry = entry | {"python": f"{entry['python']} ({entry['reason']}, quickie {entry['quickie']})"}
    entry = entry | {"rules": "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry["rules"].items())}
    for name in ("path", "place", "root", "python", "rules", "error"):
        if entry.get(name):
            first, *rest = printable(entry[name]).splitlines()
            label = paint(f"{name:<6}", "1;31" if name == "error" else "2", sys.stdout)
            lines += [f"  {label}  {first}", *(" " * 10 + line for line in rest)]
    return "\n".join(lines)
