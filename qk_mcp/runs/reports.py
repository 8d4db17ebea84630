"""Reads the JUnit reports that a task writes, so that an answer has its tests by result.

pytest, jest, nextest, gotestsum and Surefire write this format. The files are hostile until read: entity
declarations, which can grow without bound, and large files are refused.
"""

import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from xml.parsers import expat

from qk_mcp.text import encoded_size, one_line

__all__ = ["Reports", "read_reports"]

_FILES = 200
"""Files that are read at most."""
_FILE_LIMIT = 10 << 20
"""Bytes of a file."""
_FAILURES = 20
_TEXT = 300
"""Characters of a name, a place or a message."""
_CLOCK = 0.05
"""Seconds by which the time of a file may be behind the clock."""
_RESULTS = {"failure": "failed", "error": "errors", "skipped": "skipped"}


@dataclass(slots=True)
class Reports:
    """The tests of all new reports, and what is wrong with any of them."""

    files: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("passed", "failed", "errors", "skipped"), 0))
    failures: list[dict[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def answer(self) -> dict[str, Any] | None:
        """Return the value of `tests` in an answer, or None if there is no new report."""
        return {**self.counts, "failures": self.failures} if self.files else None


def read_reports(root: Path, patterns: Sequence[str], since: float, *, room: int) -> Reports:
    """Read the files below `root` that match a pattern and are newer than `since`, in seconds since the epoch.

    Lists at most 20 failures, in at most `room` bytes of JSON.
    """
    reports = Reports()
    found = dict.fromkeys(file for pattern in patterns for file in islice(sorted(root.glob(pattern)), _FILES))
    for file in islice(found, _FILES):
        try:
            status = file.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_mtime < since - _CLOCK:
                continue
            cases = _parse(_read(file))
        except (OSError, ValueError, expat.ExpatError) as error:
            reports.problems.append(one_line(f"cannot read the report {file}: {error}", _TEXT))
            continue
        reports.files += 1
        for case in cases:
            reports.counts[case.result] += 1
            if case.result in ("failed", "errors") and len(reports.failures) < _FAILURES:
                entry = {"name": case.name, "where": case.where, "message": one_line(case.message, _TEXT)}
                room -= encoded_size(entry)
                if room >= 0:
                    reports.failures.append(entry)
    return reports


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        data = stream.read(_FILE_LIMIT + 1)
    if len(data) > _FILE_LIMIT:
        raise ValueError(f"it is larger than {_FILE_LIMIT >> 20} MiB")
    return data


@dataclass(slots=True)
class _Case:
    name: str
    where: str
    result: str = "passed"
    message: str = ""


def _parse(data: bytes) -> list[_Case]:
    """Return the test cases of a report. Raises ValueError and ExpatError."""
    cases: list[_Case] = []
    inside = reading = False

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal inside, reading
        if tag == "testcase":
            place = attributes.get("file", "")
            if place and attributes.get("line"):
                place += f":{attributes['line']}"
            where = one_line(place or attributes.get("classname", ""), _TEXT)
            cases.append(_Case(one_line(attributes.get("name", ""), _TEXT), where))
            inside = True
        elif inside and tag in _RESULTS and cases[-1].result == "passed":
            cases[-1].result = _RESULTS[tag]
            cases[-1].message = attributes.get("message", "")[: 10 * _TEXT]
            reading = not cases[-1].message

    def end(tag: str) -> None:
        nonlocal inside, reading
        if tag in _RESULTS:
            reading = False
        elif tag == "testcase":
            inside = False

    def text(part: str) -> None:
        if reading and len(cases[-1].message) < _TEXT:
            cases[-1].message += part[:_TEXT]

    def refuse(*_: object) -> None:
        raise ValueError("it declares entities")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.EntityDeclHandler = refuse
    parser.Parse(data, True)
    return cases
