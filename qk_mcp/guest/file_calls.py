"""Reports calls of `os.stat` and similar functions, which raise no audit event.

Each function is replaced by one that reports the path first. Replacing it in `os`
is not enough: modules that are already imported may hold a reference of their own,
as `glob._StringGlobber.lstat` does in Python 3.13. Therefore the garbage collector
is asked for every reference, and each is replaced.
"""

import gc
import os
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
    replacements = []
    for name, report in reports.items():
        original = getattr(os, name)
        replacements.append((original, _reporting(original, report, report_link, give_up)))
    kept = {id(each) for each in ignored} | {id(replacements), *map(id, replacements)}
    for _, replacement in replacements:
        kept |= {id(cell) for cell in replacement.__closure__}
    gc.unfreeze()  # frozen objects are not searched
    try:
        for original, replacement in replacements:
            if not _replace(original, replacement, kept):
                give_up(f"a copy of os.{original.__name__}")
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


def _replace(old: Any, new: Any, kept: "set[int]") -> bool:
    """Replace every reference to `old`; return whether that was possible."""
    complete = True
    holders = gc.get_referrers(old)
    for holder in holders:
        if holder is not holders and id(holder) not in kept and not isinstance(holder, FrameType):
            complete = _replace_in(holder, old, new, kept | {id(holders)}) and complete
    return complete


def _replace_in(holder: Any, old: Any, new: Any, kept: "set[int]") -> bool:
    kind = type(holder)
    if kind is dict:
        names = [name for name, value in list(holder.items()) if value is old]
        class_ = _class_of(holder, names[0], old) if names else None
        for name in names:
            if class_ is None:
                holder[name] = new
            else:
                # A class caches its attributes. A Python function in it would become a method.
                setattr(class_, name, new if isinstance(new, staticmethod) else staticmethod(new))
        return bool(names)
    if kind is list:
        holder[:] = [new if value is old else value for value in holder]
    elif kind is set:  # such as os.supports_fd, where both belong
        holder.add(new)
    elif kind is CellType:
        holder.cell_contents = new
    elif kind is staticmethod:
        return _replace(holder, staticmethod(new), kept)
    else:
        return False
    return True


def _class_of(names: "dict[str, Any]", name: str, value: Any) -> "type | None":
    """Return the class whose attributes are in this dict, or None if it is not that of a class."""
    for owner in gc.get_referrers(names):
        if isinstance(owner, type) and vars(owner).get(name) is value:
            return owner
    return None


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
