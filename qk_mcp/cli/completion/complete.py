"""What may stand at the cursor: commands, options and their values, projects, tasks and a task's arguments."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qk_mcp.cli.project_or_task import is_path, split_words
from qk_mcp.errors import QkMcpError
from qk_mcp.projects.project import Project, expand, fit_alias
from qk_mcp.projects.registry import Registry, build_registry
from qk_mcp.tasks.catalog import Argument, Task
from qk_mcp.text import one_line

__all__ = ["SHELLS", "Answer", "Candidate", "complete"]

SHELLS = ("bash", "fish", "zsh")
"""The shells that have a completion script."""

_UNLIMITED = 1_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that may stand at the cursor."""

    value: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What may stand at the cursor; with `files`, also the name of any file."""

    candidates: Sequence[Candidate] = ()
    files: bool = False


@dataclass(slots=True)
class _Line:
    """The words before the cursor, sorted by what they are."""

    command: str
    options: Mapping[str, Mapping[str, Any]]
    given: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    pending: str = ""
    """The option whose value the cursor is at."""
    ended: bool = False
    """Whether no more options of the command can follow."""


def complete(words: Sequence[str], current: str, environ: Mapping[str, str], cwd: Path | None) -> Answer:
    """Return what may replace `current`, the beginning of a word; `words` are those between the program and it."""
    table = json.loads(Path(__file__).with_name("table.json").read_bytes())
    command, rest = "", list(words)
    while rest and rest[0] in table[command]["commands"]:
        command = f"{command} {rest.pop(0)}".strip()
    options = table[command]["options"]
    if not command and (rest or current.startswith("-")):
        command = "serve"  # the command that options without one belong to
        options = table[command]["options"] | (options if not rest else {})
    if command == "help":
        commands = table.get(" ".join(rest), {}).get("commands", {})
    else:
        commands = table[command]["commands"] if not rest else {}
    if commands and not current.startswith("-"):
        return Answer([Candidate(name, about) for name, about in commands.items() if not name.startswith("-")])
    return _Completion(_read_line(command, options, rest), environ, cwd).at(current)


def _read_line(command: str, options: Mapping[str, Mapping[str, Any]], rest: Sequence[str]) -> _Line:
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
    """Completes one word of a line."""

    def __init__(self, line: _Line, environ: Mapping[str, str], cwd: Path | None) -> None:
        self._line = line
        self._environ = environ
        self._cwd = cwd

    def at(self, current: str) -> Answer:
        """Return what may replace `current`."""
        line = self._line
        option, equals, value = current.partition("=")
        if line.pending:
            return self._option_value(line.pending, current)
        if not line.ended and current.startswith("-"):
            if not equals:
                return Answer(list(self._options()))
            return _with_flag(option, self._option_value(option, value))
        match line.command:
            case "projects add" if not line.words:
                return Answer(list(self._declarations(current)))
            case "projects remove":
                return Answer([each for each in self._aliases() if each.value not in line.words])
            case "projects set" | "projects unset":
                return self._setting()
            case "runs show" | "runs stop" if not line.words:
                return Answer(list(_runs(only_running=line.command == "runs stop")))
            case "install" | "uninstall" if not line.words:
                from qk_mcp.clients.known import CLIENTS

                return Answer([Candidate(client.name, client.title) for client in CLIENTS])
            case "--install-completion" if not line.words:
                return Answer([Candidate(shell) for shell in SHELLS])
            case "inspect" | "run":
                return self._project_or_task(current)
        return Answer()

    def _setting(self) -> Answer:
        """Complete the project, the key, and the globs: names of tasks for `set`, present globs for `unset`."""
        words = self._line.words
        if not words:
            return Answer(list(self._aliases()))
        from qk_mcp.projects.config import SETTINGS
        from qk_mcp.projects.rules import written_rules

        if len(words) == 1:
            return Answer([Candidate(key) for key in SETTINGS])
        project = next((each for each in self._registry().projects if each.alias == words[0]), None)
        form = SETTINGS.get(words[1], "")
        if form == "boolean":
            return Answer([Candidate("true"), Candidate("false")])
        if project is None or not form.startswith("globs") or words[1] in ("redact", "reports"):
            return Answer()
        if self._line.command == "projects unset":
            present = written_rules(project.rules).get(words[1]) or []
            return Answer([Candidate(glob) for glob in present if glob not in words])
        return Answer([each for each in self._task_names(project) if each.value not in words])

    def _options(self) -> Iterator[Candidate]:
        for name, option in self._line.options.items():
            if option["repeatable"] or name not in self._line.given:
                yield Candidate(name, option["about"])

    def _option_value(self, name: str, current: str) -> Answer:
        if name == "--project" and self._line.command == "runs":
            from qk_mcp.cli.runs.select import recorded_runs

            return Answer([Candidate(each) for each in {run.project: None for run in recorded_runs()}])
        if name == "--project":
            return Answer(list(self._declarations(current)))
        if name == "--filter":
            return Answer(list(self._task_names(self._project_and_rest()[0])))
        option = self._line.options.get(name, {})
        if "choices" in option:
            return Answer([Candidate(choice) for choice in option["choices"]])
        return Answer(files=option.get("value") in ("FILE", "PATH"))

    def _project_or_task(self, current: str) -> Answer:
        line = self._line
        if not line.words:
            candidates = [*self._aliases(), *self._task_names(self._registry().default)]
            return Answer([] if is_path(current) else candidates, files=is_path(current))
        project, words = self._project_and_rest()
        if not words:
            return Answer(list(self._task_names(project)))
        if line.command == "inspect" or project is None:
            return Answer()
        task = next((task for task in self._tasks(project) if words[0] in (task.name, *task.aliases)), None)
        return _task_argument(task, words[1:], current) if task else Answer(files=True)

    def _project_and_rest(self) -> tuple[Project | None, list[str]]:
        registry = self._registry()
        return split_words(registry, self._line.words) if self._line.words else (registry.default, [])

    def _registry(self) -> Registry:
        given = self._line.given
        config = Path(given["--config"][-1]) if "--config" in given else None
        return build_registry(given.get("--project", []), config, environ=self._environ, cwd=self._cwd)

    def _aliases(self) -> Iterator[Candidate]:
        for project in self._registry().projects:
            yield Candidate(project.alias, str(project.path))

    def _task_names(self, project: Project | None) -> Iterator[Candidate]:
        for task in self._tasks(project) if project else ():
            for name in (task.name, *task.aliases):
                yield Candidate(name, task.short_help)

    def _tasks(self, project: Project) -> Sequence[Task]:
        from qk_mcp.cli.completion.cache import cached_tasks

        try:
            return cached_tasks(project, self._environ)
        except QkMcpError:  # the other candidates are still right
            return ()

    def _declarations(self, current: str) -> Iterator[Candidate]:
        """Yield what NAME:PATH may become: a name for the current directory, then paths of directories and modules."""
        name, colon, path = current.partition(":")
        path_only = self._line.command == "projects add" and (is_path(current) or not colon)
        if path_only:
            name, colon, path = "", "", current
        if not colon and self._cwd and not is_path(current):
            yield Candidate(fit_alias(self._cwd.name) + ":", "the current directory")
        if colon or path_only:
            yield from (Candidate(name + colon + found) for found in self._paths(path))

    def _paths(self, prefix: str) -> Iterator[str]:
        head, slash, tail = prefix.rpartition("/")
        with os.scandir(expand((head + slash) or ".", self._cwd, self._environ)) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.startswith(".") and not tail.startswith("."):
                    continue
                if entry.is_dir():
                    yield head + slash + entry.name + "/"
                elif entry.name.endswith(".py"):
                    yield head + slash + entry.name


def _runs(*, only_running: bool) -> Iterator[Candidate]:
    from qk_mcp.cli.runs.select import recorded_runs

    for run in sorted(recorded_runs(), key=lambda run: -run.time):
        if run.state == "running" or not only_running:
            yield Candidate(run.run, one_line(f"{run.task} of {run.project}: {run.state.replace('_', ' ')}"))


def _task_argument(task: Task, words: Sequence[str], current: str) -> Answer:
    """Return what may replace `current` after `words`, the arguments of `task` so far."""
    options = {flag: argument for argument in task.args for flag in argument.flags if flag.startswith("-")}
    positionals, missing, ended = 0, 0, False
    pending: Argument | None = None
    for word in words:
        flag, equals, _ = word.partition("=")
        if missing:
            missing -= 1
        elif ended or word == "-" or not word.startswith("-"):
            positionals += 1
        elif word == "--":
            ended = True
        elif flag in options:
            pending = options[flag]
            missing = 0 if equals else _word_counts(pending)[0]
    if missing and pending:
        return _values(pending)
    if ended or not current.startswith("-"):
        return _values(_positional(task, positionals))
    flag, equals, _ = current.partition("=")
    if equals:
        return _with_flag(flag, _values(options.get(flag)))
    return Answer([Candidate(flag, one_line(argument.help or "")) for flag, argument in options.items()])


def _with_flag(flag: str, answer: Answer) -> Answer:
    """Return an answer for the value of an option as one for the word `flag=value`."""
    return Answer([Candidate(f"{flag}={each.value}", each.about) for each in answer.candidates], answer.files)


def _positional(task: Task, before: int) -> Argument | None:
    """Return the positional argument that the next word belongs to, after `before` other words."""
    for argument in task.args:
        if argument.flags == (argument.dest,):
            before -= _word_counts(argument)[1]
            if before < 0:
                return argument
    return None


def _word_counts(argument: Argument) -> tuple[int, int]:
    """Return how many words an argument takes, at least and at most."""
    match argument.nargs:
        case int(count):
            return count, count
        case "?":
            return 0, 1
        case "*" | "...":
            return 0, _UNLIMITED
        case "+" | "A...":
            return 1, _UNLIMITED
    return 1, 1


def _values(argument: Argument | None) -> Answer:
    """Return an argument's choices; a value without choices may be a file."""
    if argument is None or argument.choices is None:
        return Answer(files=True)
    return Answer([Candidate(str(choice)) for choice in argument.choices])
