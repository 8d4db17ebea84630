"""Decides whether the task of a run may start: by the user's rules as they are at that time, and by the person."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastmcp.server.dependencies import get_context

from qk_mcp.errors import NotConfirmed, TaskRefused, UnknownTask
from qk_mcp.projects.project import Project
from qk_mcp.projects.rules import Rules, combine_rules, decide, restricts_runs
from qk_mcp.projects.served import ServedProjects
from qk_mcp.runs.control import Control
from qk_mcp.runs.gate import Gate, ResolvedTask
from qk_mcp.server.consent import NoConsent, Question, Questions
from qk_mcp.text import shell_line

__all__ = ["Admission", "Place", "TaskCall", "limit_timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall:
    """A call of `run_task`, or of a tool for one task."""

    project: Project
    task: str
    args: Sequence[str] = ()
    stdin: str | None = None
    timeout: float | None = None
    """Seconds; None for the default, which depends on the client."""
    background: bool = False
    """Whether the call is answered although the task runs on."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a person would run the task of a call."""

    root: Path
    has_qk: bool
    """Whether quickie's own command finds the task there."""


class Admission:
    """The decision about one run."""

    def __init__(
        self, served: ServedProjects, call: TaskCall, place: Place, control: Control, questions: Questions
    ) -> None:
        self._served = served
        self._call = call
        self._place = place
        self._control = control
        self._questions = questions
        self._context = get_context()
        self._agreed: Question | None = None

    def find_gate(self) -> Gate | None:
        """Return the gate of this run, or None if no rule can keep its task from starting.

        Raises RulesUnknown, and UnknownProject if the project is no longer served.
        """
        return self._pass if restricts_runs(self._rules()) else None

    def without_denied(self, failure: UnknownTask) -> UnknownTask:
        """Return the failure without suggestions that the rules deny."""
        rules = self._rules()
        near = [name for name in failure.near if decide(rules, [name]).decision != "refuse"]
        return UnknownTask(self._call.project.alias, self._call.task, near)

    async def _pass(self, task: ResolvedTask) -> None:
        verdict = decide(self._rules(), task.names)
        alias, root = self._call.project.alias, self._place.root
        if verdict.decision == "refuse":
            raise TaskRefused(alias, self._call.task, verdict.rule, self._command(), root)
        if verdict.decision == "ask":
            try:
                await self._ask(task, verdict.rule)
            except NoConsent as failure:
                rule, why = verdict.rule, str(failure)
                raise NotConfirmed(alias, self._call.task, rule, why, self._command(), root) from None

    async def _ask(self, task: ResolvedTask, rule: str) -> None:
        question = Question(
            self._call.project.alias,
            str(self._place.root),
            self._words(),
            tuple(task.names),
            self._call.stdin or "",
            task.location or "",
            rule,
        )
        if question == self._agreed:
            return  # the first guest of this run has been lost before its task began
        with self._control.paused():
            await self._questions.ask(question, self._context)
        self._agreed = question
        verdict = decide(self._rules(), task.names)  # the person may also have changed the config
        if verdict.decision == "refuse":
            alias, root = self._call.project.alias, self._place.root
            raise TaskRefused(alias, self._call.task, verdict.rule, self._command(), root)

    def _rules(self) -> Rules:
        """Return the current rules for the project; if its alias has another path now, the old ones apply, too."""
        self._served.check_rules()
        project = self._call.project
        current = self._served.find(project.alias)
        return current.rules if current.path == project.path else combine_rules(current.rules, [project.rules])

    def _words(self) -> Sequence[str]:
        """Return the words of the command that runs the task without an agent."""
        words = [self._call.task, *self._call.args]
        if self._place.has_qk:
            return ("qk", *words)
        return ("qk-mcp", "run", self._call.project.alias, *words)

    def _command(self) -> str:
        return shell_line(self._words())


def limit_timeout(timeout: float, rules: Rules) -> tuple[float, str]:
    """Return a run's timeout within the user's `max_timeout`, and a note if that makes it shorter."""
    if rules.max_timeout is None or timeout <= rules.max_timeout:
        return timeout, ""
    return rules.max_timeout, f"the timeout is {rules.max_timeout:g} s, the longest that the user allows (max_timeout)"
