"""Every failure that a user can cause, with its remedy.

A message says what failed, why, and what to do next. The command line prints
it to stderr and exits with `exit_code`; the server returns it as a tool error.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

__all__ = [
    "CannotListen",
    "ClientCommandFailed",
    "ClientFileKept",
    "ClientFileUnreadable",
    "ConfigBroken",
    "ConfigNotWritten",
    "ConfigUnreadable",
    "EditRefused",
    "EntryMissing",
    "EntryNotOurs",
    "EntryTaken",
    "GuestFailed",
    "InvalidDeclaration",
    "InvalidInput",
    "InvalidName",
    "InvalidOption",
    "InvalidSetting",
    "InvalidVariable",
    "IssuerUnusable",
    "LockUnusable",
    "LogUnusable",
    "MisplacedOption",
    "NameTaken",
    "NoConfig",
    "NoDirectory",
    "NoHome",
    "NoInterpreter",
    "NoSuchTask",
    "NoUrlEntry",
    "NotConfirmed",
    "OutOfProcesses",
    "OutputUnreadable",
    "PathMissing",
    "ProjectBroken",
    "ProjectElsewhere",
    "ProjectNeeded",
    "ProjectNotNamed",
    "QkMcpError",
    "QuickieTooOld",
    "RemoteFailed",
    "RemoteRefused",
    "RulesUnknown",
    "RunElsewhere",
    "RunLost",
    "RunNotFound",
    "RunNotStopped",
    "RunOnOtherMachine",
    "RunStopped",
    "RunTimedOut",
    "SearchFailed",
    "ServerFailed",
    "TaskBusy",
    "TaskNotNamed",
    "TaskRefused",
    "TasksNotFound",
    "TokenUnusable",
    "TooManyRuns",
    "UnknownClient",
    "UnknownProject",
    "UnknownRun",
    "UnknownShell",
    "UnknownTask",
    "UsageError",
]


_LONGEST = 1_000
"""Characters of `what`, which may contain a name or value of any length."""


class QkMcpError(Exception):
    """A failure in plain text: what failed, why, and what to do next.

    `what` is one line; `why` and `hint` may be empty; `details` is longer (output,
    a traceback) and comes last.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, why: str = "", hint: str = "", details: str = "") -> None:
        if len(what) > _LONGEST:  # it contains a very long name or value
            what = f"{what[: _LONGEST // 2]} … {what[-_LONGEST // 4 :]}"
        super().__init__(what, why, hint, details)
        self.what = what
        self.why = why
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        parts = (self.what, self.why, self.hint and f"hint: {self.hint}", self.details)
        return "\n".join(part for part in parts if part)


class UsageError(QkMcpError):
    """Wrong use of the command line or of a tool (exit code 2)."""

    exit_code: ClassVar[int] = 2


class InvalidInput(UsageError):
    """A tool's parameter cannot be used."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"parameter {name!r}: {why}")


class InvalidOption(UsageError):
    """An option's value cannot be used."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"option {option}: {why}")


class MisplacedOption(UsageError):
    """An option comes after the project or the task, where it would be the task's."""

    def __init__(self, option: str, right: str) -> None:
        super().__init__(
            f"option {option}: it must come before the project",
            "Everything after the task's name is passed on to the task.",
            f"write: {right}",
        )


class ProjectBroken(QkMcpError):
    """A project's tasks module could not be loaded."""

    def __init__(self, alias: str, what: str, why: str, hint: str) -> None:
        super().__init__(f"project {alias!r} could not be loaded: {what}", why, hint)


class UnknownTask(QkMcpError):
    """A project has no task with that name or alias."""

    def __init__(self, alias: str, task: str, near: Sequence[str]) -> None:
        super().__init__(
            f"project {alias!r} has no task named {task!r}",
            "Did you mean " + " or ".join(repr(name) for name in near) + "?" if near else "",
            "list_tasks lists the tasks; the name must match exactly",
        )
        self.near = near


