"""What a client learns of a run while it runs and later: its state and the lines that it asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qk_mcp.runs.excerpt import json_size
from qk_mcp.runs.lines import Line, Lines, Page, last_lines, lines_after
from qk_mcp.runs.record import RunRecord
from qk_mcp.runs.search import LineSearch
from qk_mcp.runs.streams import Stream
from qk_mcp.text import encoded_size, shorten

__all__ = ["STREAMS", "RunStatus", "Selection", "read_pages", "recent_page", "search_pages", "status_answer"]

STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
_HEADERS = 300
"""Bytes around the texts in an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The state of a run, which may have ended."""

    record: RunRecord
    seconds: float
    last_output: float | None = None
    """Seconds since its last output, while it runs."""
    sources: Mapping[Stream, Lines] = field(default_factory=dict)
    """The files with its output."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Other keys of its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which lines of each stream an answer has."""

    count: int
    after: Mapping[Stream, int] | None = None
    """The first lines after these numbers; None for the last lines."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Lines of a stream as text."""

    page: Page
    numbered: bool
    matches: int | None = None
    """All lines that match, when lines are searched."""

    @property
    def text(self) -> str:
        """The lines, with their numbers if they are not consecutive."""
        lines = self.page.lines
        texts = [f"{line.number}: {line.text}" if self.numbered else line.text for line in lines]
        return "".join(text + "\n" for text in texts).removesuffix("" if not lines or lines[-1].finished else "\n")


def read_pages(status: RunStatus, selection: Selection) -> dict[Stream, Shown]:
    """Return the selected lines of each stream. Raises OSError. Takes some 0.1 s for a file of 100 MB."""
    pages: dict[Stream, Shown] = {}
    for stream, source in status.sources.items():
        if selection.after is None:
            pages[stream] = Shown(last_lines(source, selection.count), numbered=False)
        else:
            pages[stream] = Shown(lines_after(source, selection.after[stream], selection.count), numbered=False)
    return pages


def recent_page(text: str, count: int) -> Shown:
    """Return the last lines of a text that is not in a file."""
    lines = text.split("\n")[-count - 1 :]
    numbered = [Line(0, line, finished=place < len(lines) - 1) for place, line in enumerate(lines)]
    return Shown(Page(tuple(line for line in numbered if line.finished or line.text), 0), numbered=False)


async def search_pages(status: RunStatus, selection: Selection, search: LineSearch) -> dict[Stream, Shown]:
    """Return the selected lines of each stream among those that match. Raises `SearchFailed`."""
    pages: dict[Stream, Shown] = {}
    for stream, source in status.sources.items():
        after = 0 if selection.after is None else selection.after[stream]
        found = await search.search(source, after=after, count=selection.count, last=selection.after is None)
        cut = selection.after is not None and found.matches > len(found.lines)
        end = found.lines[-1].number if cut and found.lines else source.newlines
        pages[stream] = Shown(Page(found.lines, end), numbered=True, matches=found.matches)
    return pages


def status_answer(
    status: RunStatus, pages: Mapping[Stream, Shown], selection: Selection, max_output: int, notes: list[str]
) -> dict[str, Any]:
    """Return the answer, in at most `max_output` bytes of JSON."""
    record = status.record
    answer: dict[str, Any] = {"exit_code": record.exit_code, "stdout": "", "stderr": ""}
    details: dict[str, Any] = {
        "run_id": record.run,
        "project": record.project,
        "task": shorten(record.task, 300),
        "state": record.state,
        "seconds": round(status.seconds, 1),
    }
    if status.last_output is not None:
        details["last_output"] = round(status.last_output, 1)
    extras = dict(status.extras)
    notes = [*notes, *filter(None, [extras.pop("note", "")])]
    files = {stream: str(source.file) for stream, source in status.sources.items()}
    if files:
        details |= {"next": "0,0", "files": files}
    details |= extras
    room = max_output - encoded_size(details | {"notes": notes}) - _HEADERS
    fitted = _fit(pages, max(0, room), from_end=selection.after is None)
    for stream, shown in fitted.items():
        answer[stream] = shown.text
        notes += _remarks(stream, pages[stream], shown, status.sources.get(stream), selection)
    if files:
        ends = {stream: fitted[stream].page.next if stream in fitted else 0 for stream in STREAMS}
        details["next"] = f"{ends['stdout']},{ends['stderr']}"
    answer |= details
    if notes:
        answer["note"] = "\n".join(notes)
    return answer


def _remarks(stream: Stream, page: Shown, shown: Shown, source: Lines | None, selection: Selection) -> list[str]:
    """Return what the answer leaves out of a stream."""
    if page.matches is not None:
        if page.matches > len(shown.page.lines):
            which = "first" if selection.after is not None else "last"
            return [f"{stream}: the {which} {len(shown.page.lines)} of {page.matches:,} lines that match"]
    elif source and selection.after is not None and shown.page.next < source.newlines:
        return [f"{stream}: {source.newlines - shown.page.next:,} more lines follow; pass `next` as `after`"]
    elif len(shown.page.lines) < len(page.page.lines):
        return [f"{stream}: only the last {len(shown.page.lines)} lines fit"]
    return []


def _fit(pages: Mapping[Stream, Shown], room: int, *, from_end: bool) -> dict[Stream, Shown]:
    """Leave out lines until both streams fit; a stream that needs less than half lends the rest to the other."""
    sizes = {stream: json_size(shown.text) for stream, shown in pages.items()}
    fitted = {}
    for stream, shown in pages.items():
        share = max(room // 2, room - sum(size for other, size in sizes.items() if other != stream))
        fitted[stream] = shown if sizes[stream] <= share else _cut(shown, share, from_end=from_end)
    return fitted


def _cut(shown: Shown, room: int, *, from_end: bool) -> Shown:
    kept: list[Line] = []
    lines = shown.page.lines
    for line in reversed(lines) if from_end else lines:
        room -= json_size(line.text) + (len(str(line.number)) + 2) * shown.numbered + 2
        if room < 0:
            break
        kept.append(line)
    if not kept and lines:  # one line is too long
        kept = [replace(lines[-1 if from_end else 0], text="…")]
    end = shown.page.next if from_end or len(kept) == len(lines) else kept[-1].number
    return replace(shown, page=Page(tuple(reversed(kept)) if from_end else tuple(kept), end))
