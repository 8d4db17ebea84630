"""Identifies a process by its id and its start time, because the system gives the ids of ended processes to others."""

import os
import signal
import sys
from typing import NamedTuple

__all__ = ["ProcessIdentity", "identify_process"]


class ProcessIdentity(NamedTuple):
    """A process, and when it started, in the system's own notation."""

    pid: int
    started: str

    def is_running(self) -> bool:
        """Return whether this process still runs. A zombie does not."""
        return identify_process(self.pid) == self

    def send_signal(self, number: signal.Signals) -> bool:
        """Signal this process; return False if it has ended. Raises PermissionError."""
        try:
            descriptor = os.pidfd_open(self.pid)  # no later process with this id can take it over
        except (AttributeError, OSError):  # the system has no such call, or the process has ended
            descriptor = None
        try:
            if not self.is_running():
                return False
            if descriptor is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return True


def identify_process(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process, or None if there is no such process."""
    started = _started_linux(pid) if sys.platform == "linux" else _started(pid)
    return ProcessIdentity(pid, started) if started else None


def _started_linux(pid: int) -> str:
    """Return the start in clock ticks since boot (`proc_pid_stat(5)`): unlike a date, it ignores changed clocks."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _started(pid: int) -> str:
    import psutil

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.Error:
        return ""
