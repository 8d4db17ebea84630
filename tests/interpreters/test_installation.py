"""Installations read from real environments' files, compared with what their Pythons report."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qk_mcp.interpreters.installation import Installation, read_installation
from qk_mcp.interpreters.layout import Unusable
from tests.support.environments import (
    BASE,
    TAG,
    ask,
    install_quickie,
    make_broken,
    make_conda,
    make_orphan,
    make_venv,
    site_of,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a test's environment; its parent is the user's home."""
    return tmp_path / "env"


def _examine(directory: Path, **environ: str) -> Installation:
    """Read an environment, and compare the result with what its Python reports."""
    environ |= {"HOME": str(directory.parent)}
    found = read_installation(directory, environ)
    answer = ask(found.python, environ)
    assert answer == {"prefix": str(found.prefix), "quickie": found.quickie, "version": found.version}
    return found


def _refusal(directory: Path, **environ: str) -> Unusable:
    with pytest.raises(Unusable) as caught:
        read_installation(directory, environ | {"HOME": str(directory.parent)})
    return caught.value


# Layouts as made by venv, virtualenv, uv, conda, pip install -e, …


def _venv(directory: Path) -> None:
    make_venv(directory, quickie="1.0.0")


def _copies(directory: Path) -> None:
    make_venv(directory, quickie="1.0.0", copies=True)
    (directory / "bin" / TAG).unlink()


def _linked_directory(directory: Path) -> None:
    make_venv(directory.parent / "elsewhere", quickie="1.0.0")
    directory.symlink_to(directory.parent / "elsewhere")


def _virtualenv(directory: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "virtualenv", "-q", "--no-download", "--no-seed", directory], check=True, timeout=60
    )
    install_quickie(site_of(directory))


def _uv(directory: Path) -> None:
    """The files of `uv venv`: `python` has no version in its name, and the other names link to it."""
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to(BASE.with_name("python3"))
    (directory / "bin" / "python3").symlink_to("python")
    (directory / "bin" / TAG).symlink_to("python")
    version = ".".join(map(str, sys.version_info[:3]))
    (directory / "pyvenv.cfg").write_text(
        f"home = {BASE.parent}\nimplementation = CPython\nuv = 0.9.0\nversion_info = {version}\n"
        "include-system-site-packages = false\n"
    )
    install_quickie(site_of(directory))


def _conda(directory: Path) -> None:
    make_conda(directory, quickie="1.0.0")


def _path_file(directory: Path) -> None:
    make_venv(directory)
    install_quickie(directory.parent / "checkout", "1.1.0")
    (site_of(directory) / "_quickie_runner.pth").write_text(f"# editable\n\n{directory.parent / 'checkout'}\n")


def _egg(directory: Path) -> None:
    make_venv(directory)
    install_quickie(site_of(directory) / "quickie_runner.egg", "0.6.0")
    (site_of(directory) / "easy-install.pth").write_text("import sys; sys.__plen = 0\n./quickie_runner.egg\n")


def _import_hook(directory: Path) -> None:
    site = site_of(directory)
    make_venv(directory)
    install_quickie(directory.parent / "checkout", "1.0.0")
    shutil.move(directory.parent / "checkout" / "quickie_runner-1.0.0.dist-info", site)
    origin = '{"dir_info": {"editable": true}, "url": "file:///checkout"}'
    (site / "quickie_runner-1.0.0.dist-info" / "direct_url.json").write_text(origin)
    (site / "__editable___finder.py").write_text(
        "import sys, importlib.util\n"
        "class Finder:\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        where = {str(directory.parent / 'checkout' / 'quickie')!r}\n"
        "        if name == 'quickie':\n"
        "            return importlib.util.spec_from_file_location(\n"
        "                name, where + '/__init__.py', submodule_search_locations=[where])\n"
        "def install():\n    sys.meta_path.append(Finder)\n"
    )
    (site / "__editable__.pth").write_text("import __editable___finder; __editable___finder.install()\n")


def _overlay(directory: Path) -> None:
    """An environment on top of another, as `uv run --with` makes it."""
    make_venv(directory)
    make_venv(directory.parent / "below", quickie="1.0.0")
    below = site_of(directory.parent / "below")
    (site_of(directory) / "_uv_ephemeral_overlay.pth").write_text(f'import site; site.addsitedir("{below}")\n')
    (below / "back.pth").write_text(f'import site; site.addsitedir("{site_of(directory)}")\n')


def _base_of_a_venv(directory: Path) -> None:
    base = make_conda(directory.parent / "base", quickie="1.0.0")
    subprocess.run([base, "-m", "venv", "--without-pip", "--system-site-packages", directory], check=True, timeout=60)


def _user_site(directory: Path) -> None:
    make_venv(directory, system_site=True)
    install_quickie(site_of(directory.parent / ".local"))


