"""Prints as JSON what quickie itself, 0.6.0 to 1.0.0, makes of the project in the current directory.

Without arguments: its description of the tasks, through its API. With a list of
command lines as JSON: the exit code, stdout and stderr of each, by its command.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

calls = [json.loads(calls) for calls in sys.argv[1:]]
sys.argv[:] = [os.path.join(os.path.dirname(sys.executable), "qk")]
sys.dont_write_bytecode = True

import quickie._cli  # noqa: E402
from quickie.config import app  # noqa: E402

try:
    # Since 0.10 it writes a cache into the project, and fails where that is a single file.
    from quickie._cache import TaskCache

    TaskCache.save = staticmethod(lambda *_: None)  # type: ignore[method-assign, unused-ignore]
except ImportError:
    pass


def schema(task: Any) -> Iterator[dict[str, Any]]:
    """What `Task._get_args_schema` returns in 1.0.0."""
    for action in task.parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        kind = getattr(action.type, "__name__", str(action.type)) if action.type is not None else None
        yield {
            "flags": list(action.option_strings) or [action.dest],
            "dest": action.dest,
            "type": kind or (None if action.option_strings else "str"),
            "default": None if action.default is argparse.SUPPRESS else action.default,
            "required": getattr(action, "required", False),
            "choices": list(action.choices) if action.choices else None,
            "help": action.help,
            "nargs": action.nargs,
        }


def info(task: Any) -> Any:
    """What `Task.to_info_dict` returns in 1.0.0."""
    if hasattr(task, "to_info_dict"):
        return task.to_info_dict(os.getcwd())
    return {
        "name": task.name,
        "aliases": [],
        "short_help": task.get_short_help(),
        "help": task.get_help(),
        "usage": task.parser.format_usage().strip(),
        "location": task._get_relative_file_location(os.getcwd()),
        "args_schema": list(schema(task)),
    }


def listing() -> list[Any]:
    """What `ListCommand._task_list_entries` returns in 1.0.0."""
    app.set_project_path(os.path.join(os.getcwd(), "_qk"))
    app.set_use_global(False)
    app.set_verbosity(0)
    app.load_tasks()
    grouped: dict[int, tuple[Any, list[str]]] = {}
    for name, task in app.tasks.items():
        grouped.setdefault(id(task), (task, []))[1].append(name)
    entries = []
    for task, names in grouped.values():
        entry = info(task)
        canonical = [name for name in names if name.endswith(f":{task.name}")]
        entry["name"] = task.name if task.name in names else min(canonical or names, key=lambda name: name.split(":"))
        entry["aliases"] = sorted(name for name in names if name != entry["name"])
        entries.append(entry)
    return sorted(entries, key=lambda entry: entry["name"])


def outcome(call: list[str]) -> list[Any]:
    """How the command ends, in a process of its own, and what it prints."""
    outputs = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
    child = os.fork()
    if child == 0:
        for descriptor, output in enumerate(outputs, 1):
            os.dup2(output.fileno(), descriptor)
        sys.argv[1:] = call
        try:
            quickie._cli.main()
        except SystemExit as end:
            code: Any = end.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        else:
            code = 0
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 255)
    _, status = os.waitpid(child, 0)
    texts = []
    for output in outputs:
        output.seek(0)
        texts.append(output.read().decode())
    return [os.waitstatus_to_exitcode(status), *texts]


print(json.dumps([outcome(call) for call in calls[0]] if calls else listing()))
