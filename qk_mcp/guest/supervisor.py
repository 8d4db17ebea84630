"""The supervisor: waits for a task's process, reports its end to the server, and kills the tree if it must.

It writes one line for each event:
    child PID ADOPTING    ADOPTING is 1 if the supervisor adopts orphans
    placed [CGROUP]       the child may run the project's code; the control group that it is in, if there is one
    began                 the child has loaded the project and starts the task
    exit CODE             the child has ended; negative for a signal, as in `subprocess`
    left [PID …]          processes of the tree that outlive the child, or cannot be killed
    stop                  a person wants the task to be stopped: the supervisor got SIGUSR2
    alone                 no process of the tree is left; the supervisor exits
It reads single bytes:
    h                     hold the descriptor that comes with it: the lock of a task that must run alone
    l                     list again what is left
    k                     kill the whole tree now
    s                     a stop has begun: from now on, treat end of file as `k`
End of file means `k` while the child lives. After the child's end, it means that
the processes left behind may stay.
"""

import os
import select
import signal
import sys
import time
from typing import NoReturn

from .cgroup import create_cgroup, kill_cgroup, remove_cgroup
from .process_tree import kill_members, members_of, own_children

__all__ = ["NO_FORK", "supervise"]

NO_FORK = 71
"""The exit code (EX_OSERR of sysexits.h) if no child can be forked."""

_KILL_LIMIT = 1.0
"""Seconds in which the tree is killed."""
_SUSPEND_LIMIT = 0.5
"""Seconds of those in which it may go on to grow."""


def supervise(child: int, supervision: int, mark: str) -> NoReturn:
    """Supervise the process `child`, and exit when nothing is left to do.

    `supervision` is the descriptor of a socket. `mark` is the name of a variable in the environment of the tree only.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # the server must see the end of the task's pipes when the task closes them
        os.dup2(null, standard)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    wakeups, wakeup_writer = os.pipe()
    os.set_blocking(wakeup_writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
    adopting = _adopt_orphans()

    def report(line: str) -> None:
        try:
            os.write(supervision, line.encode() + b"\n")
        except OSError:
            pass  # the server has ended; the next read returns end of file

    # The child reports the start of its task by a signal: the project's module may have closed every descriptor.
    signal.signal(signal.SIGUSR1, lambda *_: report("began"))
    signal.signal(signal.SIGUSR2, lambda *_: report("stop"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1, signal.SIGUSR2})
    report(f"child {child} {int(adopting)}")
    tree = _Tree(child, "" if adopting else mark, create_cgroup(mark, child), report)
    report(f"placed {tree.cgroup or ''}".rstrip())
    # Not `socket`, which takes several times as long, and which a module of the project's might replace.
    from _socket import CMSG_SPACE, socket

    commands = socket(fileno=supervision)
    stopping = False
    while True:
        if tree.reap():
            report("alone")
            tree.leave()
        ready, _, _ = select.select([supervision, wakeups], [], [])
        if wakeups in ready:
            os.read(wakeups, 4096)
        if supervision in ready:
            try:
                command = commands.recvmsg(1, CMSG_SPACE(4))[0]
            except OSError:
                command = b""
            if command == b"s":
                stopping = True
            elif command == b"h":
                pass  # the descriptor is open until this process exits
            elif command == b"l":
                tree.list_left()
            else:
                if command or stopping or not tree.ended:
                    tree.kill()
                tree.leave()


def _adopt_orphans() -> bool:
    """Make this process the parent of every orphan among its descendants (Linux, `prctl(2)`); return success."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        return False


class _Tree:
    """The processes that descend from the child."""

    def __init__(self, child: int, mark: str, cgroup: "str | None", report) -> None:  # type: ignore[no-untyped-def]
        self.ended = False
        """Whether the child has ended."""
        self.cgroup = cgroup
        self._child = child
        self._mark = mark
        self._report = report

    def reap(self) -> bool:
        """Reap the processes that have ended and report the end of the child. Returns whether nothing is left."""
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
            while pid:
                if pid == self._child:
                    self.ended = True
                    self._report(f"exit {os.waitstatus_to_exitcode(status)}")
                    if own_children():
                        self.list_left()
                pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        return False

    def list_left(self) -> None:
        """Report the children that are left."""
        self._report(" ".join(["left", *map(str, own_children())]))

    def leave(self) -> NoReturn:
        """Exit; what is left may stay."""
        if self.cgroup:
            remove_cgroup(self.cgroup)
        os._exit(0)

    def kill(self) -> None:
        """Kill all members until no new one appears.

        Reports those that survive: they belong to another user, as after `sudo`.
        """
        began = time.monotonic()
        if self.cgroup:
            kill_cgroup(self.cgroup)
        while time.monotonic() < began + _KILL_LIMIT:
            kill_members(self._mark, began + _SUSPEND_LIMIT)
            try:
                os.killpg(self._child, signal.SIGKILL)  # also where members cannot be found
            except OSError:
                pass  # the group has ended
            if self.reap() and not (self._mark and members_of(self._mark)):
                self._report("alone")
                return
            time.sleep(0.002)
        self._report(" ".join(["left", *map(str, members_of(self._mark))]))