class NoSuchTask(QkMcpError):
    """`UnknownTask` for the command line; `projects` has near names if the word could be a project, else None."""

    def __init__(self, alias: str, task: str, near: Sequence[str], projects: Sequence[str] | None = None) -> None:
        meant = [*map(repr, near), *(f"the project {name!r}" for name in projects or ())]
        super().__init__(
            f"project {alias!r} has no task named {task!r}",
            "There is no project of that name either." if projects is not None else "",
            f"did you mean {_either(meant)}?" if meant else f"`qk-mcp inspect {alias}` lists its tasks",
        )


class TaskNotNamed(UsageError):
    """A project is named, but no task."""

    def __init__(self, alias: str) -> None:
        super().__init__(
            f"which task of project {alias!r}?",
            hint=f"name it after the project; `qk-mcp inspect {alias}` lists them",
        )


class TooManyRuns(QkMcpError):
    """As many tasks run in the background as may at the same time."""

    def __init__(self, count: int, oldest: str = "", task: str = "", seconds: float = 0.0) -> None:
        super().__init__(
            f"{count} tasks run in the background, and no more may at the same time",
            f"The oldest is {oldest}: task {task!r}, for {seconds:.0f} s." if oldest else "They are of other clients.",
            f"stop one that is not needed: stop_run with run_id {oldest!r}" if oldest else "try again later",
        )


class RunNotFound(QkMcpError):
    """No run has that id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"there is no run {run_id!r}",
            "Its record may have been removed, or the id is not complete.",
            "get_run without `run_id` lists the newest runs",
        )


class RunElsewhere(QkMcpError):
    """A run belongs to another server, which alone can stop it."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"the run {run_id!r} cannot be stopped here",
            "Another server runs it.",
            f"ask the user to run: qk-mcp runs stop {run_id}",
        )


class RunOnOtherMachine(QkMcpError):
    """A run is on another machine, to which this command knows no way; `there` is its id over there."""

    def __init__(self, run_id: str, root: str, there: str = "") -> None:
        super().__init__(
            f"the run {run_id} is on another machine",
            f"Its root is {root}.",
            f"use `qk-mcp runs` over there{f', where its id is {there}' if there else ''}",
        )


class OutputUnreadable(QkMcpError):
    """The files of a run cannot be read."""

    def __init__(self, run_id: str, error: OSError) -> None:
        super().__init__(
            f"the output of the run {run_id!r} cannot be read",
            f"{error.filename}: {error.strerror}." if error.filename else f"{error}.",
            "old outputs are removed; run the task again",
        )


class RunTimedOut(QkMcpError):
    """A task reached its timeout while it ran (`began`), or before it could start.

    `queued`: while it waited for its turn to start.
    """

    def __init__(
        self,
        task: str,
        timeout: float,
        output: str,
        *,
        began: bool,
        queued: bool = False,
        waited_for: str = "",
        survivors: str = "",
    ) -> None:
        waits = "it waited for other runs to start" if queued else "its project was still loading"
        end = f"these of its processes cannot be killed: {survivors}" if survivors else "with all its child processes"
        super().__init__(
            f"task {task!r} ran longer than its timeout of {timeout:g} s; it was stopped"
            f"{', but ' if survivors else ' '}{end}"
            if began
            else f"task {task!r} did not start within its timeout of {timeout:g} s: {waits}",
            f"It {waited_for}, then waited. Tasks have no terminal." if waited_for else "",
            "pass the answer as `stdin`, or run the task in a way that does not ask"
            if waited_for
            else "run fewer tasks at a time, or pass a larger `timeout`"
            if queued
            else "pass a larger `timeout` if it needs longer",
            details=output,
        )
        self.slow = began and not waited_for


