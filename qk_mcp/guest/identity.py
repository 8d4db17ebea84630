"""What identifies a task for people and rules: all of its names, and the place of its definition."""

import os
import sys
from typing import Any

__all__ = ["definition_of", "group_names", "names_of"]

_UNWRAPPINGS = 100


def group_names(by_name: "dict[str, Any]") -> "list[tuple[Any, list[str]]]":
    """Return each task with its names, the principal one first."""
    tasks: dict[int, tuple[Any, list[str]]] = {}
    for name, task in by_name.items():
        tasks.setdefault(id(task), (task, []))[1].append(name)
    grouped = []
    for task, names in tasks.values():
        principal = _principal(task, names)
        grouped.append((task, [principal, *sorted(each for each in names if each != principal)]))
    return grouped


def names_of(task: Any, by_name: "dict[str, Any]") -> "list[str]":
    """Return the names of one task, the principal one first; its own name if another task has taken all of them."""
    groups = group_names({name: each for name, each in by_name.items() if each is task})
    return groups[0][1] if groups else [str(task.name)]


def _principal(task: Any, names: "list[str]") -> str:
    """Return the name that quickie's own listing chooses (`ListCommand._task_list_entries` in 1.0.0)."""
    own = getattr(task, "name", None)
    if own in names:
        return str(own)
    return min([each for each in names if each.endswith(f":{own}")] or names, key=lambda each: each.split(":"))


def definition_of(task: Any) -> "tuple[str | None, int | None]":
    """Return the file and line of the task's function or class; a callable object has none."""
    target = task.__wrapped__
    for _ in range(_UNWRAPPINGS):
        if hasattr(target, "__wrapped__"):
            target = target.__wrapped__
        elif hasattr(target, "func"):
            target = target.func  # functools.partial
        else:
            break
    target = getattr(target, "__func__", target)
    code = getattr(target, "__code__", None)
    if code is not None:
        return os.path.abspath(code.co_filename), code.co_firstlineno
    if isinstance(target, type):
        file = getattr(sys.modules.get(target.__module__), "__file__", None)
        if file:
            return os.path.abspath(file), _line_of_class(target)
    return None, None


def _line_of_class(class_: type) -> "int | None":
    line = class_.__dict__.get("__firstlineno__")  # Python 3.13
    if isinstance(line, int):
        return line
    import inspect

    try:
        return inspect.findsource(class_)[1] + 1
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
