"""Finds and kills the processes below the supervisor, which runs this.

What can be found depends on the system:
- Linux: the supervisor adopts orphans, so that all descendants stay below it.
- macOS, and Linux without ctypes: nobody adopts them. An orphan is found by an environment variable that is unique to
  the run and that children inherit. One that has another environment is not found.
- Linux without /proc: only the supervisor's own children are found, and orphans as soon as they are adopted.
"""

import os
import signal
import sys
import time

__all__ = ["kill_members", "members_of", "own_children"]


def members_of(mark: str) -> "list[int]":
    """Return the descendants of this process and, unless `mark` is empty, each process with it in its environment."""
    if not os.path.exists("/proc/self/stat"):
        return _members_by_ps(mark) if sys.platform != "linux" else _probed_children()
    tree = [os.getpid()]
    for pid in tree:  # which grows meanwhile
        tree += _children(pid)
    if mark:
        known = set(tree)
        tree += [pid for pid in _processes() if pid not in known and _has_mark(pid, mark)]
    return tree[1:]


def own_children() -> "list[int]":
    """Return the children of this process, which adopted orphans are."""
    if not os.path.exists("/proc/self/stat"):
        return _probed_children() if sys.platform == "linux" else []
    return _children(os.getpid())


def kill_members(mark: str, until: float) -> None:
    """Kill all members in one pass: hundreds may be nested, each in a session of its own.

    First suspends them until no new one appears, or until a monotonic time: a suspended process cannot fork. Children
    are killed before their parents, because an orphan that nobody adopts is hard to find.
    """
    seen: dict[int, None] = {}
    while time.monotonic() < until:
        new = [pid for pid in members_of(mark) if pid not in seen]
        if not new:
            break
        _signal(new, signal.SIGSTOP, mark)
        seen.update(dict.fromkeys(new))
    _signal([*seen][::-1], signal.SIGKILL, mark)


def _signal(pids: "list[int]", number: int, mark: str) -> None:
    direct = set(own_children())
    tree = {os.getpid(), *pids}
    for pid in pids:
        process = None
        try:
            if pid not in direct and hasattr(os, "pidfd_open"):
                process = os.pidfd_open(pid)
                if _parent(pid) in tree or (mark and _has_mark(pid, mark)):  # its id may have been reused
                    signal.pidfd_send_signal(process, number)
            else:  # only this process reaps its children, so that their ids cannot be reused
                os.kill(pid, number)
        except OSError:
            pass  # it has ended, or belongs to another user (setuid)
        finally:
            if process is not None:
                os.close(process)


def _children(pid: int) -> "list[int]":
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as listing:
                found += [int(child) for child in listing.read().split()]
        return found
    except OSError:
        pass  # the process has ended, or the kernel lacks this file
    if os.path.exists("/proc/thread-self/children"):
        return []
    return [each for each in _processes() if _parent(each) == pid]


def _processes() -> "list[int]":
    try:
        return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]
    except OSError:
        return []


def _parent(pid: int) -> int:
    """Return the parent of a process, or 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _has_mark(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return f"{mark}=".encode() in environ.read() and pid != os.getpid()
    except OSError:
        return False  # it has ended, or belongs to another user


def _members_by_ps(mark: str) -> "list[int]":
    """Return what `members_of` does, as macOS shows it: `-E` adds the environment to the command line."""
    import subprocess

    command = ["/bin/ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,command="]
    try:
        listing = subprocess.run(command, capture_output=True, check=False).stdout.decode("utf-8", "replace")
    except OSError:
        return []
    children: dict[int, list[int]] = {}
    marked = []
    for line in listing.splitlines():
        pid, parent, text = (*line.split(None, 2), "", "", "")[:3]
        if pid.isdecimal() and parent.isdecimal():
            children.setdefault(int(parent), []).append(int(pid))
            if mark and f"{mark}=" in text:
                marked.append(int(pid))
    tree = [os.getpid()]
    for member in tree:  # which grows meanwhile
        tree += children.get(member, ())
    return [*dict.fromkeys(tree[1:] + [pid for pid in marked if pid != tree[0]])]


def _probed_children() -> "list[int]":
    """Return the children of this process, found without /proc: `waitid(2)` refuses every id that is not a child's."""
    own = os.getpid()
    try:
        newest = os.fork()
    except OSError:
        newest = own  # no process can be started
    if newest == 0:
        os._exit(0)
    if newest != own:
        os.waitpid(newest, 0)
    ids = range(own + 1, newest) if newest > own else [*range(own + 1, 1 << 22), *range(2, newest)]
    found = []
    for pid in ids:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except OSError:
            continue
        found.append(pid)
    return found
