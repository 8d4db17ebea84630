"""What may stand at the cursor: commands, options and their values, projects, tasks."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qk_mcp.cli.completion.answers import Answer, Candidate
from qk_mcp.cli.project_or_task import choose, is_path
from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import Project, expand, fit_alias
from qk_mcp.projects.registry import Registry, build_registry
from qk_mcp.tasks.catalog import Task

__all__ = ["complete"]


@dataclass(slots=True)
class _Line:
    """The words before the cursor, told apart."""

    command: str
    options: Mapping[str, Mapping[str, Any]]
    given: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    pending: str = ""
    """An option that the word at the cursor is the value of."""
    ended: bool = False
    """Whether no option of the command's own can follow."""


def complete(words: Sequence[str], current: str, environ: Mapping[str, str], cwd: Path | None) -> Answer:
    """Return what may follow `words`, the words after the program's name, where `current` was begun."""
    table = json.loads(Path(__file__).with_name("table.json").read_bytes())
    command, rest = "", list(words)
    while rest and rest[0] in table[command]["commands"]:
        command = f"{command} {rest.pop(0)}".strip()
    options = table[command]["options"]
    if not command and (rest or current.startswith("-")):
        command = "serve"  # as the program itself has it
        options = table[command]["options"] | (options if not rest else {})
    commands = table[command]["commands"] if not rest else {}
    if commands and not current.startswith("-"):
        return Answer([Candidate(name, about) for name, about in commands.items() if not name.startswith("-")])
    return _Completion(_read(command, options, rest), environ, cwd).at(current)


def _read(command: str, options: Mapping[str, Mapping[str, Any]], rest: Sequence[str]) -> _Line:
    line = _Line(command, options)
    for word in rest:
        option, equals, value = word.partition("=")
        if line.pending:
            line.given.setdefault(line.pending, []).append(word)
            line.pending = ""
        elif line.ended or word == "-" or not word.startswith("-"):
            line.words.append(word)
            line.ended = line.ended or command == "run"
        elif word == "--":
            line.ended = True
        elif equals or option not in options or options[option]["value"] is None:
            line.given.setdefault(option, []).append(value)
        else:
            line.pending = option
    return line


class _Completion:
    """Completes one word."""

    def __init__(self, line: _Line, environ: Mapping[str, str], cwd: Path | None) -> None:
        self._line = line
        self._environ = environ
        self._cwd = cwd

    def at(self, current: str) -> Answer:
        """Return what `current` may become."""
        line = self._line
        option, equals, value = current.partition("=")
        if line.pending:
            return self._value(line.pending, current)
        if not line.ended and current.startswith("-"):
            if not equals:
                return Answer(list(self._options()))
            answer = self._value(option, value)
            return Answer([Candidate(f"{option}={each.value}", each.about) for each in answer.candidates], answer.files)
        match line.command:
            case "projects add" if not line.words:
                return Answer(list(self._declarations(current)))
            case "projects remove":
                return Answer([each for each in self._aliases() if each.value not in line.words])
            case "install" | "uninstall" if not line.words:
                from qk_mcp.clients.known import CLIENTS

                return Answer([Candidate(client.name, client.title) for client in CLIENTS])
            case "--install-completion" if not line.words:
                from qk_mcp.cli.completion.scripts import SCRIPTS

                return Answer([Candidate(shell) for shell in SCRIPTS])
            case "inspect" | "run":
                return self._of_a_project(current)
        return Answer()

    def _options(self) -> Iterator[Candidate]:
        for name, option in self._line.options.items():
            if option["again"] or name not in self._line.given:
                yield Candidate(name, option["about"])

    def _value(self, name: str, current: str) -> Answer:
        if name == "--project":
            return Answer(list(self._declarations(current)))
        if name == "--filter":
            return Answer(list(self._tasks(self._chosen()[0])))
        return Answer(files=self._line.options.get(name, {}).get("value") in ("FILE", "PATH"))

    def _of_a_project(self, current: str) -> Answer:
        line = self._line
        if not line.words:
            candidates = [*self._aliases(), *self._tasks(self._registry().default)]
            return Answer([] if is_path(current) else candidates, files=is_path(current))
        project, words = self._chosen()
        if not words:
            return Answer(list(self._tasks(project)))
        if line.command == "inspect" or project is None:
            return Answer()
        from qk_mcp.cli.completion.arguments import complete_argument

        task = next((task for task in self._known(project) if words[0] in (task.name, *task.aliases)), None)
        return complete_argument(task, words[1:], current) if task else Answer(files=True)

    def _chosen(self) -> tuple[Project | None, list[str]]:
        registry = self._registry()
        return choose(registry, self._line.words) if self._line.words else (registry.default, [])

    def _registry(self) -> Registry:
        given = self._line.given
        config = Path(given["--config"][-1]) if "--config" in given else None
        return build_registry(given.get("--project", []), config, environ=self._environ, cwd=self._cwd)

    def _aliases(self) -> Iterator[Candidate]:
        for project in self._registry().projects:
            yield Candidate(project.alias, str(project.path))

    def _tasks(self, project: Project | None) -> Iterator[Candidate]:
        for task in self._known(project) if project else ():
            for name in (task.name, *task.aliases):
                yield Candidate(name, task.short_help)

    def _known(self, project: Project) -> Sequence[Task]:
        from qk_mcp.cli.completion.tasks import known

        try:
            return known(project, self._environ)
        except QkMcpError:
            return ()

    def _declarations(self, current: str) -> Iterator[Candidate]:
        """Yield what NAME:PATH may become: a name for the current directory, then paths of directories and modules."""
        name, colon, path = current.partition(":")
        bare = self._line.command == "projects add" and (is_path(current) or not colon)
        if bare:
            name, colon, path = "", "", current
        if not colon and self._cwd and not is_path(current):
            yield Candidate(fit_alias(self._cwd.name) + ":", "the current directory")
        if colon or bare:
            yield from (Candidate(name + colon + found) for found in self._paths(path))

    def _paths(self, begun: str) -> Iterator[str]:
        head, slash, tail = begun.rpartition("/")
        with os.scandir(expand((head + slash) or ".", self._cwd, self._environ)) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.startswith(".") and not tail.startswith("."):
                    continue
                if entry.is_dir():
                    yield head + slash + entry.name + "/"
                elif entry.name.endswith(".py"):
                    yield head + slash + entry.name
