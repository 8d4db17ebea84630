"""The server's instructions, which a client may show to its model at the start of a session."""

from itertools import accumulate

from qk_mcp.projects.served import ServedProjects
from qk_mcp.text import one_line

__all__ = ["server_instructions"]

_LENGTH = 1_500
"""Characters at most."""


def server_instructions(served: ServedProjects) -> str:
    """Return the text for the client's model: how to use the tools, and which projects there are."""
    names = [repr(one_line(project.alias)) for project in served.projects]
    parts = ["Runs the tasks that projects define for the task runner quickie. Call list_tasks first, then run_task."]
    match names:
        case []:
            parts.append("There is no project yet; the user can add one: qk-mcp projects add NAME:PATH")
        case [only]:
            parts.append(f"There is one project, {only}, so `project` may be left out.")
        case _:
            default = served.default and repr(one_line(served.default.alias))
            parts.append(f"Without `project`, run_task uses {default}." if default else "run_task needs `project`.")
            left = _LENGTH - len(" ".join(parts)) - len(" Projects: , and 1000 more.")
            shown = [
                name
                for name, used in zip(names, accumulate(len(name) + 2 for name in names), strict=True)
                if used <= left
            ]
            more = len(names) - len(shown)
            parts.append(f"Projects: {', '.join(shown)}{f', and {more} more' if more else ''}.")
    return " ".join(parts)
