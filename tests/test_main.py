"""The entry point, before the command line is loaded."""

import subprocess
import sys


def test_without_fcntl_it_names_wsl() -> None:
    script = "import sys; sys.modules['fcntl'] = None; from qk_mcp.__main__ import main; main()"
    for arguments in ([], ["projects", "list"], ["__complete", "bash"]):
        outcome = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
        )
        assert (outcome.returncode, outcome.stdout) == (1, "")
        assert outcome.stderr == "error: qk-mcp does not run on Windows itself; install and run it in WSL\n"
