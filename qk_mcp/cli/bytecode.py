"""The bytecode of what the server imports: without it the first start takes several seconds, more than clients wait."""

import os
import subprocess
import sys
from importlib.util import cache_from_source, find_spec

from qk_mcp.cli.ui.messages import note

__all__ = ["compile_imports"]

_MODULES = ("qk_mcp.server.stdio", "qk_mcp.server.server", "fastmcp.server.providers.prefab_payload")
"""What a server has imported when it has answered its first call."""
_SIGN = "fastmcp.server.server"
"""A module whose bytecode shows that of the others: installers compile everything or nothing."""
_LIMIT = 120.0


def compile_imports() -> None:
    """Import once in another process what a server imports, if Python has no bytecode for it and can keep it.

    Installers such as uv leave the bytecode to the first start. A failure is left to that start, which explains it.
    """
    spec = find_spec(_SIGN)
    if spec is None or spec.origin is None:
        return
    cached = cache_from_source(spec.origin)
    if os.path.exists(cached) or (sys.pycache_prefix is None and not os.access(os.path.dirname(spec.origin), os.W_OK)):
        return
    note("compiling the server, so that its first start is fast")
    prefix = ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
    command = [sys.executable, "-E", "-P", *prefix, "-c", f"import {', '.join(_MODULES)}"]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT)
    except (OSError, subprocess.TimeoutExpired):
        return  # the first start is slow, or fails with the reason
