"""Makes Python environments of all layouts, with or without quickie, from the one that runs the tests."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

TAG = f"python{sys.version_info.major}.{sys.version_info.minor}"
BASE = Path(os.path.realpath(sys.executable))
"""The Python outside every virtual environment, links followed."""

_ASK = """
import importlib.util, json, runpy, sys
spec = importlib.util.find_spec("quickie")
version = runpy.run_path(spec.submodule_search_locations[0] + "/_meta.py")["__version__"] if spec else None
print(json.dumps({"prefix": sys.prefix, "quickie": version, "version": "%d.%d" % sys.version_info[:2]}))
"""


def make_venv(directory: Path, *, quickie: str | None = None, copies: bool = False, system_site: bool = False) -> Path:
    """Make a virtual environment, with that version of quickie; return its Python."""
    venv.create(directory, symlinks=not copies, system_site_packages=system_site)
    if quickie:
        install_quickie(site_of(directory), quickie)
    return directory / "bin" / "python"


def make_broken(directory: Path) -> None:
    """Make a virtual environment whose Python was removed."""
    make_venv(directory, quickie="1.0.0")
    for name in ("python", "python3", TAG):
        (directory / "bin" / name).unlink()
        (directory / "bin" / name).symlink_to(f"/removed/{name}")


def make_orphan(directory: Path) -> None:
    """Make a virtual environment with a copied Python whose original was removed."""
    make_venv(directory, quickie="1.0.0", copies=True)
    config = directory / "pyvenv.cfg"
    config.write_text(f"home = {directory.parent / 'removed'}\n" + config.read_text().partition("\n")[2])


def make_conda(directory: Path, *, quickie: str | None = None) -> Path:
    """Make a conda environment: a complete Python with its own library and no `pyvenv.cfg`."""
    library = directory / "lib" / TAG
    library.mkdir(parents=True)
    (directory / "conda-meta").mkdir()
    (directory / "bin").mkdir()
    shutil.copy2(BASE, directory / "bin" / TAG)
    for name in ("python", "python3"):
        (directory / "bin" / name).symlink_to(TAG)
    standard = Path(os.__file__).parent
    for entry in standard.iterdir():
        if entry.name != "site-packages":
            (library / entry.name).symlink_to(entry)
    site_of(directory).mkdir()
    if quickie:
        install_quickie(site_of(directory), quickie)
    return directory / "bin" / "python"


def site_of(directory: Path) -> Path:
    return directory / "lib" / TAG / "site-packages"


def install_quickie(site: Path, version: str = "1.0.0") -> None:
    """Copy the package and its metadata, as an installer would, with another version number."""
    site.mkdir(parents=True, exist_ok=True)
    package, record = _installed()
    shutil.copytree(package, site / "quickie", ignore=shutil.ignore_patterns("__pycache__"))
    meta = site / "quickie" / "_meta.py"
    meta.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', meta.read_text()))
    shutil.copytree(record, site / f"quickie_runner-{version}.dist-info")


def remove_quickie(site: Path) -> None:
    for entry in site.glob("quickie*"):
        shutil.rmtree(entry)


def make_script(file: Path, *lines: str) -> Path:
    """Write an executable script such as pip writes for `qk`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join((*lines, "from quickie._cli import main", "main()", "")))
    file.chmod(0o755)
    return file


def ask(python: Path, environ: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a Python's prefix and version, and the version of the quickie that it imports."""
    done = subprocess.run(
        [python, "-P", "-c", _ASK], capture_output=True, text=True, check=True, timeout=60, env=environ or {}
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@cache
def _installed() -> tuple[Path, Path]:
    files = metadata.files("quickie-runner") or []
    package = next(file for file in files if file.as_posix() == "quickie/__init__.py")
    record = next(file for file in files if file.as_posix().endswith(".dist-info/METADATA"))
    return Path(str(package.locate())).parent, Path(str(record.locate())).parent
