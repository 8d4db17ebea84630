"""What the user's rules mean for the tasks of a project, in words for people."""

from collections.abc import Iterator, Sequence

from qk_mcp.projects.rules import Rules, decide, matches_exactly, matches_loosely
from qk_mcp.tasks.catalog import Task
from qk_mcp.text import nearest

__all__ = ["HIDDEN", "rule_effects", "unused_rules"]

HIDDEN = ("not for agents",)
"""What the rules mean for a task that agents neither see nor run."""
_KEYS = ("allow", "deny", "confirm", "read_only", "tools", "exclusive")
"""The rules that name tasks."""
_LOOSE = ("deny", "confirm")


def rule_effects(rules: Rules, task: Task) -> tuple[str, ...]:
    """Return what `rules` mean for a task: `HIDDEN`, or what is special about its runs by agents; mostly nothing."""
    names = (task.name, *task.aliases)
    verdict = decide(rules, names)
    if verdict.decision == "refuse":
        return HIDDEN
    effects = {
        "asks a person": verdict.decision == "ask",
        "read only": matches_exactly(rules.read_only, names),
        "own tool": matches_exactly(rules.tools, names),
        "one at a time": matches_exactly(rules.exclusive, names),
    }
    return tuple(effect for effect, applies in effects.items() if applies)


def unused_rules(rules: Rules, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield a sentence for each glob that names no task, with the nearest name."""
    names = [name for task in tasks for name in (task.name, *task.aliases)]
    for key in _KEYS:
        matches = matches_loosely if key in _LOOSE else matches_exactly
        for glob in getattr(rules, key) or ():
            if not matches([glob], names):
                near = nearest(glob, names, 1)
                yield f"{key} has {glob!r}, which matches no task" + (f"; did you mean {near[0]!r}?" if near else "")
