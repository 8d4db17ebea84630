"""Real git repositories."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["commit_all", "git", "needs_git"]

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(directory: Path, *words: str) -> str:
    """Run git in `directory`, without the user's own settings, and return what it printed."""
    identity = {f"GIT_{who}_{what}": "tester@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", *words],
        cwd=directory,
        env={"PATH": os.environ["PATH"], **identity, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit_all(directory: Path) -> None:
    """Make `directory` a repository whose only commit has all its files."""
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "all")