class RunStopped(QkMcpError):
    """Somebody stopped a run; `by` says who. `survivors` names processes that cannot be killed."""

    def __init__(self, task: str, by: str, output: str = "", *, survivors: str = "") -> None:
        self.by = by
        super().__init__(
            f"the run of task {task!r} was stopped: {by}",
            f"These of its processes cannot be killed: {survivors}." if survivors else "",
            details=output,
        )


class TaskBusy(QkMcpError):
    """A task of which only one run may be under way did not begin, because another run, `other`, has not ended."""

    def __init__(self, task: str, timeout: float, other: str) -> None:
        super().__init__(
            f"task {task!r} did not start within its timeout of {timeout:g} s: it is running already",
            f"Only one run of it may be under way (`exclusive`), and this one is: {other}.",
            "wait for the end of that run, or pass a larger `timeout`",
        )


class LockUnusable(QkMcpError):
    """The lock file of a task cannot be used."""

    def __init__(self, task: str, file: Path, error: OSError) -> None:
        super().__init__(
            f"task {task!r} did not start, because nothing can keep it from running twice at a time (`exclusive`)",
            f"The lock file {file} cannot be used: {error.strerror or error}.",
            "make its directory writable, on a file system that has locks",
        )


class RunLost(QkMcpError):
    """The end of a task is unknown because its supervisor was killed. `began`: the task is known to have begun.

    `survivors` names processes that cannot be killed.
    """

    def __init__(self, task: str, output: str, *, began: bool, survivors: str = "") -> None:
        self.began = began
        stopped = (
            f"These of its processes cannot be killed: {survivors}."
            if survivors
            else "Every process of the task that could be found was stopped."
        )
        super().__init__(
            f"the run of task {task!r} was lost: the process that supervised it was killed",
            f"{stopped} The exit code is unknown.",
            "check whether the machine ran out of memory, then run the task again",
            details=output,
        )


class SearchFailed(QkMcpError):
    """Lines could not be searched for a regular expression within `seconds`, or at all because of `error`."""

    def __init__(self, parameter: str, pattern: str, seconds: float | None, error: Exception | None = None) -> None:
        super().__init__(
            f"parameter {parameter!r}: the search for {pattern!r} "
            + (f"took longer than {seconds:.0f} s" if seconds else "could not be started"),
            f"{type(error).__name__}: {error}" if error else "Nested repetitions such as (a+)+ take very long.",
            "use a simpler expression, or read the output file yourself",
        )


class GuestFailed(QkMcpError):
    """The project's interpreter could not be started."""

    def __init__(self, alias: str, python: str, error: Exception) -> None:
        super().__init__(
            f"project {alias!r}: cannot start its interpreter {python}",
            f"{type(error).__name__}: {error}",
            "run that interpreter by hand to see why; `qk-mcp inspect` shows how it was chosen",
        )


class OutOfProcesses(QkMcpError):
    """The system starts no more processes or threads for this user."""

    def __init__(self, why: str, alias: str = "") -> None:
        super().__init__(
            f"{_of(alias)}no process can be started",
            f"{why}: the limit of this user or this machine is reached.",
            "end processes that are not needed, or raise the limit (ulimit -u), then try again",
        )


class TemporaryDirectoryUnusable(QkMcpError):
    """The file for a description cannot be made."""

    def __init__(self, alias: str, error: OSError) -> None:
        super().__init__(
            f"project {alias!r}: cannot make a file in the temporary directory, where its description goes",
            f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "") + ".",
            "free space there, or set TMPDIR to a directory that you may write to and restart the server",
        )


