"""The parts of a Python on disk: its executable, its prefix, its version and its `site-packages`.

The rules are those of CPython's own start-up (getpath, site): `pyvenv.cfg` is
looked for before links are followed. Only files are read; no process starts.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Layout", "Unusable", "python_version", "read_layout", "read_settings", "replaced_by", "site_directories"]

_PROGRAMS = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")
_TAG = re.compile(r"((?:python|pypy)(\d+)\.(\d+)t?)d?(?:\.exe)?")


class Unusable(Exception):
    """Why a Python cannot run a project's tasks.

    `lacking` is that Python if quickie is all it lacks. `dead` is the directory
    of an environment whose Python was removed.
    """

    def __init__(self, reason: str, lacking: Path | None = None, dead: Path | None = None) -> None:
        super().__init__(reason)
        self.lacking = lacking
        self.dead = dead


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of one Python are."""

    python: Path
    """The executable, links kept."""
    real: Path
    """The executable, links followed."""
    prefix: Path
    """What `sys.prefix` is in it."""
    tag: str
    """The name of its library's directory, as "python3.13"; empty if unknown."""
    settings: Mapping[str, str] | None
    """The settings in `pyvenv.cfg`, None outside a virtual environment."""

    @property
    def is_managed(self) -> bool:
        """Whether pip refuses to install into it, because another package manager owns it (PEP 668)."""
        return self.settings is None and (self.prefix / "lib" / self.tag / "EXTERNALLY-MANAGED").is_file()


def read_layout(path: Path) -> Layout:
    """Return the layout of the environment (a directory) or the Python (a file) at `path`.

    Raises Unusable if that is no Python that can run here, and OSError or
    ValueError if it cannot be read.
    """
    python = _program(path)
    real = Path(os.path.realpath(python))
    for directory in (python.parent, python.parent.parent):
        settings = read_settings(directory)
        if settings is not None:
            # A copied Python (`venv --copies`) is useless without the home it was copied from.
            if "home" in settings and not python.is_symlink() and not Path(settings["home"]).is_dir():
                raise Unusable(f"its Python is gone: {settings['home']} does not exist", dead=directory)
            return Layout(python, real, directory, _tag(real, directory, settings), settings)
    tag = _tag(real, python.parent.parent, {})
    return Layout(python, real, _base_prefix(python, real, tag), tag, None)


def read_settings(directory: Path) -> dict[str, str] | None:
    """Return the settings in a directory's `pyvenv.cfg`, None if it is no virtual environment."""
    try:
        text = (directory / "pyvenv.cfg").read_text("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def python_version(layout: Layout) -> tuple[int, int] | None:
    """Return Python's version as its files tell it, None if they do not."""
    match = _TAG.fullmatch(layout.tag)
    return (int(match[2]), int(match[3])) if match else None


def site_directories(layout: Layout, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the directories that `site` would add to `sys.path`, in its order; some may not exist."""
    prefix, tag = layout.prefix, layout.tag
    if layout.settings is not None:
        yield prefix / "lib" / tag / "site-packages"
        yield prefix / "Lib" / "site-packages"
        if layout.settings.get("include-system-site-packages", "").lower() != "true":
            return
        prefix = _base_prefix(Path(layout.settings.get("home", "")) / "python", layout.real, tag)
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


def replaced_by(layout: Layout) -> str:
    """Return a remark if an environment was made for another Python than its link leads to now, else nothing."""
    recorded = re.match(r"(\d+)\.(\d+)", (layout.settings or {}).get("version", ""))
    now = python_version(layout)
    if recorded and now and (int(recorded[1]), int(recorded[2])) != now:
        return f" (it was made for Python {recorded[0]}, which has become {now[0]}.{now[1]})"
    return ""


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
    ours, theirs = _machine(os.path.realpath(sys.executable)), _machine(program)
    if ours and theirs and theirs not in (ours, _ALSO_RUNS.get(ours)):
        raise Unusable(f"it is built for {theirs}, and this machine runs {ours}")
    if not os.access(program, os.X_OK):
        raise Unusable("it is neither an environment's directory nor a program")
    if "py" not in program.name.lower():
        raise Unusable("its name is not that of a Python")
    return program


_MACHINES = {3: "x86", 40: "arm", 62: "x86-64", 183: "arm64", 243: "riscv"}
"""`e_machine` of the ELF header."""
_ALSO_RUNS = {"ELF x86-64": "ELF x86", "ELF arm64": "ELF arm"}


def _machine(program: str | Path) -> str:
    """Return what kind of machine code a file holds; empty for scripts and unknown formats."""
    with open(program, "rb") as file:
        head = file.read(20)
    if head[:4] == b"\x7fELF" and len(head) == 20:
        machine = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
        return f"ELF {_MACHINES.get(machine, machine)}"
    if head[:2] == b"MZ":
        return "Windows"
    # The architecture is left out: macOS has binaries for two, and translates one into the other.
    return "macOS" if head[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf") else ""


def _tag(real: Path, prefix: Path, settings: Mapping[str, str]) -> str:
    """Return the name of the library's directory, as "python3.13": usually that of the file behind all links."""
    if name := _TAG.fullmatch(real.name):
        return name[1]
    # A copy is called plain `python`.
    recorded = re.match(r"(\d+\.\d+)", settings.get("version_info") or settings.get("version") or "")
    if recorded and (prefix / "lib" / f"python{recorded[1]}").is_dir():
        return f"python{recorded[1]}"
    libraries = sorted(path.name for path in prefix.glob("lib/p*") if _TAG.fullmatch(path.name))
    return libraries[-1] if libraries else f"python{recorded[1]}" if recorded else ""


def _base_prefix(python: Path, real: Path, tag: str) -> Path:
    """Return the prefix of a Python outside virtual environments: where its standard library is."""
    for program in (python, real):
        prefix = program.parent.parent
        if (prefix / "lib" / tag / "os.py").is_file():
            return prefix
        if (program.parent / "Lib" / "os.py").is_file():  # Windows
            return program.parent
    return real.parent.parent
