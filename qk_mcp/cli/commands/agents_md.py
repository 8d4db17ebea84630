"""`qk-mcp agents-md`: what a project's instructions for agents should say about its tasks."""

__all__ = ["agents_md"]

_SECTION = """\
## Tasks

Build, test and run this project by its tasks, with the tools of the MCP server `qk-mcp` instead of commands in a shell.

- `list_tasks` shows the tasks. `filter` takes a part of a name; an exact name shows one task with all its arguments.
- `run_task` runs one, for example `{"task_name": "test", "args": ["-x"]}`. An `exit_code` that is not 0 is an answer.
- In a git worktree, pass a path in it as `project`; otherwise the main checkout may be meant.
- Start what takes minutes, or does not end, with `background`; `get_run` waits for its end, `stop_run` stops it.
- Long output is cut: search the file that `truncated` names instead of running the task again.
- If a task is refused, ask the person to run it; do not look for another way.
"""


def agents_md() -> None:
    """Print a section for your project's AGENTS.md or CLAUDE.md."""
    print(_SECTION, end="")