class ServerOutdated(QkMcpError):
    """The files of this program have gone since it was started: an upgrade, a removed environment."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            "qk-mcp was upgraded or removed while this server runs",
            f"{missing} no longer exists.",
            "restart the server: reconnect it in the client",
        )


class NoInterpreter(QkMcpError):
    """No Python that has quickie was found for a project: `tried` says why each place was passed over."""

    def __init__(self, alias: str, tried: Sequence[str], absent: Sequence[str], hint: str) -> None:
        why = [*tried, *([f"not there: {', '.join(absent)}"] if absent else [])]
        super().__init__(f"project {alias!r}: no Python that has quickie was found", "\n".join(why), hint)


class QuickieTooOld(QkMcpError):
    """The first quickie that was found for a project is older than what can be asked for its tasks."""

    def __init__(self, alias: str, found: str, needed: str, where: str, hint: str) -> None:
        super().__init__(
            f"project {alias!r}: its quickie is {found}, and quickie {needed} or later is needed",
            f"It was found in {where}.",
            hint,
        )


class InvalidVariable(QkMcpError):
    """The `env` of a project sets a variable that no process can have."""

    def __init__(self, alias: str, name: str, why: str) -> None:
        super().__init__(
            f"project {alias!r}: the variable {name!r} of its `env` cannot be set", why, "fix it in the config"
        )


_NAME_RULE = "a name is 1 to 64 printable characters without : / \\, not starting with -, without blanks at its ends"


class InvalidName(UsageError):
    """A text that cannot be a project's name."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name!r} cannot be a project's name: {why}", hint=_NAME_RULE)


class InvalidDeclaration(UsageError):
    """A declaration that is not NAME:PATH."""

    def __init__(self, text: str, why: str, example: str) -> None:
        super().__init__(f"{text!r} is not NAME:PATH: {why}", hint=f"write it like {example}")


class NoDirectory(UsageError):
    """A relative path without a usable current directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"cannot resolve the relative path {path!r}",
            "The current directory was deleted or is not readable.",
            "give an absolute path",
        )


class PathMissing(QkMcpError):
    """A project's path does not exist, or cannot be examined because of `reason`."""

    def __init__(
        self,
        alias: str,
        path: Path,
        origin: str,
        near: Sequence[Path],
        unset: str | None,
        reason: str = "",
    ) -> None:
        trouble = f"cannot examine {path}: {reason}" if reason else f"there is no {path}"
        if unset:
            hint = f"the variable {unset} is not set; write the path without it"
        elif near:
            hint = f"did you mean {_either(map(str, near))}?"
        else:
            hint = "correct the path, or remove the project" if origin else "correct the path"
        super().__init__(f"{_of(alias)}{trouble}", _declared(origin), hint)


class TasksNotFound(QkMcpError):
    """A project's path exists but contains no tasks module."""

    def __init__(self, alias: str, path: Path, why: str, near: Sequence[Path]) -> None:
        hint = (
            f"tasks are in {_either(map(str, near))}: use that path"
            if near
            else "give the _qk directory, the _qk.py file, or the directory that contains either"
        )
        super().__init__(f"{_of(alias)}no tasks at {path}", f"{why[0].upper()}{why[1:]}.", hint)


class UnknownProject(QkMcpError):
    """No project has that alias, or none contains that path."""

    def __init__(self, name: str, known: Sequence[str], near: Sequence[str], *, path: bool = False) -> None:
        super().__init__(
            f"no project contains the path {name!r}" if path else f"no project is named {name!r}",
            f"Projects: {', '.join(known)}." if known else "There are no projects.",
            f"did you mean {_either(map(repr, near))}?" if near else _NAME_ONE if known else _ADD_ONE,
        )


class PathNotServed(QkMcpError):
    """A path is in a tree that is not served; `declaration` is the NAME:PATH that would serve it."""

    def __init__(self, path: str, why: str, known: Sequence[str], declaration: str = "") -> None:
        from shlex import quote

        hint = f"pass one of these as `project`: {', '.join(known)}" if known else _ADD_ONE
        if declaration:
            hint = f"to serve it, ask the user to run: qk-mcp projects add {quote(declaration)}"
        super().__init__(f"no project is served for the path {path!r}", why, hint)


class WorktreeMissing(QkMcpError):
    """A project has no such worktree, or no tasks in it."""

    def __init__(self, alias: str, worktree: str, why: str, existing: Sequence[str]) -> None:
        hint = f"its worktrees: {', '.join(existing)}" if existing else "git worktree list shows its worktrees"
        super().__init__(f"project {alias!r} cannot run in the worktree {worktree!r}", why, hint)


