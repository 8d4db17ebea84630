"""What the files of an environment tell: its Python, that Python's version, and the quickie installed in it.

A look costs a few file system calls and no process. Nothing is remembered, so
nothing can be stale. Where the files leave room, the reading follows CPython's
own start-up (getpath, site): links are not followed before `pyvenv.cfg` has
been looked for, and `.pth` files count.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OLDEST_PYTHON", "PACKAGE", "Installation", "Unusable", "examine", "install_command"]

PACKAGE = "quickie-runner"
OLDEST_PYTHON = (3, 12)
"""What every release of quickie-runner asks for (`Requires-Python` of its metadata)."""

_PROGRAMS = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")
_TAG = re.compile(r"((?:python|pypy)(\d+)\.(\d+)t?)d?(?:\.exe)?")
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
    """Python's, as "3.13"; empty when the files do not tell."""
    quickie: str
    """quickie-runner's version."""
    stamp: tuple[int, ...]
    """Differs once Python is replaced, or packages come or go beside quickie."""


class Unusable(Exception):
    """Why a Python cannot run a project's tasks.

    `lacking` is that Python when quickie is all it lacks, `dead` the directory
    of an environment whose Python was removed.
    """

    def __init__(self, reason: str, lacking: Path | None = None, dead: Path | None = None) -> None:
        super().__init__(reason)
        self.lacking = lacking
        self.dead = dead


@dataclass(frozen=True, slots=True)
class _Layout:
    """How one Python lies on disk; `settings` are those of `pyvenv.cfg`, None outside a virtual environment."""

    python: Path
    real: Path
    prefix: Path
    tag: str
    settings: Mapping[str, str] | None


