"""Reports calls of `os.stat` and similar functions, which raise no audit event.

Each function is replaced by one that reports the path first. Replacing it in `os`
is not enough: modules that are already imported may hold a reference of their own,
as `glob._StringGlobber.lstat` does in Python 3.13. Therefore the garbage collector
is asked for every reference, and each is replaced.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from types import CellType, FrameType
from typing import Any

__all__ = ["report_calls", "report_forks"]


def report_calls(
    reports: "Mapping[str, Callable[[Any], None] | None]",
    report_link: "Callable[[Any], None]",
    give_up: "Callable[[str], None]",
    ignored: "Iterable[object]",
) -> None:
    """Make each function of `os` that `reports` names call its report with the path first.

    `report_link` is called instead if the function does not follow links, and `give_up`, with a reason, if a path
    is relative to a descriptor or a reference cannot be replaced. The references of `ignored` objects stay.
    """
    replacements = {}
    for name, report in reports.items():
        original = getattr(os, name)
        replacements[id(original)] = original, _reporting(original, report, report_link, give_up)
    kept = {id(each) for each in ignored}
    for _, replacement in replacements.values():
        kept |= {id(cell) for cell in replacement.__closure__}
    gc.unfreeze()  # frozen objects are not searched
    try:
        if not _replace(replacements, kept):
            give_up("a copy of a function of os")
    finally:
        gc.freeze()


def _reporting(
    original: Any,
    report: "Callable[[Any], None] | None",
    report_link: "Callable[[Any], None]",
    give_up: "Callable[[str], None]",
) -> Any:
    def reporting(path: Any, *args: Any, **options: Any) -> Any:
        if options.get("dir_fd") is not None:
            give_up("a directory by its descriptor")
        elif report is None:
            pass
        elif options.get("follow_symlinks", True):
            report(path)
        else:
            report_link(path)
        return original(path, *args, **options)

    reporting.__name__ = original.__name__
    return reporting


def _replace(replacements: "dict[int, tuple[Any, Any]]", kept: "set[int]") -> bool:
    """Replace every reference to some objects, given with their replacements by id; return whether that was possible.

    Each search of the garbage collector takes milliseconds: there are as few as possible.
    """
    complete = True
    olds = tuple(old for old, _ in replacements.values())
    wrapped: dict[int, tuple[Any, Any]] = {}
    holders = gc.get_referrers(*olds)
    skipped = {*map(id, replacements.values())} | kept
    for holder in holders:
        kind = type(holder)
        if id(holder) in skipped or kind is FrameType or (kind is tuple and holder == olds):
            continue  # references of this module
        if kind is dict:
            complete = _replace_values(holder, replacements) and complete
        elif kind is list:
            holder[:] = [replacements[id(item)][1] if id(item) in replacements else item for item in holder]
        elif kind is set:  # such as os.supports_fd, where both belong
            holder |= {replacements[id(item)][1] for item in holder if id(item) in replacements}
        elif kind is CellType:
            holder.cell_contents = replacements[id(holder.cell_contents)][1]
        elif kind is staticmethod:
            wrapped[id(holder)] = holder, staticmethod(replacements[id(holder.__func__)][1])
        else:
            complete = False
    if wrapped:
        complete = _replace(wrapped, kept | {id(holders)}) and complete
    return complete


def _replace_values(names: "dict[str, Any]", replacements: "dict[int, tuple[Any, Any]]") -> bool:
    found = [(name, *replacements[id(value)]) for name, value in list(names.items()) if id(value) in replacements]
    module = sys.modules.get(str(names.get("__name__")))
    class_ = None
    if found and getattr(module, "__dict__", None) is not names:
        owners = [each for each in gc.get_referrers(names) if isinstance(each, type)]
        class_ = next((each for each in owners if vars(each).get(found[0][0]) is found[0][1]), None)
    for name, _, new in found:
        if class_ is None:
            names[name] = new
        else:
            # A class caches its attributes. A Python function in it would become a method.
            setattr(class_, name, new if isinstance(new, staticmethod) else staticmethod(new))
    return bool(found)


def report_forks(give_up: "Callable[[str], None]") -> None:
    """Call `give_up` when `multiprocessing` starts a process, which raises no audit event."""
    try:
        import _posixsubprocess
    except ImportError:
        return
    original = _posixsubprocess.fork_exec

    def fork_exec(*args: Any) -> int:
        give_up("a child process")
        return original(*args)

    _posixsubprocess.fork_exec = fork_exec
