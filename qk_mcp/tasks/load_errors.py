"""Turns a guest's report of a failed load into a short message that says what to fix.

The tool error, the `error` of a listing's entry and `inspect` all show this message.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from qk_mcp.errors import ProjectBroken
from qk_mcp.interpreters.installation import PACKAGE, install_command
from qk_mcp.interpreters.plan import Plan
from qk_mcp.text import one_line, printable

__all__ = ["broken", "died", "how_it_ended", "too_slow"]

_PACKAGES = {
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "git": "GitPython",
    "jwt": "PyJWT",
    "quickie": PACKAGE,
    "serial": "pyserial",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}
"""Packages by module, where the names differ."""
_SHARED = ("azure", "google")
"""Namespaces shared by many packages; the package of that name is a different one."""
_MESSAGE = 1_000
"""Characters of an exception's message."""
_OUTPUT = 2_000
"""Characters of what a module printed before it failed."""


def broken(plan: Plan, report: Mapping[str, Any], output: str = "") -> ProjectBroken:
    """Return the failure of a module whose import raised; `report` describes the exception, `output` was printed."""
    lines = _frames(plan, report)
    for cause in report.get("causes", ()):
        lines.append(f"caused by {_headline(cause)}")
        lines += _frames(plan, cause)
    for part in report.get("errors", ()):
        lines.append(f"with {_headline(part)}")
        lines += _frames(plan, part)
    if "exit_code" in report and (printed := _printed(output)):
        lines.append(printed.rstrip("\n"))  # which probably says why
    lines.append(_loaded_with(plan))
    return ProjectBroken(plan.project.alias, _headline(report), "\n".join(lines), _remedy(plan, report))


def too_slow(plan: Plan, seconds: float, output: str, *, started: bool) -> ProjectBroken:
    """Return the failure of a module that took too long; without `started`, its Python did not even start."""
    if not started:
        python = plan.interpreter.python
        return ProjectBroken(
            plan.project.alias,
            f"its Python was not ready within {seconds:g} s",
            _printed(output) + _loaded_with(plan),
            f"see what delays its start, such as a .pth file or sitecustomize: {quote(str(python))} -c pass",
        )
    return ProjectBroken(
        plan.project.alias,
        f"its tasks were not loaded within {seconds:g} s",
        _printed(output) + _loaded_with(plan),
        "move slow work out of the module's import and into tasks, or give `qk-mcp serve` a larger --describe-timeout",
    )


def died(plan: Plan, exit_code: int | None, output: str) -> ProjectBroken:
    """Return the failure of an interpreter that ended while it loaded the module."""
    return ProjectBroken(
        plan.project.alias,
        f"its interpreter {how_it_ended(exit_code)} while the tasks were loaded",
        _printed(output) + _loaded_with(plan),
        f"see what {_tasks_file(plan)} does when it is imported, or whether that Python runs at all",
    )


def how_it_ended(exit_code: int | None) -> str:
    """Return how an interpreter ended, as the predicate of a sentence."""
    if exit_code is None:
        return "was killed"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"


def _headline(report: Mapping[str, Any]) -> str:
    if "exit_code" in report:
        message, code = one_line(str(report.get("message", "")), _MESSAGE), str(report["exit_code"])
        return f"it calls sys.exit({code if message in ('', code, 'None') else repr(message)}) while it is imported"
    kind, message = str(report.get("type", "")), one_line(str(report.get("message", "")), _MESSAGE)
    return f"{one_line(kind, 100)}: {message}" if message else one_line(kind, 100)


def _frames(plan: Plan, report: Mapping[str, Any]) -> list[str]:
    shown = []
    for frame in report.get("frames", ()):
        place = f"{_relative(plan, str(frame['file']))}:{frame['line']}"
        code = one_line(str(frame["code"]), 200)
        shown.append(f"  {one_line(place)}: {code}" if code else f"  {one_line(place)}")
    return shown


def _relative(plan: Plan, file: str) -> str:
    root = str(plan.location.root) + os.sep
    return file.removeprefix(root)


def _tasks_file(plan: Plan) -> Path:
    return plan.location.tasks


def _loaded_with(plan: Plan) -> str:
    interpreter = plan.interpreter
    lines = [f"Loaded with {interpreter.python} ({interpreter.reason}), quickie {interpreter.quickie}."]
    return "\n".join(lines + [f"Passed over: {each}." for each in interpreter.passed])


def _printed(output: str) -> str:
    text = printable(output[-_OUTPUT:]).strip()
    return f"It had printed:\n{text}\n" if text else ""


def _remedy_for_missing(plan: Plan, missing: str) -> str:
    root, python = plan.location.root, plan.interpreter.python
    if any(map(_is_module, (root / missing, root / "src" / missing))):
        if (root / "pyproject.toml").is_file() or (root / "setup.py").is_file():
            command = install_command(python, plan.variables, str(root)).replace(" install ", " install -e ", 1)
            return f"install the project itself into that environment: {command}"
        if plan.location.tasks.is_dir() and _is_module(root / missing):
            return f"move {missing} into {plan.location.tasks}: tasks can import only what is there"
    if missing in _SHARED:
        return f"many packages provide parts of {missing!r}; install the right one with {quote(str(python))} -m pip"
    if plan.interpreter.lacking:
        command = install_command(plan.interpreter.lacking, plan.variables)
        return f"if {missing} is in an environment that was passed over, install quickie there: {command}"
    package = _PACKAGES.get(missing, one_line(missing, 100))
    command = install_command(python, plan.variables, package)
    return f"install what is missing into that environment: {command}"


def _is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _remedy(plan: Plan, report: Mapping[str, Any]) -> str:
    everything = [report, *report.get("causes", ())]
    missing = next((str(each["missing"]) for each in everything if "missing" in each), None)
    kind = str(report.get("type", ""))
    if missing is not None:
        return _remedy_for_missing(plan, missing)
    if kind in ("SyntaxError", "IndentationError", "TabError"):
        return "fix the line shown, then list the tasks again"
    if kind == "NotAPackage":
        return f"make it a package: touch {quote(str(plan.location.tasks / '__init__.py'))}"
    if "exit_code" in report:
        return "move that call into a task: importing the module must not end the program"
    if kind in ("OldQuickie", "OldPython"):
        return f"install a newer one: {install_command(plan.interpreter.python, plan.variables)}"
    return "fix the project's code at the place shown, then list the tasks again"