@pytest.mark.parametrize(
    "make",
    [
        _venv,
        _copies,
        _linked_directory,
        _virtualenv,
        _uv,
        _conda,
        _path_file,
        _egg,
        _import_hook,
        _overlay,
        _base_of_a_venv,
        _user_site,
    ],
)
def test_the_files_show_what_python_reports(directory: Path, make: Callable[[Path], None]) -> None:
    make(directory)
    assert _examine(directory).python == directory / "bin" / "python"


def test_user_packages_count_only_if_python_reads_them(directory: Path, tmp_path: Path) -> None:
    make_venv(directory, system_site=True)
    install_quickie(site_of(tmp_path / "mine"))
    assert str(_refusal(directory)) == "quickie is not installed there"
    _examine(directory, PYTHONUSERBASE=str(tmp_path / "mine"))
    _refusal(directory, PYTHONUSERBASE=str(tmp_path / "mine"), PYTHONNOUSERSITE="1")


# Unusable environments


def _another_quickie(directory: Path) -> None:
    make_venv(directory)
    (site_of(directory) / "quickie").mkdir()
    (site_of(directory) / "quickie" / "__init__.py").write_text("# not the task runner\n")


def _left_record(directory: Path) -> None:
    _venv(directory)
    shutil.rmtree(site_of(directory) / "quickie")


def _without_home_packages(directory: Path) -> None:
    make_venv(directory)
    install_quickie(site_of(directory.parent / ".local"))


def _foreign(directory: Path) -> None:
    _venv(directory)
    machine = 22 if sys.byteorder == "little" else 62  # s390x
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + (2).to_bytes(2, "little") + machine.to_bytes(2, "little")
    (directory / "bin" / "python").unlink()
    (directory / "bin" / "python").write_bytes(header + bytes(44))
    (directory / "bin" / "python").chmod(0o755)


def _windows(directory: Path) -> None:
    (directory / "Scripts").mkdir(parents=True)
    (directory / "Scripts" / "python.exe").write_bytes(b"MZ" + bytes(100))


def _forbidden(directory: Path) -> None:
    _copies(directory)
    (directory / "bin" / "python").chmod(0o644)


def _no_environment(directory: Path) -> None:
    directory.mkdir()


def _file(directory: Path) -> None:
    directory.write_text("/somewhere/else\n")
    directory.chmod(0o644)


def _other_program(directory: Path) -> None:
    directory.symlink_to("/bin/ls")


def _nothing(directory: Path) -> None:
    directory.symlink_to("/removed")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (make_venv, "quickie is not installed there"),
        (_left_record, "quickie is not installed there"),
        (_another_quickie, "quickie is not installed there"),
        (_without_home_packages, "quickie is not installed there"),
        (make_broken, "its Python is gone: "),
        (make_orphan, "its Python is gone: "),
        (_foreign, "it is built for ELF 22, and this machine runs ELF"),
        (_windows, "it is built for Windows, and this machine runs"),
        (_forbidden, "it is neither an environment's directory nor a program"),
        (_file, "it is neither an environment's directory nor a program"),
        (_other_program, "its name is not that of a Python"),
        (_no_environment, "there is no Python in it"),
        (_nothing, "its Python is gone: "),
    ],
)
def test_an_unusable_python_has_a_reason(directory: Path, make: Callable[[Path], None], why: str) -> None:
    if make is _foreign and sys.platform != "linux":
        pytest.skip("ELF headers are compared on Linux")
    make(directory)
    refusal = _refusal(directory)
    assert str(refusal).startswith(why)
    assert refusal.lacking == (directory / "bin" / "python" if "not installed" in why else None)
    assert refusal.dead == (directory if make in (make_broken, make_orphan) else None)


def _old_pythons() -> Iterator[Path]:
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for name in ("python3.11", "python3.10"):
        on_path = (Path(directory, name) for directory in os.get_exec_path())
        yield from (python for python in on_path if python.is_file() and python.parent.name != "shims")
        yield from versions.glob(f"{name.removeprefix('python')}*/bin/{name}")


def test_a_python_older_than_quickie_needs_is_refused(directory: Path) -> None:
    old = next(_old_pythons(), None)
    if old is None:
        pytest.skip("no Python older than 3.12 is on PATH or under pyenv")
    subprocess.run([old, "-m", "venv", "--without-pip", directory], check=True, timeout=60)
    install_quickie(next(directory.glob("lib/*/site-packages")))
    for path in (directory, old):
        version = old.name.removeprefix("python")
        assert str(_refusal(path)) == f"it is Python {version}, and quickie needs 3.12 or later"


def test_an_environment_whose_python_was_replaced_says_so(directory: Path) -> None:
    make_venv(directory, quickie="1.0.0")
    config = directory / "pyvenv.cfg"
    config.write_text(config.read_text().replace(f"version = {sys.version_info.major}.", "version = 2."))
    (directory / "lib" / TAG).rename(directory / "lib" / "python2.13")
    assert "which has become" in str(_refusal(directory))
