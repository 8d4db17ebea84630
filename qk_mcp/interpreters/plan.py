"""What it takes to start an interpreter for a project: where its tasks are, which Python, which variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from qk_mcp.interpreters.activation import activated_environment
from qk_mcp.interpreters.search import Interpreter, find_interpreter
from qk_mcp.interpreters.secrets import find_secrets
from qk_mcp.projects.project import Location, Project, locate
from qk_mcp.redact import NO_SECRETS, Secrets

__all__ = ["Plan", "resolve"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a project's interpreter is started with. Interpreters of equal plans are interchangeable."""

    project: Project
    location: Location
    interpreter: Interpreter
    variables: Mapping[str, str]
    """The environment of the tasks."""
    root: tuple[int, int]
    """Device and inode of the root, which another directory may replace."""
    secrets: Secrets = field(default=NO_SECRETS, compare=False, repr=False)
    """What is hidden in everything that leaves a run; it follows from the variables and the project's rules."""

    @property
    def note(self) -> str:
        """What an agent should know of the chosen Python; empty if there is nothing unusual about it."""
        python, rejected = self.interpreter.python, self.interpreter.rejected
        reason = f"the project's own environment is not used ({rejected})" if rejected else ""
        if self.interpreter.borrowed:
            return (
                f"{reason or 'this worktree has no environment of its own'}; "
                f"tasks run with {python} of the main checkout: a package installed there in editable mode is imported "
                f"from {self.project.main_root}, not from this worktree"
            )
        return f"{reason}; tasks run with {python}, {self.interpreter.reason}" if reason else ""


def resolve(project: Project, environ: Mapping[str, str]) -> Plan:
    """Return the plan of `project` as its files are now; looks at files only and starts nothing.

    Raises PathMissing and TasksNotFound when there are no tasks, NoInterpreter and QuickieTooOld when no Python
    can run them, and InvalidVariable for an `env` that no process can have.
    """
    location = locate(project)
    interpreter = find_interpreter(project, location, environ)
    status = location.root.stat()
    variables = activated_environment(interpreter, project, environ)
    secrets = find_secrets(variables, project.rules.redact)
    return Plan(project, location, interpreter, variables, (status.st_dev, status.st_ino), secrets)
