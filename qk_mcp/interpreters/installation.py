"""The quickie that is installed for a Python, found by reading the files of its environment.

This takes a few file system calls and no process. Nothing is cached, so
nothing can be stale. `.pth` files and editable installations count.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qk_mcp.interpreters.layout import Unusable, python_version, read_layout, replaced_by, site_directories

__all__ = ["OLDEST_PYTHON", "PACKAGE", "Installation", "read_installation"]

PACKAGE = "quickie-runner"
OLDEST_PYTHON = (3, 12)
"""What every release of quickie-runner requires (`Requires-Python` of its metadata)."""

_META_VERSION = re.compile(r"^__version__\s*=\s*[\"']([^\"']+)", re.MULTILINE)
_RECORD = re.compile(r"quickie[-_.]runner-([^-]+)\.dist-info", re.IGNORECASE)
_ORIGIN = "direct_url.json"
_EDITABLE = re.compile(r'"editable"\s*:\s*true')
_ADDED_SITE = re.compile(r"addsitedir\(\s*r?([\"'])(.+?)\1")


@dataclass(frozen=True, slots=True)
class Installation:
    """A Python that has quickie."""

    python: Path
    """The executable, links kept: a virtual environment's is what makes it one."""
    prefix: Path
    """What `sys.prefix` is in it."""
    version: str
    """Python's, as "3.13"; empty if the files do not show it."""
    quickie: str
    """quickie-runner's version."""
    stamp: tuple[int, ...]
    """Changes when Python is replaced, or packages are added or removed."""


def read_installation(path: Path, environ: Mapping[str, str]) -> Installation:
    """Read the environment (a directory) or the Python (a file) at `path`.

    Raises Unusable if it cannot run tasks: no Python for this machine, an old
    one, an unreadable one, or one without quickie.
    """
    try:
        layout = read_layout(path)
        version = python_version(layout)
        if version and version < OLDEST_PYTHON:
            raise Unusable(f"it is Python {_dotted(version)}, and quickie needs {_dotted(OLDEST_PYTHON)} or later")
        for site in site_directories(layout, environ):
            if quickie := _quickie_version(site, set()):
                binary = layout.real.stat()
                settings = 0 if layout.settings is None else (layout.prefix / "pyvenv.cfg").stat().st_mtime_ns
                stamp = (binary.st_ino, binary.st_mtime_ns, site.stat().st_mtime_ns, settings)
                return Installation(layout.python, layout.prefix, _dotted(version or ()), quickie, stamp)
    except (OSError, ValueError) as error:
        raise Unusable(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    raise Unusable("quickie is not installed there" + replaced_by(layout), layout.python)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _quickie_version(site: Path, seen: set[Path]) -> str:
    """Return the version of the quickie that can be imported from `site`, empty if there is none."""
    if version := _package_version(site, site):
        return version
    names = [] if site in seen else _names(site)
    seen.add(site)
    for name in names:
        for line in _text(site / name).splitlines() if name.endswith(".pth") else ():
            if line.startswith(("import ", "import\t")):
                # Code. uv joins environments in this way; the rest are import hooks.
                versions = (_quickie_version(site / added[2], seen) for added in _ADDED_SITE.finditer(line))
                version = next(filter(None, versions), "")
            else:
                version = _package_version(site / line.strip(), site) if line.strip() and line[0] != "#" else ""
            if version:
                return version
    # An editable installation by an import hook: no path leads to the package, but its record names it.
    editable = (name for name in names if _record_version(name) and _EDITABLE.search(_text(site / name / _ORIGIN)))
    return _record_version(next(editable, ""))


def _package_version(directory: Path, site: Path) -> str:
    """Return the version of the quickie in `directory`; empty if there is none, or another package of that name."""
    if not os.path.isfile(directory / "quickie" / "__init__.py"):
        return ""
    if match := _META_VERSION.search(_text(directory / "quickie" / "_meta.py")):
        return match[1]
    return next(filter(None, map(_record_version, _names(directory) + _names(site))), "")


def _record_version(name: str) -> str:
    """Return the version in the name of quickie-runner's `.dist-info`, empty for any other name."""
    match = _RECORD.fullmatch(name)
    return match[1] if match else ""


def _names(directory: Path) -> list[str]:
    """Return the names in a directory; a missing or unreadable one adds nothing to `sys.path`."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []


def _text(file: Path) -> str:
    """Return a file's text; a missing or unreadable one adds nothing to `sys.path`."""
    try:
        return file.read_text("utf-8-sig", "surrogateescape")
    except OSError:
        return ""
