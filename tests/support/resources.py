"""What an idle server holds: processes, descriptors, files."""

import time
from pathlib import Path

from tests.support.client import Client
from tests.support.processes import descriptors, tree, until, zombies

__all__ = ["resources"]


def _files(home: Path) -> set[Path]:
    """Return the files below `home`, without those that the server keeps on purpose."""
    found = {path for path in home.rglob("*") if not path.is_dir()}
    return {path for path in found if path.suffix not in (".stdout", ".stderr") and "stderr-" not in path.name}


def _kind(target: str) -> str:
    """Return what a descriptor refers to, without the number of a pipe or socket."""
    return target.partition(":")[0]


def resources(client: Client, home: Path) -> tuple[int, list[str], set[Path]]:
    """Return the processes, descriptors and files of an idle server."""
    seen: list[tuple[int, list[str], set[Path]]] = []

    def is_idle() -> bool:
        time.sleep(0.1)
        seen.append((len(tree(client.pid)), sorted(map(_kind, descriptors(client.pid).values())), _files(home)))
        return len(seen) > 15 and all(each == seen[-1] for each in seen[-15:]) and not zombies(client.pid)

    until(is_idle, 60, f"the server to become idle; zombies {zombies(client.pid)}")
    return seen[-1]
