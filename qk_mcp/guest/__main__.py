"""Starts in a project's interpreter and forks: the parent supervises, the child serves one request.

    python -P …/guest/__main__.py CONTROL SUPERVISION
    python -P …/guest/__main__.py CONTROL of SUPERVISOR    the child, if it has to be executed again

CONTROL and SUPERVISION are descriptors of two sockets whose other ends the server holds.

The child leads a session of its own. It imports quickie, waits for one request
on CONTROL, and describes or runs tasks. The parent, the supervisor, adopts every
orphan of the child's process tree (Linux), reports on SUPERVISION how the child
ended, and kills the whole tree if the server asks for it or has ended.

The supervisor writes one line for each event:
    child PID ADOPTING    ADOPTING is 1 if the supervisor adopts orphans
    began                 the child has loaded the project and starts the task
    exit CODE             the child has ended; negative for a signal, as in `subprocess`
    left PID …            processes of the tree that outlive the child, or cannot be killed
    stop                  a person wants the task to be stopped: the supervisor got SIGUSR2
    alone                 no process of the tree is left; the supervisor exits
It reads single bytes:
    k                     kill the whole tree now
    s                     a stop has begun: from now on, treat end of file as `k`
End of file means `k` while the child lives. After the child's end, it means that
the processes left behind may stay.
"""

import os
import signal
import sys
import warnings

__all__ = ["main"]


def main(control: int, supervision: int) -> None:
    """Fork; supervise in the parent, answer one request in the child."""
    os.set_inheritable(control, False)
    os.set_inheritable(supervision, False)
    supervisor = os.getpid()
    _reset_signals()
    # These stay pending until the supervisor can handle them.
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR1, signal.SIGUSR2})
    # sitecustomize or a .pth file may have started threads, and a fork keeps only the thread that calls it.
    single_threaded = len(sys._current_frames()) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        child = os.fork()
    if child:
        os.close(control)
        _supervise(child, supervision)
    else:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.close(supervision)
        os.setsid()
        if not single_threaded:
            os.set_inheritable(control, True)
            os.execv(sys.executable, [sys.executable, "-P", __file__, str(control), "of", str(supervisor)])
        _answer(control, supervisor)


def _reset_signals() -> None:
    """Drop what the server inherited as ignored: with SIGCHLD ignored, every child seems to exit with 0.

    SIGPIPE and SIGXFSZ stay as they are, because Python itself ignores them. A task that a shell starts under
    `nohup` would ignore SIGHUP; here it does not, because it has no terminal that could hang up.
    """
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _supervise(child: int, supervision: int) -> None:
    import select

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
    ended = stopping = False
    while True:
        childless = False
        while not childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                childless = True
            else:
                if pid == 0:
                    break
                if pid == child:
                    ended = True
                    report(f"exit {os.waitstatus_to_exitcode(status)}")
                    left = _children(os.getpid())
                    if left:
                        report("left " + " ".join(map(str, left)))
        if childless:
            report("alone")
            os._exit(0)
        ready, _, _ = select.select([supervision, wakeups], [], [])
        if wakeups in ready:
            os.read(wakeups, 4096)
        if supervision in ready:
            try:
                command = os.read(supervision, 1)
            except OSError:
                command = b""
            if command == b"s":
                stopping = True
                continue
            if command or stopping or not ended:
                _end_tree(child, report, ended)
            os._exit(0)


def _adopt_orphans() -> bool:
    """Make this process the parent of every orphan among its descendants (Linux, `prctl(2)`); return success."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        return False


def _children(pid: int) -> "list[int]":
    """Return the children of a process, for this one adopted orphans included (Linux)."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as listing:
                found += [int(child) for child in listing.read().split()]
        return found
    except OSError:
        pass  # the process has ended, or the kernel lacks this file
    try:
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]
    except OSError:
        return []
    return [each for each in pids if _parent(each) == pid]


def _parent(pid: int) -> int:
    """Return the parent of a process, or 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _end_tree(child: int, report, ended: bool) -> None:  # type: ignore[no-untyped-def]  # no import for a type here
    """Kill the child's process group, then all descendants until no new one appears, for at most a second.

    Reports those that survive: they belong to another user, as after `sudo`.
    """
    import time

    deadline = time.monotonic() + 1
    try:
        os.killpg(child, signal.SIGKILL)
    except OSError:
        pass  # the group has ended
    while time.monotonic() < deadline:
        _kill_descendants()
        try:
            if not ended:
                os.kill(child, signal.SIGKILL)  # for systems without /proc
        except OSError:
            pass  # it has become another user's
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
            while pid:
                if pid == child:
                    ended = True
                    report(f"exit {os.waitstatus_to_exitcode(status)}")
                pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            report("alone")
            return
        time.sleep(0.002)
    report("left " + " ".join(map(str, _children(os.getpid()))))


def _kill_descendants() -> None:
    """Kill all descendants in one pass: hundreds may be nested, each in a session of its own."""
    supervisor = os.getpid()
    tree = [supervisor]
    direct = set(_children(supervisor))
    for pid in tree:  # which grows meanwhile
        tree += _children(pid)
    for pid in tree[1:]:
        try:
            if pid in direct:
                os.kill(pid, signal.SIGKILL)  # only this process reaps it, so that its pid cannot be reused
                continue
            process = os.pidfd_open(pid)
        except (AttributeError, OSError):
            continue  # it has ended or belongs to another user (setuid), or the system has no pidfd
        try:
            if _parent(pid) in tree:
                signal.pidfd_send_signal(process, signal.SIGKILL)
        except OSError:
            pass  # as above
        finally:
            os.close(process)


def _answer(control: int, supervisor: int) -> None:
    import importlib.util

    # quickie's cleanup tasks run on KeyboardInterrupt, but SIGINT may have been ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The package gets a name of its own: the project's interpreter may have another qk_mcp installed.
    directory = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "qk_mcp_guest", os.path.join(directory, "__init__.py"), submodule_search_locations=[directory]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["qk_mcp_guest"] = package
    spec.loader.exec_module(package)
    from qk_mcp_guest.control import Control  # type: ignore[import-not-found]
    from qk_mcp_guest.dispatch import answer_request  # type: ignore[import-not-found]

    answer_request(Control(control), supervisor)


if __name__ == "__main__":
    if sys.argv[2] == "of":
        os.set_inheritable(int(sys.argv[1]), False)
        _answer(int(sys.argv[1]), int(sys.argv[3]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