class ProjectNeeded(QkMcpError):
    """The project must be named: there are several or none, and no default."""

    def __init__(self, known: Sequence[str]) -> None:
        if known:
            super().__init__("which project?", f"Projects: {', '.join(known)}.", "pass one of these names as `project`")
        else:
            super().__init__("there are no projects", hint=_ADD_ONE)


class ProjectNotNamed(QkMcpError):
    """The first word names no project, and there is no default project; `owners` have a task of that name."""

    def __init__(self, word: str, known: Sequence[str], near: Sequence[str], owners: Sequence[str] = ()) -> None:
        from shlex import join

        if owners:
            hint = f"write the project before its task: {_either(join([alias, word]) for alias in owners)}"
        else:
            hint = f"did you mean {_either(map(repr, near))}?" if near else "write the project before the task"
        super().__init__(
            f"no project is named {word!r}, and there is no default project",
            f"Projects: {', '.join(known)}.",
            hint,
        )


_NAME_ONE = "pass one of these names"
_ADD_ONE = "`qk-mcp projects add NAME:PATH` adds one"


class ConfigUnreadable(QkMcpError):
    """The config file cannot be read."""

    def __init__(self, path: Path, why: str, hint: str) -> None:
        super().__init__(f"cannot read the config {path}", why, hint)


class ConfigBroken(QkMcpError):
    """The config file is invalid; every fault is listed."""

    def __init__(self, path: Path, faults: Sequence[str]) -> None:
        super().__init__(f"the config {path} is broken", "\n".join(faults), "correct it by hand")


class RulesUnknown(QkMcpError):
    """A run is refused because the config that may forbid it cannot be read."""

    def __init__(self, failure: QkMcpError) -> None:
        super().__init__(
            f"no task can run now: {failure.what}",
            f"{failure.why}\nIt may have rules for agents, which are unknown." if failure.why else "",
            "ask the user to correct it; the next call reads it again",
        )


class TaskRefused(QkMcpError):
    """The user's rules keep agents from running a task; `command` is for the user, and runs in `root`."""

    def __init__(self, alias: str, task: str, rule: str, command: str, root: Path) -> None:
        super().__init__(
            f"{task!r} is not allowed for agents in {alias!r} ({rule}).",
            f"Ask the user to run: {command}",
            f"the user runs it in {root}",
        )


class NotConfirmed(QkMcpError):
    """A task that needs a person's consent does not run; `why` says what came instead of it."""

    def __init__(self, alias: str, task: str, rule: str, why: str, command: str, root: Path) -> None:
        super().__init__(
            f"{task!r} in {alias!r} needs a person's consent to each run ({rule}), and got none: {why}.",
            f"Ask the user to run: {command}",
            f"the user runs it in {root}",
        )


class ConfigNotWritten(QkMcpError):
    """The config file could not be written; it has not changed."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"cannot write the config {path}",
            f"{why[0].upper()}{why[1:]}; the file has not changed.",
            "make it writable, or name another file with --config",
        )


class InvalidSetting(UsageError):
    """A setting of a project cannot be changed like that; `choices` are the right words."""

    def __init__(self, key: str, why: str, choices: Sequence[str] = ()) -> None:
        hint = f"choose from {', '.join(choices)}" if len(choices) > 3 else ""
        super().__init__(
            f"setting {key!r}: {why}", hint=hint or (f"did you mean {_either(choices)}?" if choices else "")
        )


class EditRefused(QkMcpError):
    """Only a person should make this edit of the config file; it has not changed."""

    def __init__(self, path: Path, why: str, by_hand: str) -> None:
        super().__init__(f"the config {path} was not changed", why, by_hand)


class NameTaken(QkMcpError):
    """The config already has a project of that name at another path, or one whose name differs only by case."""

    def __init__(self, alias: str, taken: str, path: str) -> None:
        if alias == taken:
            super().__init__(
                f"there is already a project named {alias!r}",
                f"Its path is {path}.",
                "choose another name, or replace it with --force",
            )
        else:
            super().__init__(
                f"there is already a project named {taken!r}, which differs from {alias!r} only by case",
                f"Its path is {path}.",
                f"choose another name, or remove that one first: qk-mcp projects remove {taken}",
            )


class NoConfig(QkMcpError):
    """There is no place for the user's config."""

    def __init__(self) -> None:
        super().__init__(
            "there is no place for your config",
            "This user has no home directory.",
            "set HOME or XDG_CONFIG_HOME, or name a file with --config FILE",
        )


