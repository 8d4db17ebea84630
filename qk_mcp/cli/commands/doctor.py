"""`qk-mcp doctor`: one screen of checks, with a remedy for each fault."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qk_mcp.cli.doctor import checks
from qk_mcp.cli.doctor.checks import Check
from qk_mcp.cli.doctor.clients import check_clients
from qk_mcp.cli.doctor.record import check_record
from qk_mcp.cli.options import ConfigOption, DescribeTimeoutOption, ProjectOption, check_seconds
from qk_mcp.cli.ui.messages import paint
from qk_mcp.errors import NoConfig, QkMcpError, UsageError
from qk_mcp.projects.config import may_exist, user_config_path
from qk_mcp.projects.project import current_directory
from qk_mcp.projects.registry import Registry, build_registry, config_path
from qk_mcp.text import printable

__all__ = ["doctor_command"]

_COLOURS = {"ok": "32", "note": "33", "wrong": "1;31", "hint": "1;36"}
_COLUMN = 7
"""The column where the text of a check begins."""
_WIDEST = 100
"""Characters of a line on a wider terminal."""


def doctor_command(
    *,
    project: ProjectOption = None,
    config: ConfigOption = None,
    describe_timeout: DescribeTimeoutOption = 15.0,
    project_files: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Check the installation, projects and clients, and say how to fix what is wrong.

    The exit code is 1 if something is wrong.

    Parameters
    ----------
    project_files
        Also start servers that only a client's file in the current directory names.
    as_json
        Print only JSON.
    """
    check_seconds("--describe-timeout", describe_timeout)
    registry = _registry(project or [], config)
    checks_done = []
    ours = _checks(project or [], config, registry, describe_timeout)
    for check in chain(ours, check_clients(os.environ, project_files=project_files)):
        checks_done.append(check)
        if not as_json:
            print(_block(check), flush=True)
    wrong = sum(check.status == "wrong" for check in checks_done)
    if as_json:
        print(json.dumps({"ok": not wrong, "checks": [asdict(check) for check in checks_done]}, indent=2))
    else:
        print(f"\n{wrong} of {len(checks_done)} checks found something wrong" if wrong else "\nnothing is wrong")
    return 1 if wrong else 0


def _registry(declarations: list[str], config: Path | None) -> Registry | None:
    """Return the projects that a server would have, or None if a config is broken, which another check reports."""
    try:
        return build_registry(declarations, config, environ=os.environ, cwd=current_directory())
    except UsageError:
        raise
    except QkMcpError:
        return None


def _checks(declarations: list[str], config: Path | None, registry: Registry | None, seconds: float) -> Iterator[Check]:
    yield checks.check_version()
    yield from checks.check_scripts(os.environ)
    yield check_record()  # before a server that is started below prunes it
    named = config_path(config, os.environ, current_directory())
    file = named or (None if declarations else _own_config())
    if file or not declarations:
        yield from checks.check_config(file)
    if registry is None:
        yield Check("server", "note", "not tried: fix the config first")
    else:
        for warning in registry.warnings:
            if not (file and warning.startswith(str(file))):  # the check of the config reports those
                yield Check("projects", "note", warning)
        for project in registry.projects:
            yield checks.check_project(project, os.environ, seconds)
        options = [word for text in declarations for word in ("--project", text)]
        options += ["--config", str(config)] if config else []
        yield checks.check_server(options, seconds, listing=bool(registry.projects))


def _own_config() -> Path | None:
    try:
        file = user_config_path()
    except NoConfig:
        return None
    return file if may_exist(file) else None


def _block(check: Check) -> str:
    """Return a check as lines that fit the terminal; lines stay whole in a pipe or a file."""
    first, *more = printable(f"{check.check}: {check.what}").splitlines()
    lines = _wrapped(first)
    for line in more:
        lines += _wrapped(line)
    if check.remedy:
        first, *more = _wrapped(f"hint: {printable(check.remedy)}")
        lines += [first.replace("hint", paint("hint", _COLOURS["hint"], sys.stdout), 1), *more]
    status = paint(f"{check.status:<{_COLUMN}}", _COLOURS[check.status], sys.stdout)
    return status + ("\n" + " " * _COLUMN).join(lines)


def _wrapped(line: str) -> list[str]:
    if not sys.stdout.isatty():
        return [line]
    width = max(20, min(shutil.get_terminal_size().columns, _WIDEST) - _COLUMN)
    return textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
