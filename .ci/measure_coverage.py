"""Starts coverage.py in each process of qk-mcp that a test starts; `.ci/run` installs it with a .pth file.

Tests start programs in a clean environment, so that coverage.py's own variable never reaches them. The variables are
deleted again here, because the guests inherit the environment and must not be measured: coverage.py opens files and
imports modules, which would count as the project's own. So these stay unmeasured: `qk_mcp/guest`, which runs in the
project's interpreter (perhaps without coverage.py) and whose process is often killed or replaced, and any process
that ends by SIGKILL.
"""

import os
import sys

_SETTINGS = {
    "COVERAGE_PROCESS_START": "@ROOT@/pyproject.toml",
    "COVERAGE_FILE": "@ROOT@/.coverage",
}


def _has_directory() -> bool:
    """Return whether the current directory exists; coverage.py needs one."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _runs_qk_mcp() -> bool:
    words = sys.orig_argv
    return "qk_mcp" in words or (len(words) > 1 and os.path.basename(words[1]) == "qk-mcp")


if _runs_qk_mcp() and _has_directory():
    import coverage

    os.environ.update(_SETTINGS)
    coverage.process_startup()
    for name in _SETTINGS:
        del os.environ[name]
