"""Environments with real releases of quickie, made by pip and cached between test sessions."""

import fcntl
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

__all__ = ["VERSIONS", "quickie_python"]

VERSIONS = ("0.6.0", "0.8.1", "0.10.1", "0.11.0", "1.0.0")
"""The releases that changed something a guest relies on, and the newest."""

_NEEDS = ("argcomplete>=3.6", "frozendict>=2.4", "oslex>=2", "python-dotenv>=1.2", "rich>=14", "watchdog>=5")
"""The packages that quickie imports, without those of its server."""


def quickie_python(cache: pytest.Cache, version: str) -> Path:
    """Return the Python of an environment with quickie-runner `version`; skip the test if pip cannot install it."""
    directory = cache.mkdir(f"quickie-{version}-py{sys.version_info.major}.{sys.version_info.minor}")
    python = directory / "env" / "bin" / "python"
    ready = directory / "ready"
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            venv.create(directory / "env", symlinks=True, clear=True)
            for what in ("--no-deps", f"quickie-runner=={version}"), _NEEDS:
                done = subprocess.run(
                    [sys.executable, "-m", "pip", "--python", python, "install", "-q", *what],
                    capture_output=True,
                    text=True,
                    timeout=300,
                    env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
                )
                if done.returncode:
                    pytest.skip(f"pip cannot install quickie-runner {version} here: {done.stderr.strip()[-200:]}")
            ready.touch()
    return python