class NoHome(QkMcpError):
    """The user has no home directory, where clients keep their files."""

    def __init__(self) -> None:
        super().__init__(
            "this user has no home directory, where clients keep their files",
            hint="set HOME to an absolute path",
        )


class UnknownRun(QkMcpError):
    """No recorded run, or more than one, has an id that begins with `prefix`; `near` describes those that do."""

    def __init__(self, prefix: str, near: Sequence[str]) -> None:
        if near:
            super().__init__(
                f"several runs begin with {prefix!r}", "\n".join(near), "write as many characters as it takes"
            )
        else:
            super().__init__(
                f"no recorded run begins with {prefix!r}",
                "Runs are recorded for seven days.",
                "`qk-mcp runs` lists them",
            )


class RunNotStopped(QkMcpError):
    """`qk-mcp runs stop` cannot stop a run."""

    def __init__(self, run: str, why: str, hint: str = "") -> None:
        super().__init__(f"cannot stop the run {run}", why, hint)


class UnknownClient(UsageError):
    """No MCP client is known by that name."""

    def __init__(self, name: str, known: Sequence[str], near: Sequence[str]) -> None:
        if near:
            hint = f"did you mean {_either(near)}?"
        elif name:
            hint = "add any other client by hand: `qk-mcp install cursor` shows the command of the server"
        else:
            hint = "name one of them"
        what = f"no client is known as {name!r}" if name else "which client?"
        super().__init__(what, f"Clients: {', '.join(known)}.", hint)


class EntryTaken(QkMcpError):
    """A client has another server of that name."""

    def __init__(self, title: str, name: str, file: Path, present: str, new: str) -> None:
        super().__init__(
            f"{title} has another server named {name!r}",
            f"It is in {file}.\npresent: {present}\nnew:     {new}",
            "replace it with --force, or choose another name with --name",
        )


class EntryMissing(QkMcpError):
    """A client has no server of that name."""

    def __init__(self, title: str, name: str, file: Path, ours: Sequence[str]) -> None:
        super().__init__(
            f"{title} has no server named {name!r}",
            f"Its servers are in {file}.",
            f"did you mean --name {_either(ours)}?" if ours else "nothing to do: none of its servers is qk-mcp",
        )


class EntryNotOurs(QkMcpError):
    """The server of that name is not qk-mcp."""

    def __init__(self, title: str, name: str, file: Path, present: str) -> None:
        super().__init__(
            f"the server {name!r} of {title} is not qk-mcp",
            f"It is in {file}.\npresent: {present}",
            "remove it by hand if you want to",
        )


class NoSharedFile(UsageError):
    """A client has no file that belongs to a project."""

    def __init__(self, title: str, others: Sequence[str]) -> None:
        super().__init__(
            f"{title} has no file for a single project",
            f"These clients have one: {', '.join(others)}.",
            "leave --scope out to write the entry into your own file",
        )


class NoProjectHere(QkMcpError):
    """The current directory belongs to no project with tasks."""

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"there is no project at {directory}",
            "Neither it nor a directory above it has a _qk.",
            "run this in the project's root, or name a project below this directory: --project NAME:PATH",
        )


