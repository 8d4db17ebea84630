"""Completion in shells: `qk-mcp __complete SHELL …`, which the scripts of `scripts.py` ask at each press of Tab.

Neither cyclopts nor a project is loaded for it where that can be helped: what the app knows was written into
`table.json`, and what a project defines is remembered (`tasks.py`). cyclopts' own scripts were no base: they know
nothing of words that bash splits at colons, nor of options behind a task.
"""

import os
import sys

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Print whether files may stand at the cursor, then what else may, each on a line; be silent on failure.

    `argv` is `__complete SHELL` and what was typed: the words up to the cursor, the last of them perhaps begun or
    empty; from bash, the line up to the cursor, and COMP_WORDBREAKS.
    """
    try:
        from qk_mcp.cli.completion import lines
        from qk_mcp.cli.completion.words import complete
        from qk_mcp.projects.project import current_directory

        _, shell, *rest = argv
        typed = lines.bash(*rest) if shell == "bash" else lines.Typed(rest[:-1], rest[-1])
        answer = complete(typed.words, typed.current, os.environ, current_directory())
        print("files" if answer.files else "words")
        for candidate in answer.candidates:
            if line := lines.written(candidate, typed, shell):
                print(line)
        sys.stdout.flush()
    except Exception:  # a shell that shows an error in the midst of a line is worse than one that shows nothing
        return 1
    return 0
