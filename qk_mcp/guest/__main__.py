"""Starts in a project's interpreter and forks: the parent supervises, the child serves one request.

    python -P …/guest/__main__.py CONTROL SUPERVISION MARK
    python -P …/guest/__main__.py CONTROL of SUPERVISOR    the child, if it has to be executed again

CONTROL and SUPERVISION are descriptors of two sockets whose other ends the server holds. MARK is the name of a
variable that is only in the environment of this process and what it starts.

The child leads a session of its own. It imports quickie, waits for one request
on CONTROL, and describes or runs tasks. The parent (`supervisor.py`) adopts every
orphan of the child's process tree (Linux), reports on SUPERVISION how the child
ended, and kills the whole tree if the server asks for it or has ended.
"""

import os
import signal
import sys
import warnings

__all__ = ["main"]


def main(control: int, supervision: int, mark: str) -> None:
    """Fork; supervise in the parent, answer one request in the child."""
    _load_package()
    from qk_mcp_guest.supervisor import NO_FORK, supervise  # type: ignore[import-not-found]

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
        try:
            child = os.fork()
        except OSError:
            os._exit(NO_FORK)  # the limit of processes is reached
    if child:
        os.close(control)
        supervise(child, supervision, mark)
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


def _load_package() -> None:
    """Import this package as `qk_mcp_guest`: the project's interpreter may have another qk_mcp installed."""
    import importlib.util

    directory = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "qk_mcp_guest", os.path.join(directory, "__init__.py"), submodule_search_locations=[directory]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["qk_mcp_guest"] = package
    spec.loader.exec_module(package)


def _answer(control: int, supervisor: int) -> None:
    # quickie's cleanup tasks run on KeyboardInterrupt, but SIGINT may have been ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from qk_mcp_guest.control import Control  # type: ignore[import-not-found]
    from qk_mcp_guest.dispatch import answer_request  # type: ignore[import-not-found]

    answer_request(Control(control), supervisor)


if __name__ == "__main__":
    if sys.argv[2] == "of":
        os.set_inheritable(int(sys.argv[1]), False)
        _load_package()
        _answer(int(sys.argv[1]), int(sys.argv[3]))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