def examine(path: Path, environ: Mapping[str, str]) -> Installation:
    """Read the environment (a directory) or the Python (a file) at `path`; raise `Unusable` when it won't do."""
    try:
        layout = _layout(_program(path))
        name = _TAG.fullmatch(layout.tag)
        if name and (int(name[2]), int(name[3])) < OLDEST_PYTHON:
            needed = ".".join(map(str, OLDEST_PYTHON))
            raise Unusable(f"it is Python {name[2]}.{name[3]}, and quickie needs {needed} or later")
        for site in _sites(layout, environ):
            if found := _quickie(site, set()):
                version = f"{name[2]}.{name[3]}" if name else ""
                binary = layout.real.stat()
                settings = 0 if layout.settings is None else (layout.prefix / "pyvenv.cfg").stat().st_mtime_ns
                stamp = (binary.st_ino, binary.st_mtime_ns, site.stat().st_mtime_ns, settings)
                return Installation(layout.python, layout.prefix, version, found, stamp)
    except (OSError, ValueError) as error:
        raise Unusable(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    raise Unusable("quickie is not installed there" + _outgrown(layout), layout.python)


def install_command(python: Path, environ: Mapping[str, str], requirement: str = PACKAGE) -> str:
    """Return the shell command that installs `requirement` for `python`, by pip or, where that is absent, by uv."""
    from shlex import quote

    layout = _layout(python)
    if any(_is_file(site / "pip" / "__init__.py") for site in _sites(layout, environ)):
        return f"{quote(str(python))} -m pip install {quote(requirement)}"
    if layout.settings and "uv" in layout.settings:
        return f"uv pip install --python {quote(str(python))} {quote(requirement)}"
    return f"{quote(str(python))} -m ensurepip && {quote(str(python))} -m pip install {quote(requirement)}"


def _program(path: Path) -> Path:
    """Return the Python of an environment's directory, or `path` itself; refuse one that cannot run here."""
    path = Path(os.path.abspath(path))
    for program in [path / name for name in _PROGRAMS] if path.is_dir() else [path]:
        if program.is_file():
            break
        if program.is_symlink():
            dead = path if path != program and (path / "pyvenv.cfg").exists() else None
            raise Unusable(f"its Python is gone: {program} is a link to {os.readlink(program)}", dead=dead)
    else:
        raise Unusable("there is no Python in it" if path.is_dir() else "it does not exist")
    if program.parent.name == "shims":
        raise Unusable("it is a version manager's shim, which chooses a Python only when it is run")
    ours, theirs = _binary(os.path.realpath(sys.executable)), _binary(program)
    if ours and theirs and theirs not in (ours, _ALSO_RUNS.get(ours)):
        raise Unusable(f"it is built for {theirs}, and this machine runs {ours}")
    if not os.access(program, os.X_OK):
        raise Unusable("it is neither an environment's directory nor a program")
    if "py" not in program.name.lower():
        raise Unusable("it is no Python, by its name")
    return program


_MACHINES = {3: "x86", 40: "arm", 62: "x86-64", 183: "arm64", 243: "riscv"}
"""`e_machine` of the ELF header."""
_ALSO_RUNS = {"ELF x86-64": "ELF x86", "ELF arm64": "ELF arm"}


def _binary(program: str | Path) -> str:
    """Return what kind of machine code a file holds; empty for scripts and what else is not recognised."""
    with open(program, "rb") as file:
        head = file.read(20)
    if head[:4] == b"\x7fELF" and len(head) == 20:
        machine = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
        return f"ELF {_MACHINES.get(machine, machine)}"
    if head[:2] == b"MZ":
        return "Windows"
    # The architecture is left out: macOS has binaries for two, and translates one into the other.
    return "macOS" if head[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf") else ""


def _layout(python: Path) -> _Layout:
    real = Path(os.path.realpath(python))
    for directory in (python.parent, python.parent.parent):
        settings = _settings(directory / "pyvenv.cfg")
        if settings is not None:
            # A copied Python (`venv --copies`) is useless without the home it was copied from.
            if "home" in settings and not python.is_symlink() and not Path(settings["home"]).is_dir():
                raise Unusable(f"its Python is gone: {settings['home']} does not exist", dead=directory)
            return _Layout(python, real, directory, _tag(real, directory, settings), settings)
    tag = _tag(real, python.parent.parent, {})
    return _Layout(python, real, _base(python, real, tag), tag, None)


def _settings(config: Path) -> dict[str, str] | None:
    try:
        text = config.read_text("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _tag(real: Path, prefix: Path, settings: Mapping[str, str]) -> str:
    """Return the name of the library's directory, as "python3.13": mostly that of the file behind all links."""
    if name := _TAG.fullmatch(real.name):
        return name[1]
    # A copy is called plain `python`.
    said = re.match(r"(\d+\.\d+)", settings.get("version_info") or settings.get("version") or "")
    if said and (prefix / "lib" / f"python{said[1]}").is_dir():
        return f"python{said[1]}"
    there = sorted(path.name for path in prefix.glob("lib/p*") if _TAG.fullmatch(path.name))
    return there[-1] if there else f"python{said[1]}" if said else ""


def _base(python: Path, real: Path, tag: str) -> Path:
    """Return the prefix of a Python outside virtual environments: where its standard library lies."""
    for program in (python, real):
        prefix = program.parent.parent
        if (prefix / "lib" / tag / "os.py").is_file():
            return prefix
        if (program.parent / "Lib" / "os.py").is_file():  # Windows
            return program.parent
    return real.parent.parent


def _sites(layout: _Layout, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the directories that `site` would add to `sys.path`, in its order; some may not exist."""
    prefix, tag = layout.prefix, layout.tag
    if layout.settings is not None:
        yield prefix / "lib" / tag / "site-packages"
        yield prefix / "Lib" / "site-packages"
        if layout.settings.get("include-system-site-packages", "").lower() != "true":
            return
        prefix = _base(Path(layout.settings.get("home", "")) / "python", layout.real, tag)
    if not environ.get("PYTHONNOUSERSITE"):
        user = environ.get("PYTHONUSERBASE")
        if user or environ.get("HOME"):
            yield Path(user or Path(environ["HOME"], ".local"), "lib", tag, "site-packages")
    for directory in (
        f"lib/{tag}/site-packages",
        f"local/lib/{tag}/dist-packages",  # Debian's pip
        "lib/python3/dist-packages",  # Debian's packages
        f"local/lib/{tag}/site-packages",  # Fedora's pip
        "Lib/site-packages",  # Windows
    ):
        yield prefix / directory


def _quickie(site: Path, seen: set[Path]) -> str:
    """Return the version of the quickie that can be imported from `site`, empty when there is none."""
    if version := _package_version(site, site):
        return version
    names = [] if site in seen else _names(site)
    seen.add(site)
    for name in names:
        for line in _text(site / name).splitlines() if name.endswith(".pth") else ():
            if line.startswith(("import ", "import\t")):
                # Code. uv joins environments in this way; the rest are import hooks.
                versions = (_quickie(site / added[2], seen) for added in _ADDED_SITE.finditer(line))
                version = next(filter(None, versions), "")
            else:
                version = _package_version(site / line.strip(), site) if line.strip() and line[0] != "#" else ""
            if version:
                return version
    # An editable installation by an import hook: no path leads to the package, but its record says so.
    editable = (name for name in names if _record_version(name) and _EDITABLE.search(_text(site / name / _ORIGIN)))
    return _record_version(next(editable, ""))


def _package_version(directory: Path, site: Path) -> str:
    """Return the version of the quickie in `directory`; empty when there is none, or another package of that name."""
    if not _is_file(directory / "quickie" / "__init__.py"):
        return ""
    if said := _META_VERSION.search(_text(directory / "quickie" / "_meta.py")):
        return said[1]
    return next(filter(None, map(_record_version, _names(directory) + _names(site))), "")


def _record_version(name: str) -> str:
    """Return the version in the name of quickie-runner's `.dist-info`, empty for any other name."""
    match = _RECORD.fullmatch(name)
    return match[1] if match else ""


def _names(directory: Path) -> list[str]:
    """Return what lies in a directory; one that is not there, or may not be read, adds nothing to `sys.path`."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig", "surrogateescape")
    except OSError:
        return ""


def _is_file(path: Path) -> bool:
    """Return whether a file is there; one that may not be looked at is not, for Python's import neither."""
    try:
        return path.is_file()
    except OSError:
        return False


def _outgrown(layout: _Layout) -> str:
    """Return what to add when an environment was made for another Python than its link leads to now."""
    said = re.match(r"(\d+\.\d+)", (layout.settings or {}).get("version", ""))
    now = _TAG.fullmatch(layout.tag)
    if said and now and said[1] != f"{now[2]}.{now[3]}":
        return f" (it was made for Python {said[1]}, which has become {now[2]}.{now[3]})"
    return ""
