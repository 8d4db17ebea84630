"""The machine and the versions that were measured."""

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version

import psutil

__all__ = ["Machine", "look"]

_PACKAGES = ("qk-mcp", "quickie-runner", "fastmcp", "mcp", "cyclopts")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine, its load averages (of 1, 5 and 15 minutes) at this moment, and the versions of what is measured."""

    system: str
    cores: int
    memory: int
    """In megabytes."""
    load: tuple[float, float, float]
    python: str
    packages: dict[str, str]

    def describe(self) -> str:
        """Return two lines of text."""
        packages = ", ".join(f"{name} {number}" for name, number in self.packages.items())
        return f"{self.system}, {self.cores} cores, {self.memory:,} MB\nPython {self.python}, {packages}"

    def as_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return asdict(self)


def look() -> Machine:
    """Return this machine's description."""
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count() or 1,
        memory=int(psutil.virtual_memory().total / 1e6),
        load=os.getloadavg(),
        python=platform.python_version(),
        packages={name: version(name) for name in _PACKAGES},
    )
