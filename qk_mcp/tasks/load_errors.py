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
from qk_mcp.interpreters.install_commands import install_command
from qk_mcp.interpreters.installation import OLDEST_PYTHON, PACKAGE
from qk_mcp.interpreters.managers import find_manager, poetry_environment, uv_workspace
from qk_mcp.interpreters.plan import Plan
from qk_mcp.interpreters.search import OLDEST_QUICKIE
from qk_mcp.text import one_line, printable

__all__ = ["describe_exit", "explain_death", "explain_load_error", "explain_timeout"]

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
"""Packages by the module that is imported, where the names differ."""
_SAME_NAME = """
    aiohttp anyio attrs boto3 build celery click coverage cryptography django docker duckdb fabric fastapi flask httpx
    invoke jinja2 jsonschema matplotlib mypy numpy packaging pandas paramiko platformdirs plumbum polars psutil psycopg
    pydantic pytest redis requests rich ruff scipy sh sqlalchemy tomlkit tqdm typer watchfiles
"""
"""Modules that are in the package of the same name.

For a module that is in neither there is no command: an agent would run it, and
a misspelt name may be that of somebody else's package.
"""
_MESSAGE = 1_000
"""Characters of an exception's message."""
_OUTPUT = 2_000
"""Characters of what a module printed before it failed."""


def explain_load_error(plan: Plan, report: Mapping[str, Any], output: str = "") -> ProjectBroken:
    """Return the error for a tasks module that raised: `report` is the guest's, `output` is what the module printed."""
    lines = _frames(plan, report)
    for cause in report.get("causes", ()):
        lines.append(f"caused by {_headline(cause)}")
        lines += _frames(plan, cause)
    for part in report.get("errors", ()):
        lines.append(f"with {_headline(part)}")
        lines += _frames(plan, part)
    if "exit_code" in report and (printed := _printed(output)):
        lines.append(printed.rstrip("\n"))  # it probably gives the reason
    lines.append(_loaded_with(plan))
    return ProjectBroken(plan.project.alias, _headline(report), "\n".join(lines), _remedy(plan, report))


def explain_timeout(plan: Plan, seconds: float, output: str, *, started: bool) -> ProjectBroken:
    """Return the error for a load that took longer than `seconds`; `started`: Python itself had started by then."""
    if not started:
        python = plan.interpreter.python
        return ProjectBroken(
            plan.project.alias,
            f"its Python was not ready within {seconds:g} s",
            _printed(output) + _loaded_with(plan),
            f"check what it does at start-up (a .pth file, a sitecustomize): {quote(str(python))} -c pass",
        )
    return ProjectBroken(
        plan.project.alias,
        f"its tasks were not loaded within {seconds:g} s",
        _printed(output) + _loaded_with(plan),
        "move slow work out of the module's import and into tasks, or give `qk-mcp serve` a larger --describe-timeout",
    )


def explain_death(plan: Plan, exit_code: int | None, output: str) -> ProjectBroken:
    """Return the error for an interpreter that ended while it loaded the tasks module."""
    return ProjectBroken(
        plan.project.alias,
        f"its interpreter {describe_exit(exit_code)} while the tasks were loaded",
        _printed(output) + _loaded_with(plan),
        f"check what {plan.location.tasks} does when it is imported, and whether that Python runs at all",
    )


def describe_exit(exit_code: int | None) -> str:
    """Return how a process ended, as the rest of a sentence that begins with its name."""
    if exit_code is None:
        return "was killed"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


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


def _loaded_with(plan: Plan) -> str:
    interpreter = plan.interpreter
    lines = [f"Loaded with {interpreter.python} ({interpreter.reason}), quickie {interpreter.quickie}."]
    return "\n".join(lines + [f"Rejected: {each}." for each in interpreter.passed])


def _printed(output: str) -> str:
    text = printable(output[-_OUTPUT:]).strip()
    return f"It had printed:\n{text}\n" if text else ""


def _remedy_for_missing(plan: Plan, missing: str) -> str:
    root, python = plan.location.root, plan.interpreter.python
    manager = find_manager(root)
    managed = manager is not None and _is_the_projects(plan)
    if any(map(_is_module, (root / missing, root / "src" / missing))):
        if (root / "pyproject.toml").is_file() or (root / "setup.py").is_file():
            editable = install_command(python, str(root), plan.variables, editable=True)
            command = manager.sync if manager and managed else editable
            if command:
                return f"install the project itself into that environment: {command}"
        if plan.location.tasks.is_dir() and _is_module(root / missing):
            return f"move {missing} into {plan.location.tasks}: its tasks can import only what is there"
    if not managed and (manager or plan.interpreter.lacking):
        lacking = plan.interpreter.lacking
        command = (
            manager.add_command(PACKAGE) if manager else install_command(lacking or python, PACKAGE, plan.variables)
        )
        if command:
            return f"if {missing} is in the project's own environment, install quickie there: {command}"
    package = _PACKAGES.get(missing) or (missing if missing in _SAME_NAME.split() else None)
    if package is None:
        how = f"with {manager.name}" if manager and managed else f"for {quote(str(python))}"
        return (
            f"if {one_line(missing, 100)!r} is not a typing error, ask the user which package provides it "
            f"and install that {how}"
        )
    command = manager.add_command(package) if manager and managed else install_command(python, package, plan.variables)
    if not command:
        return (
            f"install {package} with the package manager that owns {python}, or give the project an environment of its "
            "own that has quickie"
        )
    return f"install what is missing into that environment: {command}"


def _is_the_projects(plan: Plan) -> bool:
    """Return whether the interpreter's environment is the one that the project's manager keeps."""
    root, prefix = plan.location.root, plan.interpreter.prefix
    if prefix.is_relative_to(root):
        return True
    workspace = uv_workspace(root)
    if workspace and prefix == workspace / ".venv":
        return True
    return prefix == poetry_environment(root, plan.variables)


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
    if kind == "OldPython":
        return f"give the project an environment with Python {'.'.join(map(str, OLDEST_PYTHON))} or later"
    if kind == "OldQuickie":
        needed = ".".join(map(str, OLDEST_QUICKIE))
        command = install_command(plan.interpreter.python, f"{PACKAGE}>={needed}", plan.variables)
        return f"install a newer one{command and f': {command}'}"
    return "fix the project's code at the place shown, then list the tasks again"
