"""Servers for tests: started clean, left clean, and nothing of them left behind."""

import signal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.client import LEGACY, Client
from tests.support.environment import MARK, QK_MCP, scrubbed
from tests.support.processes import end, marked, until

__all__ = ["serving"]


@contextmanager
def serving(
    home: Path,
    projects: Path | Mapping[str, Path] | None,
    *options: str,
    version: str = LEGACY,
    command: Sequence[str] = (*QK_MCP, "serve"),
    cwd: Path | str | None = None,
    environ: Mapping[str, str] | None = None,
    **popen: Any,
) -> Iterator[Client]:
    """Serve `projects` (one is called `demo`) and yield a client that has begun as one of `version` does.

    An empty `version` begins nothing. `environ` is added to a clean environment whose directories lie in `home`.
    At the end the server must leave when its stdin is closed, must have written nothing but the protocol, and no
    process nor temporary file of its own may be left; what a task left on purpose is ended by its test before.
    """
    mark = uuid.uuid4().hex
    temporary = home / f"tmp-{mark}"
    temporary.mkdir(parents=True)
    if isinstance(projects, Path):
        projects = {"demo": projects}
    flags = [flag for alias, path in (projects or {}).items() for flag in ("--project", f"{alias}:{path}")]
    client = Client(
        [*command, *flags, *options],
        cwd=cwd or home,
        environ=scrubbed(home, **{MARK: mark, "TMPDIR": str(temporary)} | dict(environ or {})),
        errors=home / f"stderr-{mark}",
        **popen,
    )
    try:
        if version:
            client.open(version)
        yield client
    finally:
        try:
            client.close()
            until(lambda: not marked(mark), 5, f"{marked(mark)} to end, which the server left behind")
            left = [] if client.process.returncode == -signal.SIGKILL else list(temporary.rglob("*"))
            assert not left, f"temporary files are left: {left}"
        finally:
            end(marked(mark))
