"""Starts inside a project's interpreter and at once becomes two processes.

    python -P …/guest/__main__.py CONTROL SUPERVISION
    python -P …/guest/__main__.py CONTROL of SUPERVISOR    the child, where it had to be started anew

The child is the task's: it leads a session of its own, imports quickie, waits
for one request on the socket CONTROL, and runs or describes tasks. The parent
supervises: it adopts whatever the child leaves (Linux), tells over the socket
SUPERVISION how the child ended, and ends the whole tree when the server asks
for it or is gone, however it went.

What the supervisor says, a line each:
    child PID ADOPTING    ADOPTING is 1 when orphans of the tree come to the supervisor
    began                 the child has loaded the project, and runs the task now
    exit CODE             the child ended; negative for a signal, as in `subprocess`
    left PID …            processes of the tree that outlive the child, if there are any
    alone                 nothing of the tree is left; the supervisor ends
What it hears: `k`, to end the whole tree at once; `s`, that the tree is to end,
so that end of file means the same as `k` from then on. End of file means it
anyway while the child lives; after its end it says that what is left may stay.
"""

import os
import signal
import sys
import warnings

__all__ = ["main"]


def main(control: int, supervision: int) -> None:
    """Fork, supervise in the parent, and serve one request in the child."""
    os.set_inheritable(control, False)
    os.set_inheritable(supervision, False)
    supervisor = os.getpid()
    # What the server blocks is its own affair. One signal waits until there is somebody to hear it.
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR1})
    # What was imported as Python started, by sitecustomize or a .pth file, may have threads: a fork loses them.
    alone = len(sys._current_frames()) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork where there are threads
        child = os.fork()
    if child:
        os.close(control)
        _supervise(child, supervision)
    else:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.close(supervision)
        os.setsid()
        if not alone:
            os.set_inheritable(control, True)
            os.execv(sys.executable, [sys.executable, "-P", __file__, str(control), "of", str(supervisor)])
        _serve(control, supervisor)


def _supervise(child: int, supervision: int) -> None:
    import select

    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # the task's pipes must close when the task closes them
        os.dup2(null, standard)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    adopting = _adopt_orphans()

    def tell(line: str) -> None:
        try:
            os.write(supervision, line.encode() + b"\n")
        except OSError:
            pass  # the server is gone, which the next read says too

    # The child may have lost every descriptor while it loaded the project, but not its parent.
    signal.signal(signal.SIGUSR1, lambda *_: tell("began"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    tell(f"child {child} {int(adopting)}")
    ended = stopping = False
    while True:
        alone = False
        while not alone:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                alone = True
            else:
                if pid == 0:
                    break
                if pid == child:
                    ended = True
                    tell(f"exit {os.waitstatus_to_exitcode(status)}")
                    left = _children()
                    if left:
                        tell("left " + " ".join(map(str, left)))
        if alone:
            tell("alone")
            os._exit(0)
        ready, _, _ = select.select([supervision, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        if supervision in ready:
            try:
                asked = os.read(supervision, 1)
            except OSError:
                asked = b""
            if asked == b"s":
                stopping = True
                continue
            if asked or stopping or not ended:
                _end_tree(child, tell, ended)
            os._exit(0)


def _adopt_orphans() -> bool:
    """Become the reaper of every orphan below this process (Linux, `prctl(2)`)."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        return False


def _children() -> "list[int]":
    """The direct children of this process, orphans that it adopted among them (Linux)."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        pass
    found = []
    try:
        pids = [entry for entry in os.listdir("/proc") if entry.isdecimal()]
    except OSError:
        return []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                parent = stat.read().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if parent == str(me):
            found.append(int(pid))
    return found


def _end_tree(child: int, tell, ended: bool) -> None:  # type: ignore[no-untyped-def]  # as small as it can be
    """Kill the child's group, then every child, until no orphan follows; at most about a second.

    Only direct children are killed: their pids cannot be taken by others, for
    nobody but us reaps them, and their own children then come to us.
    """
    import time

    deadline = time.monotonic() + 1
    try:
        os.killpg(child, signal.SIGKILL)
    except OSError:
        pass  # no such group any more
    while time.monotonic() < deadline:
        for pid in _children() or ([] if ended else [child]):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # another user's (setuid): it cannot be killed by us
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
            while pid:
                if pid == child:
                    ended = True
                    tell(f"exit {os.waitstatus_to_exitcode(status)}")
                pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            tell("alone")
            return
        time.sleep(0.002)


def _serve(control: int, supervisor: int) -> None:
    import importlib.util

    # Quickie's cleanup tasks run on KeyboardInterrupt; the server may have been started with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "qk_mcp_guest", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["qk_mcp_guest"] = package
    spec.loader.exec_module(package)
    from qk_mcp_guest import dispatch as serving  # type: ignore[import-not-found]
    from qk_mcp_guest.control import Control  # type: ignore[import-not-found]

    serving.serve(Control(control), supervisor)


if __name__ == "__main__":
    if sys.argv[2] == "of":
        os.set_inheritable(int(sys.argv[1]), False)
        _serve(int(sys.argv[1]), int(sys.argv[3]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
