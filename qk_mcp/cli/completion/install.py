"""`qk-mcp --install-completion`: the script where the user's shell finds it."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qk_mcp.cli.completion.scripts import SCRIPTS
from qk_mcp.cli.ui.messages import note
from qk_mcp.editing.files import replace_file
from qk_mcp.errors import NoHome, UnknownShell

__all__ = ["install_completion"]


def install_completion(shell: Annotated[str | None, Parameter(name="SHELL")] = None, /) -> None:
    """Install completion for bash, fish or zsh; no startup file is touched.

    Parameters
    ----------
    shell
        The shell, if it is not the one that this is typed in.
    """
    shell = shell or _own_shell()
    if shell not in SCRIPTS:
        raise UnknownShell(shell, list(SCRIPTS))
    file = _place(shell)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(Path(os.path.realpath(file)), SCRIPTS[shell].encode())
    note(f"wrote {file}")
    note(_AFTERWARDS[shell].format(file=file, directory=file.parent))


_AFTERWARDS = {
    "bash": "new shells load it, if the package bash-completion is there; otherwise add to ~/.bashrc:\n  source {file}",
    "fish": "new shells load it, and so does this one",
    "zsh": "new shells load it, if this stands in ~/.zshrc before compinit is called:\n"
    "  fpath=({directory} $fpath)\n  autoload -Uz compinit && compinit",
}
"""What is left to do: a startup file is the user's own."""


def _own_shell() -> str:
    import psutil

    with suppress(psutil.Error):
        for parent in psutil.Process().parents():
            if (name := parent.name().lstrip("-")) in SCRIPTS:
                return name
    return Path(os.environ.get("SHELL", "")).name


def _place(shell: str) -> Path:
    """Return where a shell looks for the script among the user's own files."""
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute():
        raise NoHome
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    match shell:
        case "bash":
            own = os.environ.get("BASH_COMPLETION_USER_DIR", "").split(":")[0]
            return Path(own or data / "bash-completion") / "completions" / "qk-mcp"
        case "fish":
            return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions" / "qk-mcp.fish"
    return data / "zsh" / "site-functions" / "_qk-mcp"
