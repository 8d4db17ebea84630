"""Clients that run on Node, installed from npm into pytest's cache if Node is available."""

import fcntl
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

__all__ = ["installed"]


def installed(cache: Path, name: str, packages: Mapping[str, str]) -> Path:
    """Return a directory below `cache` in which `packages` are installed; skip the test if that is impossible."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        pytest.skip("Node and npm are not installed here")
    directory = cache / name
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / "done"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of the same test run may install the same
        manifest = json.dumps({"private": True, "dependencies": dict(packages)})
        if done.exists() and done.read_text() == manifest:
            return directory
        (directory / "package.json").write_text(manifest)
        command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock"]
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300)
        if result.returncode:
            pytest.skip(f"npm could not install {' and '.join(packages)}: {result.stderr[-400:]}")
        done.write_text(manifest)
    return directory
