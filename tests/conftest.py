"""Fixtures for several files."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import settings

from tests.support.client import Client
from tests.support.projects import make_project
from tests.support.serving import serving

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

_CLIENTS = pytest.StashKey[list[Client]]()


def pytest_configure(config: pytest.Config) -> None:
    """Give the processes that tests start default signal dispositions.

    A shell ignores SIGINT for a background job, and nohup ignores SIGHUP. A child inherits an ignored signal, but not
    a handler. The handler does nothing, so pytest goes on ignoring the signal. A worker of xdist cannot know what its
    controller ignores; it ends with the controller, so that it never needs SIGHUP.
    """
    is_worker = hasattr(config, "workerinput")
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores these, not its children
        if signal.getsignal(number) is signal.SIG_IGN or (is_worker and number == signal.SIGHUP):
            signal.signal(number, lambda *_: None)


def pytest_xdist_auto_num_workers() -> int:
    """Run three workers on two processors: tests often wait for a process or a clock."""
    return ((os.cpu_count() or 1) * 3 + 1) // 2


class Serve(Protocol):
    """Starts a server for a project, given as its source, as a directory or as several by alias."""

    def __call__(self, source: Any, *options: str, **more: Any) -> Client: ...


class Demo(Protocol):
    """Writes a project's source and returns the client of the server that serves it."""

    root: Path

    def __call__(self, source: Any) -> Client: ...


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Path]:
    """Make projects in the test's own directory."""

    def make(source: Any, name: str = "project", **more: Any) -> Path:
        return make_project(tmp_path / name, source, **more)

    return make


@pytest.fixture
def serve(tmp_path: Path, project: Callable[..., Path], request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Start servers for this test; after it, they and everything they started must have ended."""
    clients = request.node.stash.setdefault(_CLIENTS, [])
    with ExitStack() as stack:

        def start(source: Any, *options: str, **more: Any) -> Client:
            projects = project(source) if isinstance(source, str) else source
            client = stack.enter_context(serving(tmp_path / "home", projects, *options, **more))
            clients.append(client)
            return client

        yield start


class _Standing:
    """One server for many tests; each run imports the project afresh, so each test can write its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "demo"
        self.stack = ExitStack()
        self.client: Client | None = None

    def ready(self) -> Client:
        """Return a working server, a new one if a test has broken the last."""
        if self.client is not None and (self.client.fault or self.client.process.poll() is not None):
            self.client = None
        if self.client is None:
            make_project(self.root, "")
            self.client = self.stack.enter_context(serving(self.directory / "home", self.root))
        self.client.messages.clear()
        return self.client

    def __call__(self, source: Any) -> Client:
        assert self.client is not None
        make_project(self.root, source)
        return self.client


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Standing]:
    """The server of `demo`."""
    standing = _Standing(tmp_path_factory.mktemp("standing"))
    with standing.stack:
        yield standing


@pytest.fixture
def demo(standing: _Standing, request: pytest.FixtureRequest) -> Demo:
    """A running server, shared by tests that do not stop it; its project is empty at first."""
    if standing.root.exists():
        for entry in standing.root.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    make_project(standing.root, "")
    request.node.stash.setdefault(_CLIENTS, []).append(standing.ready())
    return standing


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show what the servers of a failed test wrote to their standard error."""
    if call.excinfo is not None:
        for client in item.stash.get(_CLIENTS, []):
            if not client.errors.exists():  # the end of a fixture failed, after the directory had gone
                continue
            item.add_report_section(call.when, "server's stderr", client.stderr())
    return (yield)
