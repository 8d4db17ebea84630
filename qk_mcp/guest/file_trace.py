"""Records which files a description depends on, so that it can be cached until one of them changes.

While the project is loaded and described, this records each file that is opened
or examined, each directory that is listed, and each path that does not exist,
with its state before the first access. An audit hook (PEP 578) reports opened
files and listed directories; `os.stat` and similar functions raise no audit event
and are wrapped. A subprocess or a socket makes the project uncacheable, because
what it depends on is unknown. The server itself uses only `unchanged`.
"""

import os
import stat
import sys
import time
from typing import Any

from .file_calls import report_calls, report_forks

__all__ = ["FileTrace", "start_trace", "unchanged"]

_MAX_PATHS = 20_000
"""Paths recorded at most; comparing more before each answer would take too long."""
_RESOLUTION = 50_000_000
"""Nanoseconds within which a file system may give two changes the same time."""
_COARSE_RESOLUTION = 2_000_000_000
"""The same for file systems without fractions of a second; also the time that an interpreter may take to start."""
_OUTSIDE = {
    "os.exec": "a program",
    "os.fork": "a child process",
    "os.forkpty": "a child process",
    "os.posix_spawn": "a program",
    "os.spawn": "a program",
    "os.system": "a program",
    "pty.spawn": "a program",
    "socket.bind": "a socket",
    "socket.connect": "a socket",
    "socket.getaddrinfo": "the network",
    "socket.gethostbyaddr": "the network",
    "socket.gethostbyname": "the network",
    "socket.sendmsg": "a socket",
    "socket.sendto": "a socket",
    "sqlite3.connect": "a database",
    "subprocess.Popen": "a program",
    "urllib.Request": "the network",
}
"""Audit events that make a project uncacheable, and what the project uses then."""
_VIRTUAL = ("/dev/fd", "/dev/std", "/proc/", "/sys/")
_CWD = "/proc/self/cwd/"
_DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def _state(result: os.stat_result, *, whole: bool) -> "list[int]":
    """Return device, inode and mode, and for a file or link (for anything, if `whole`) also size and times."""
    identity = [result.st_dev, result.st_ino, result.st_mode]
    kind = stat.S_IFMT(result.st_mode)
    if whole or kind in (stat.S_IFREG, stat.S_IFLNK):
        # ctime cannot be set back, so it reveals an edit that keeps size and mtime.
        return [*identity, result.st_size, result.st_mtime_ns, result.st_ctime_ns]
    return identity


def unchanged(report: "dict[str, Any]") -> bool:
    """Return whether each path in the report of a `FileTrace` is in its recorded state."""
    for kind, look, whole in (("examined", os.stat, False), ("listed", os.stat, True), ("links", os.lstat, False)):
        for path, state in report[kind].items():
            try:
                now = _state(look(path), whole=whole)
            except (OSError, ValueError):
                now = None
            if now != state:
                return False
    return True


