"""Notes what a description depends on in the file system, so that it is known when it holds no longer.

From the start of loading to the last help text, every file that is opened or
looked at, every directory that is listed, and what is looked for and missed, is
noted with its state at first sight, before it is read. An audit hook sees what is
opened and listed (PEP 578); `os.stat` and its like raise no audit event and are
wrapped. What this cannot see, a subprocess or a socket, makes the project
uncacheable. The server compares with `unchanged`, the only part that it uses.
"""

import os
import stat
import sys
import time
from typing import Any

__all__ = ["Footprint", "start", "unchanged"]

_MOST = 20_000
"""Places noted at most; more would take too long to compare before each answer."""
_GRAIN = 50_000_000
"""Nanoseconds within which a file system may give two changes the same time."""
_COARSE_GRAIN = 2_000_000_000
"""The same where times have no fraction of a second; also the time that an interpreter may take to start."""
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
"""Audit events of what no file tells, and what each uses."""
_NOT_FILES = ("/dev/fd", "/dev/std", "/proc/", "/sys/")
_CWD = "/proc/self/cwd/"
_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def _state(result: os.stat_result, *, whole: bool) -> "list[int]":
    """Identity, and for what is no directory (or for all, if `whole`) size and times."""
    identity = [result.st_dev, result.st_ino, result.st_mode]
    kind = stat.S_IFMT(result.st_mode)
    if whole or kind in (stat.S_IFREG, stat.S_IFLNK):
        # The time of a change (ctime) cannot be set back: it tells of an edit that keeps size and time.
        return [*identity, result.st_size, result.st_mtime_ns, result.st_ctime_ns]
    return identity


def unchanged(report: "dict[str, Any]") -> bool:
    """Whether every place in the report of a `Footprint` is as it was."""
    for kind, look, whole in (("looked", os.stat, False), ("listed", os.stat, True), ("links", os.lstat, False)):
        for path, state in report[kind].items():
            try:
                now = _state(look(path), whole=whole)
            except (OSError, ValueError):
                now = None
            if now != state:
                return False
    return True