class NotShareable(UsageError):
    """An entry for everybody would contain a path of one person."""

    def __init__(self, kind: str, path: str, hint: str) -> None:
        super().__init__(
            f"{kind} at {path} cannot be in a file that others share", "They may not have it at that place.", hint
        )


class ClientFileUnreadable(QkMcpError):
    """A client's file cannot be read."""

    def __init__(self, title: str, file: Path, why: str) -> None:
        super().__init__(f"cannot read {title}'s {file}", f"{why[0].upper()}{why[1:]}.", "fix it, then try again")


class ClientFileKept(QkMcpError):
    """A client's file was not changed."""

    def __init__(self, title: str, file: Path, why: str, by_hand: str) -> None:
        super().__init__(f"{title}'s {file} was not changed", f"{why[0].upper()}{why[1:]}.", by_hand)


class ClientCommandFailed(QkMcpError):
    """A client's own command failed."""

    def __init__(self, command: str, how: str, output: str, hint: str) -> None:
        super().__init__(f"the client's own command {how}: {command}", output, hint)


class ServerFailed(QkMcpError):
    """A server that qk-mcp started does not work; `fault` says how."""

    def __init__(self, fault: str, answer: str) -> None:
        super().__init__(f"the server does not work: {fault}", answer, "`qk-mcp serve -vv` shows what it does")
        self.fault = fault


class UnknownShell(UsageError):
    """There is no completion for that shell, or the shell is unknown."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no completion for the shell {name!r}" if name else "which shell?",
            f"Shells: {', '.join(known)}.",
            f"name one of them: qk-mcp --install-completion {known[0]}",
        )


class LogUnusable(UsageError):
    """The log file cannot be opened."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"cannot write the log file {path}", why, "name a file that you may write with --log-file")


def _of(alias: str) -> str:
    return f"project {alias!r}: " if alias else ""  # not every path has a name yet


def _declared(origin: str) -> str:
    return f"Declared by {origin}." if origin else ""


def _either(options: Iterable[str]) -> str:
    *some, last = options
    return f"{', '.join(some)} or {last}" if some else last


class CannotListen(QkMcpError):
    """The server cannot listen at an address."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(
            f"cannot listen at {address}", f"{why}.", "choose another address with --http, or end what uses it"
        )


class TokenUnusable(QkMcpError):
    """The file with the bearer token cannot be used."""

    def __init__(self, path: Path, why: str, hint: str) -> None:
        super().__init__(f"cannot use the token in {path}", why, hint)


class IssuerUnusable(QkMcpError):
    """The description of an identity provider cannot be used."""

    def __init__(self, issuer: str, why: str) -> None:
        super().__init__(
            f"cannot use the identity provider {issuer}",
            why,
            "check --auth-issuer: it must be exactly the `iss` of its tokens, and reachable from here",
        )


class RemoteFailed(QkMcpError):
    """The server of a remote project cannot be reached, or the connection to it broke."""

    def __init__(self, alias: str, place: str, why: str, hint: str, stderr: str) -> None:
        super().__init__(f"cannot use the project {alias!r} on {place}", f"{why}.", hint, stderr)


class RemoteRefused(QkMcpError):
    """The server of a remote project answered with an error, which is passed on."""

    def __init__(self, message: str) -> None:
        what, _, rest = message.partition("\n")
        super().__init__(what, details=rest)


class ProjectElsewhere(QkMcpError):
    """A project that is not on this machine is needed as files."""

    def __init__(self, alias: str, place: str) -> None:
        super().__init__(f"the project {alias!r} is on {place}, not on this machine", "Its files cannot be looked at.")


class NoUrlEntry(QkMcpError):
    """The client's file cannot name a server over HTTP."""

    def __init__(self, title: str, others: Sequence[str]) -> None:
        hint = f"these can: {', '.join(others)}"
        super().__init__(f"the file of {title} cannot have a server with a URL", "It starts servers as commands.", hint)
