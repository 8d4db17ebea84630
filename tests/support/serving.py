"""Starts servers for tests, and checks that they end cleanly and leave nothing behind."""

import signal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.client import LEGACY, Client
from tests.support.environment import MARK, QK_MCP, scrubbed
from tests.support.fork_server import start_program
from tests.support.processes import end, marked, until

__all__ = ["serving"]


@contextmanager
def serving(
    home: Path,
    projects: Path | Mapping[str, Path] | None,
    *options: str,
    version: str = LEGACY,
    kind: type[Client] = Client,
    command: Sequence[str] = (*QK_MCP, "serve"),
    cwd: Path | str | None = None,
    environ: Mapping[str, str] | None = None,
    **popen: Any,
) -> Iterator[Client]:
    """Serve `projects` (a single one is called `demo`) and yield a client that has begun a session of `version`.

    With an empty `version`, the test begins the session. `kind` is the class of the client. `environ` is added to a
    clean environment whose directories are in `home`. At the end, the server must exit when its stdin is closed and
    must have written only protocol messages. No process and no temporary file may be left; a test ends what its tasks
    leave on purpose.
    """
    mark = uuid.uuid4().hex
    temporary = home / f"tmp-{mark}"
    temporary.mkdir(parents=True)
    if isinstance(projects, Path):
        projects = {"demo": projects}
    flags = [flag for alias, path in (projects or {}).items() for flag in ("--project", f"{alias}:{path}")]
    client = kind(
        [*command, *flags, *options],
        cwd=cwd or home,
        environ=scrubbed(home, **{MARK: mark, "TMPDIR": str(temporary)} | dict(environ or {})),
        errors=home / f"stderr-{mark}",
        start=start_program,
        **popen,
    )
    try:
        if version:
            client.open(version)
        yield client
    finally:
        try:
            client.close()
            until(lambda: not marked(mark), 30, f"{marked(mark)} to end, which the server left")
            left = [] if client.process.returncode == -signal.SIGKILL else list(temporary.rglob("*"))
            assert not left, f"temporary files are left: {left}"
        finally:
            end(marked(mark))