class Footprint:
    """The places noted so far, by the way they were seen."""

    def __init__(self, root: str, began: int) -> None:
        self.looked: dict[str, list[int] | None] = {}
        self.listed: dict[str, list[int] | None] = {}
        self.links: dict[str, list[int] | None] = {}
        self.why = ""
        self.settled = True
        self._root = os.path.join(root, "")
        self._began = began
        self._stat, self._lstat, self._listdir = os.stat, os.lstat, os.listdir

    def report(self) -> "dict[str, Any]":
        """Return what `unchanged` compares, and whether it may be relied on.

        `uncacheable` says what makes the project uncacheable. Without `settled`, something was changed so
        lately that a further change might go unseen: the next description will know.
        """
        return {  # copies, for a thread of the module may still be looking
            "looked": dict(self.looked),
            "listed": dict(self.listed),
            "links": dict(self.links),
            "settled": self.settled,
            "uncacheable": self.why or ("more files than can be compared" if len(self.looked) > _MOST else ""),
        }

    def look(self, path: Any, *, entry: bool = False) -> None:
        """Note what `os.stat` shows; of a directory its times, too, if it is the project's."""
        place = _place(path)
        if place is None:
            return
        if place not in self.looked:
            if len(self.looked) > _MOST:
                return
            self.looked[place] = self._note(self._stat, place, whole=False)
        state = self.looked[place]
        own = os.path.join(place, "").startswith(self._root)
        if own and not entry and state is not None and stat.S_ISDIR(state[2]):
            self.browse(place)

    def link(self, path: Any) -> None:
        """Note what `os.lstat` shows."""
        place = _place(path)
        if place is not None and place not in self.links:
            self.links[place] = self._note(self._lstat, place, whole=False)

    def browse(self, path: Any) -> None:
        """Note a directory whose entries are asked for."""
        place = _place(path)
        if place is not None and place not in self.listed:
            self.listed[place] = self._note(self._stat, place, whole=True)

    def scan(self, path: Any) -> None:
        """Note a directory with its entries: `os.DirEntry` looks at them unseen."""
        self.browse(path)
        try:
            names = self._listdir(path)
        except (OSError, ValueError):
            return
        for name in names[: _MOST + 1]:
            self.look(os.path.join(path, name), entry=True)

    def environment(self) -> None:
        """Note what was read before the hook was there: the interpreter, its paths, and the modules it has imported."""
        read = []
        for path in sys.path:
            self.browse(path)
            try:
                read += [os.path.join(path, name) for name in self._listdir(path) if name.endswith(".pth")]
            except OSError:
                continue  # a path that is not there is noted as such, and a zip file as what it is
        standard = os.path.join(os.path.dirname(os.__file__), "")
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or file.startswith(_HERE):
                continue
            if not file.startswith(standard) or "site-packages" in file:
                read.append(file)
        for path in read:
            self.look(path)
            state = self.looked.get(path)
            if state is None or state[-1] > self._began - _COARSE_GRAIN:
                self.settled = False  # changed since it was read, perhaps
        user_site = getattr(sys.modules.get("site"), "USER_SITE", None)  # on the path once it exists
        for other in (sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"), user_site):
            self.look(other)

    def _note(self, look: Any, place: str, *, whole: bool) -> "list[int] | None":
        try:
            state = _state(look(place), whole=whole)
        except (OSError, ValueError):
            return None
        if len(state) > 3:
            changed = state[-1]
            grain = _GRAIN if changed % 1_000_000_000 else _COARSE_GRAIN
            if changed > time.time_ns() - grain:
                self.settled = False
        return state

    def hear(self, event: str, arguments: "tuple[Any, ...]") -> None:
        """The audit hook, for events of Python's "Audit events table"; if it raised, the audited call would fail."""
        if event == "open":
            path, mode, flags = arguments
            if _reads(mode, flags):
                self.look(path)
        elif event in ("os.listdir", "os.scandir"):
            (path,) = arguments
            if isinstance(path, int):
                self.why = self.why or "a directory by its descriptor"
            elif event == "os.scandir":
                self.scan(os.curdir if path is None else path)
            else:
                self.browse(os.curdir if path is None else path)
        elif event in _OUTSIDE:
            self.why = self.why or _OUTSIDE[event]


def start(root: str, began: int) -> Footprint:
    """Begin to note; `root` is the project's, and `began` when (in ns) the interpreter began to import."""
    footprint = Footprint(root, began)
    footprint.environment()
    sys.path_importer_cache.clear()  # so that the directories on the path are listed anew, and seen
    for name, note in (
        ("stat", footprint.look),
        ("access", footprint.look),
        ("lstat", footprint.link),
        ("readlink", footprint.link),
        ("open", None),  # it is audited, but not the directory that its path may be relative to
    ):
        _wrap(name, note, footprint)
    _watch_forks(footprint)
    sys.addaudithook(footprint.hear)
    return footprint


def _wrap(name: str, note: Any, footprint: Footprint) -> None:
    import posix

    usual = getattr(os, name)

    def noting(path: Any, *args: Any, **options: Any) -> Any:
        if options.get("dir_fd") is not None:
            footprint.why = footprint.why or "a directory by its descriptor"
        elif note is None:
            pass
        elif options.get("follow_symlinks", True):
            note(path)
        else:
            footprint.link(path)
        return usual(path, *args, **options)

    noting.__name__ = name
    for supporting in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if usual in supporting:
            supporting.add(noting)
    setattr(os, name, noting)
    setattr(posix, name, noting)  # which Python's own import uses


def _watch_forks(footprint: Footprint) -> None:
    """Hear of the processes that `multiprocessing` starts: unlike those of `subprocess` they are not audited."""
    try:
        import _posixsubprocess
    except ImportError:
        return
    usual = _posixsubprocess.fork_exec

    def fork_exec(*args: Any) -> int:
        footprint.why = footprint.why or "a child process"
        return usual(*args)

    _posixsubprocess.fork_exec = fork_exec


def _place(path: Any) -> "str | None":
    """The absolute path, not normalised: `..` after a link leads elsewhere. None for what is not compared."""
    if isinstance(path, int):
        return None
    try:
        place = os.fsdecode(path)
        place = place.removeprefix(_CWD)
        if not place.startswith("/"):
            place = os.path.join(os.getcwd(), place)
    except (OSError, TypeError, ValueError):
        return None
    # Bytecode follows its source, and is written by others at any time.
    return None if place.startswith(_NOT_FILES) or "/__pycache__" in place else place


def _reads(mode: Any, flags: Any) -> bool:
    """Whether what is in the file, or that it is there, can matter to who opens it so."""
    if isinstance(mode, str):
        return not mode.startswith(("w", "a")) or "+" in mode
    return not isinstance(flags, int) or flags & os.O_ACCMODE != os.O_WRONLY
