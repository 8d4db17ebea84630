"""Shell commands that install a package for a project's tasks.

People and agents paste them, so each uses the tool that owns the environment.
None breaks an environment that works.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from qk_mcp.interpreters.installation import PACKAGE
from qk_mcp.interpreters.layout import Unusable, read_layout, site_directories
from qk_mcp.interpreters.managers import find_manager
from qk_mcp.projects.project import Location

__all__ = ["environment_command", "install_command", "reinstall_command", "tool_reinstall_command"]


def install_command(python: Path, requirement: str, environ: Mapping[str, str], *, editable: bool = False) -> str:
    """Return the command that installs `requirement` for `python`; empty if no command does so safely.

    uv and pipx install into their own tools' environments, and nothing may install into a Python that belongs to
    another package manager (PEP 668). Otherwise pip does or, where that is absent, uv. `editable` installs the
    project in the directory `requirement`, for which a tool's environment is the wrong place.
    """
    try:
        layout = read_layout(python)
    except (Unusable, OSError, ValueError):
        return ""
    is_uv_tool = (layout.prefix / "uv-receipt.toml").is_file()
    is_pipx_tool = (layout.prefix / "pipx_metadata.json").is_file()
    if layout.is_managed or (editable and (is_uv_tool or is_pipx_tool)):
        return ""
    if (is_uv_tool or is_pipx_tool) and layout.prefix.name == "qk-mcp" and requirement.startswith(PACKAGE):
        return _quickie_tool_command()  # in our own environment its script would replace ours
    if is_uv_tool:
        return _uv_tool_command(layout.prefix, requirement)
    if is_pipx_tool:
        name = quote(layout.prefix.name)
        upgrade = layout.prefix.name == PACKAGE and requirement.startswith(PACKAGE)
        return f"pipx upgrade {name}" if upgrade else f"pipx inject {name} {quote(requirement)}"
    words = f"-e {quote(requirement)}" if editable else quote(requirement)
    pip = f"{quote(str(python))} -m pip install {words}"
    if any(os.path.isfile(site / "pip" / "__init__.py") for site in site_directories(layout, environ)):
        return pip
    if layout.settings and "uv" in layout.settings:
        return f"uv pip install --python {quote(str(python))} {words}"
    return f"{quote(str(python))} -m ensurepip && {pip}"


def environment_command(location: Location, dead: Path | None, own: str | None) -> str:
    """Return the command that gives the project at `location` an environment with quickie.

    `dead` is an environment whose Python was removed, which is made again. `own` is the Python to make it with.
    """
    if manager := find_manager(location.root):
        command = manager.add_command(PACKAGE)
        if manager.name == "Pipenv":
            return f"{command}, then name what `pipenv --py` prints as `python` in your config"
        return command
    directory, clear = dead or location.root / ".venv", " --clear" if dead else ""
    if not dead and os.path.lexists(directory):
        directory = location.tasks / ".venv" if location.tasks.is_dir() else location.root / "venv"
    if os.name != "nt" and ":" in str(directory):
        return "make an environment where no colon is in the path (venv refuses it); name it as `python` in your config"
    python = directory / ("Scripts" if os.name == "nt" else "bin") / "python"
    return (
        f"{quote(own or 'python3')} -m venv{clear} {quote(str(directory))}"
        f" && {quote(str(python))} -m pip install {PACKAGE}"
        f" (or, once for all projects without an environment: {_quickie_tool_command()})"
    )


def reinstall_command(origin: str, environ: Mapping[str, str]) -> str:
    """Return the command that restores this program's script, which pip installed from `origin`, if pip did."""
    if restore := tool_reinstall_command():
        return restore
    command = install_command(Path(sys.executable), origin, environ)
    return command.replace("pip install ", "pip install --force-reinstall --no-deps ")  # uv takes the same options


def tool_reinstall_command() -> str:
    """Return the command that installs this program again if uv or pipx installed it as a tool, else nothing.

    quickie-runner has a script named `qk-mcp` too, and uv and pipx link the scripts of all tools into one directory.
    Without force, uv installs neither tool beside the other, and pipx keeps the script that is there.
    """
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").is_file():
        return "uv tool install --force --reinstall qk-mcp"
    return "pipx install --force qk-mcp" if (prefix / "pipx_metadata.json").is_file() else ""


def _quickie_tool_command() -> str:
    """Return the command that installs quickie as a tool of its own, beside this program."""
    restore = tool_reinstall_command()
    if restore.startswith("uv"):
        return f"uv tool install --force {PACKAGE} && {restore}"
    return f"pipx install {PACKAGE}" + (f" && {restore}" if restore else "")


def _uv_tool_command(prefix: Path, requirement: str) -> str:
    """Return the command that adds a requirement to a uv tool.

    `uv tool install` replaces the earlier requirements, so the command repeats them.
    """
    import tomllib

    name = prefix.name
    if name == PACKAGE and requirement.startswith(PACKAGE):
        command = f"uv tool upgrade {PACKAGE}"
    else:
        try:
            receipt = tomllib.loads((prefix / "uv-receipt.toml").read_text("utf-8"))
            earlier = [each for each in receipt["tool"]["requirements"] if each["name"] != name]
            added = [each["name"] + each.get("specifier", "") for each in earlier]
            plain = all(each.keys() <= {"name", "specifier"} for each in earlier)
        except (OSError, ValueError, KeyError, TypeError):
            plain = False
        if not plain:
            return ""  # uv would drop what this cannot repeat
        words = " ".join(f"--with {quote(each)}" for each in [*added, requirement])
        command = f"uv tool install --force {words} {quote(name)}"
    restore = tool_reinstall_command()
    if name == PACKAGE and restore.startswith("uv"):
        return f"{command} && {restore}"  # uv gives quickie the script `qk-mcp`
    return command
