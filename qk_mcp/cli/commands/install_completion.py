"""`qk-mcp --install-completion`: puts the completion script where the user's shell finds it."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qk_mcp.cli.completion.scripts import SCRIPTS, script_path
from qk_mcp.cli.ui.messages import note
from qk_mcp.editing.files import replace_file
from qk_mcp.errors import UnknownShell

__all__ = ["install_completion"]

_NEXT_STEP = {
    "bash": "new shells load it if the package bash-completion is installed; otherwise add to ~/.bashrc:\n"
    "  source {file}",
    "fish": "new shells load it, and so does this one",
    "zsh": "new shells load it if ~/.zshrc contains this before it calls compinit:\n"
    "  fpath=({directory} $fpath)\n  autoload -Uz compinit && compinit",
}
"""What the user still has to do; this program edits no startup file."""


def install_completion(shell: Annotated[str | None, Parameter(name="SHELL")] = None, /) -> None:
    """Install completion for bash, fish or zsh.

    No startup file is changed; the command says what to add to one.

    Parameters
    ----------
    shell
        The shell; the one that runs this command if left out.
    """
    shell = shell or _current_shell()
    if shell not in SCRIPTS:
        raise UnknownShell(shell, list(SCRIPTS))
    file = script_path(shell)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(Path(os.path.realpath(file)), SCRIPTS[shell].encode())
    note(f"wrote {file}")
    note(_NEXT_STEP[shell].format(file=file, directory=file.parent))


def _current_shell() -> str:
    import psutil

    with suppress(psutil.Error):  # SHELL is the fallback
        for parent in psutil.Process().parents():
            if (name := parent.name().lstrip("-")) in SCRIPTS:
                return name
    return Path(os.environ.get("SHELL", "")).name