class FileTrace:
    """The paths recorded so far, by kind of access."""

    def __init__(self, root: str, began: int) -> None:
        self.examined: dict[str, list[int] | None] = {}
        self.listed: dict[str, list[int] | None] = {}
        self.links: dict[str, list[int] | None] = {}
        self.uncacheable = ""
        self.settled = True
        self._root = os.path.join(root, "")
        self._began = began
        self._stat, self._lstat, self._listdir = os.stat, os.lstat, os.listdir

    def report(self) -> "dict[str, Any]":
        """Return the argument of `unchanged`.

        `uncacheable` names what makes the project uncacheable, or is empty. `settled` is false if a file changed so
        recently that another change might keep its times; the description must not be cached then.
        """
        return {  # copies, because a thread of the module may still add paths
            "examined": dict(self.examined),
            "listed": dict(self.listed),
            "links": dict(self.links),
            "settled": self.settled,
            "uncacheable": self.uncacheable
            or ("more files than can be compared" if len(self.examined) > _MAX_PATHS else ""),
        }

    def give_up(self, reason: str) -> None:
        """Make the project uncacheable, because of something that cannot be traced."""
        self.uncacheable = self.uncacheable or reason

    def examine(self, path: Any, *, entry: bool = False) -> None:
        """Record what `os.stat` returns, and the times of a directory in the project unless it is a mere `entry`."""
        absolute = _absolute(path)
        if absolute is None:
            return
        if absolute not in self.examined:
            if len(self.examined) > _MAX_PATHS:
                return
            self.examined[absolute] = self._record(self._stat, absolute, whole=False)
        state = self.examined[absolute]
        own = os.path.join(absolute, "").startswith(self._root)
        if own and not entry and state is not None and stat.S_ISDIR(state[2]):
            self.record_listing(absolute)

    def examine_link(self, path: Any) -> None:
        """Record what `os.lstat` returns."""
        absolute = _absolute(path)
        if absolute is not None and absolute not in self.links:
            self.links[absolute] = self._record(self._lstat, absolute, whole=False)

    def record_listing(self, path: Any) -> None:
        """Record a directory whose entries are listed."""
        absolute = _absolute(path)
        if absolute is not None and absolute not in self.listed:
            self.listed[absolute] = self._record(self._stat, absolute, whole=True)

    def record_scan(self, path: Any) -> None:
        """Record a directory and all its entries, because the methods of `os.DirEntry` raise no audit event."""
        self.record_listing(path)
        try:
            names = self._listdir(path)
        except (OSError, ValueError):
            return
        for name in names[: _MAX_PATHS + 1]:
            self.examine(os.path.join(path, name), entry=True)

    def environment(self) -> None:
        """Record what was read before the audit hook: the interpreter, its paths, and the imported modules."""
        read = []
        for path in sys.path:
            self.record_listing(path)
            try:
                read += [os.path.join(path, name) for name in self._listdir(path) if name.endswith(".pth")]
            except OSError:
                continue  # not a directory; `record_listing` has recorded that it is missing or a file
        standard = os.path.join(os.path.dirname(os.__file__), "")
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or file.startswith(_DIRECTORY):
                continue
            if not file.startswith(standard) or "site-packages" in file:
                read.append(file)
        for path in read:
            self.examine(path)
            state = self.examined.get(path)
            if state is None or state[-1] > self._began - _COARSE_RESOLUTION:
                self.settled = False  # it may have changed after it was read
        user_site = getattr(sys.modules.get("site"), "USER_SITE", None)  # joins the path once it exists
        for other in (sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"), user_site):
            self.examine(other)

    def _record(self, look: Any, absolute: str, *, whole: bool) -> "list[int] | None":
        try:
            state = _state(look(absolute), whole=whole)
        except (OSError, ValueError):
            return None
        if len(state) > 3:
            changed = state[-1]
            resolution = _RESOLUTION if changed % 1_000_000_000 else _COARSE_RESOLUTION
            if changed > time.time_ns() - resolution:
                self.settled = False
        return state

    def on_event(self, event: str, arguments: "tuple[Any, ...]") -> None:
        """Handle an audit event (Python's "Audit events table"); an exception here would make the audited call fail."""
        if event == "open":
            path, mode, flags = arguments
            if _reads(mode, flags):
                self.examine(path)
        elif event in ("os.listdir", "os.scandir"):
            (path,) = arguments
            if isinstance(path, int):
                self.give_up("a directory by its descriptor")
            elif event == "os.scandir":
                self.record_scan(os.curdir if path is None else path)
            else:
                self.record_listing(os.curdir if path is None else path)
        elif event in _OUTSIDE:
            self.give_up(_OUTSIDE[event])


def start_trace(root: str, began: int) -> FileTrace:
    """Start to record; `began` is when the interpreter began to import, in nanoseconds since the epoch."""
    trace = FileTrace(root, began)
    trace.environment()
    sys.path_importer_cache.clear()  # so that imports list the directories on the path again
    reports = {
        "stat": trace.examine,
        "access": trace.examine,
        "lstat": trace.examine_link,
        "readlink": trace.examine_link,
        "open": None,  # it is audited, but without `dir_fd`
    }
    report_calls(reports, trace.examine_link, trace.give_up, ignored=(trace, vars(trace)))
    report_forks(trace.give_up)
    sys.addaudithook(trace.on_event)
    return trace


def _absolute(path: Any) -> "str | None":
    """Return the absolute path, with `..` kept because it may follow a link; None for a path that is not compared."""
    if isinstance(path, int):
        return None
    try:
        absolute = os.fsdecode(path)
        absolute = absolute.removeprefix(_CWD)
        if not absolute.startswith("/"):
            absolute = os.path.join(os.getcwd(), absolute)
    except (OSError, TypeError, ValueError):
        return None
    # Other processes may write bytecode at any time, and it only depends on its source.
    return None if absolute.startswith(_VIRTUAL) or "/__pycache__" in absolute else absolute


def _reads(mode: Any, flags: Any) -> bool:
    """Return whether a file opened with this mode or these flags can be read."""
    if isinstance(mode, str):
        return not mode.startswith(("w", "a")) or "+" in mode
    return not isinstance(flags, int) or flags & os.O_ACCMODE != os.O_WRONLY
