"""A control group for one process tree: whatever a process of the tree does, it cannot leave, and one write kills all.

Only Linux has control groups (version 2, `cgroup.kill` since 5.14), and the server may create one only where its own
was delegated to it: to root, or to the user by a systemd session. Documented in the kernel's `cgroup-v2.rst`.
"""

import os

__all__ = ["create_cgroup", "kill_cgroup", "remove_cgroup", "remove_empty_cgroups"]

_PREFIX = "qk-mcp-"
_ATTEMPTS = 20
"""Times that processes are moved out of a group, because they may start others meanwhile."""


def create_cgroup(name: str, pid: int) -> "str | None":
    """Create a group below that of this process and move the process `pid` there. Returns its directory.

    Returns None where that is impossible.
    """
    own = _own_cgroup()
    if own is None:
        return None
    path = os.path.join(own, _PREFIX + name)
    try:
        os.mkdir(path)
    except OSError:
        return None  # it was not delegated
    try:
        if os.path.exists(os.path.join(path, "cgroup.kill")):
            _write(path, "cgroup.procs", str(pid))
            return path
    except OSError:
        pass  # a threaded group, or one whose parent belongs to another user
    remove_cgroup(path)
    return None


def kill_cgroup(path: str) -> None:
    """Kill every process in the group, whoever it belongs to."""
    try:
        _write(path, "cgroup.kill", "1")
    except OSError:
        pass  # it was removed


def remove_cgroup(path: str) -> None:
    """Move what is left in the group to that of its parent, and remove it.

    A group in which a task has created others, as container engines do, stays until its processes have ended.
    """
    parent = os.path.dirname(path)
    for _ in range(_ATTEMPTS):
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            pass  # a process is left
        try:
            with open(os.path.join(path, "cgroup.procs")) as processes:
                pids = processes.read().split()
        except OSError:
            return
        for pid in pids:
            try:
                _write(parent, "cgroup.procs", pid)
            except OSError:
                pass  # it has ended


def remove_empty_cgroups() -> None:
    """Remove the groups that killed supervisors left below that of this process, if their processes have ended."""
    own = _own_cgroup()
    if own is None:
        return
    try:
        names = [name for name in os.listdir(own) if name.startswith(_PREFIX)]
    except OSError:
        return
    for name in names:
        for directory, _, _ in os.walk(os.path.join(own, name), topdown=False):
            try:
                os.rmdir(directory)
            except OSError:
                break  # it is in use


def _own_cgroup() -> "str | None":
    """Return the directory of this process's group, if version 2 is mounted."""
    try:
        with open("/proc/self/cgroup") as groups:
            own = next(line for line in groups if line.startswith("0::"))[3:].rstrip("\n")
        with open("/proc/self/mountinfo") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[fields.index("-") + 1] == "cgroup2":
                    root = fields[3].rstrip("/")
                    if own == root or own.startswith(root + "/"):
                        return fields[4] + own[len(root) :].rstrip("/")
    except (OSError, StopIteration, ValueError, IndexError):
        pass  # not Linux, or no /proc
    return None


def _write(path: str, file: str, text: str) -> None:
    with open(os.path.join(path, file), "w") as target:
        target.write(text)
