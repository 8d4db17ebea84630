"""Answers of `list_tasks`: describes the projects at the same time; keeps answers until a catalogue changes.

Tasks that the user's rules deny are not listed.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import anyio
from fastmcp.tools import ToolResult

from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import Project
from qk_mcp.projects.rules import Rules, decide
from qk_mcp.runs.durations import Durations
from qk_mcp.server.answers import tool_answer
from qk_mcp.tasks.cache import CatalogCache
from qk_mcp.tasks.catalog import Catalog
from qk_mcp.tasks.listing import Detail, listing_text, make_entries

__all__ = ["Listings"]

_KEPT = 32
"""Answers that are kept."""

type _Outcome = Catalog | QkMcpError
type _Usual = Mapping[tuple[str, str], float]


class Listings:
    """The answers of one server; each has at most `limit` bytes of JSON, more only with `detail="full"`."""

    def __init__(self, catalogs: CatalogCache, durations: Durations, limit: int) -> None:
        self._catalogs = catalogs
        self._durations = durations
        self._limit = limit
        self._answers: dict[tuple[Hashable, ...], tuple[list[_Outcome], _Usual, ToolResult]] = {}

    async def list_project(self, project: Project, pattern: str | None, detail: Detail, note: str) -> ToolResult:
        """Return one project's entry. Raises `QkMcpError` if the project cannot be described."""
        return self._answer([project], [await self._catalogs.get(project)], pattern, detail, note)

    async def list_projects(
        self, projects: Sequence[Project], pattern: str | None, detail: Detail, note: str
    ) -> ToolResult:
        """Return an entry per project; if one cannot be described, its entry has an `error`."""
        return self._answer(projects, await self._describe(projects), pattern, detail, note)

    async def _describe(self, projects: Sequence[Project]) -> list[_Outcome]:
        outcomes: dict[str, _Outcome] = {}

        async def describe(project: Project) -> None:
            try:
                outcomes[project.alias] = await self._catalogs.get(project)
            except QkMcpError as failure:
                outcomes[project.alias] = failure

        async with anyio.create_task_group() as tasks:
            for project in projects:
                tasks.start_soon(describe, project)
        return [outcomes[project.alias] for project in projects]

    def _answer(
        self, projects: Sequence[Project], outcomes: list[_Outcome], pattern: str | None, detail: Detail, note: str
    ) -> ToolResult:
        key = (detail, pattern, note, *((project.alias, project.rules) for project in projects))
        usual = self._durations.usual()
        previous = self._answers.pop(key, None)
        if previous is not None and previous[1] is usual and all(map(_same, previous[0], outcomes)):
            answer = previous[2]
        else:
            listed = [
                (project, _permitted(outcome, project.rules))
                for project, outcome in zip(projects, outcomes, strict=True)
            ]
            entries = make_entries(listed, pattern=pattern, detail=detail, limit=self._limit, note=note, usual=usual)
            answer = tool_answer({"result": entries}, listing_text(entries))
        if len(self._answers) >= _KEPT:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = outcomes, usual, answer
        return answer


def _permitted(outcome: _Outcome, rules: Rules) -> _Outcome:
    """Return a catalogue without the tasks that agents may not run."""
    if isinstance(outcome, QkMcpError) or rules == Rules():
        return outcome
    tasks = [task for task in outcome.tasks if decide(rules, [task.name, *task.aliases]).decision != "refuse"]
    return replace(outcome, tasks=tuple(tasks))


def _same(one: _Outcome, other: _Outcome) -> bool:
    return one is other or (isinstance(one, QkMcpError) and isinstance(other, QkMcpError) and str(one) == str(other))
