"""Matches lines of files against a regular expression: a program that `qk_mcp.runs.search` starts and talks to.

Python matches an expression without releasing the interpreter lock, and some expressions take years for a short line.
So this is a process of its own, which SIGALRM kills when a request takes too long.

It reads requests and writes answers, one JSON object per line: first `{"pattern": ...}`, then any number of searches.
Run it with `python -I -S`: it starts in a few hundredths of a second.
"""

import json
import re
import signal
import sys
from collections import deque
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from qk_mcp.runs.lines import LINE_LENGTH, line_batches
from qk_mcp.runs.terminal import readable_line, unfinished_line

__all__ = ["main"]

_CONTROLS = bytes({*range(0x20), 0x7F, 0xC2} - {0x09, 0x0A})
"""Bytes that a line which needs no cleaning does not have. UTF-8 writes C1 characters with 0xC2."""


def main() -> None:
    """Answer requests until the end of standard input."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    pattern = re.compile("")
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        if "pattern" in request:
            try:
                pattern = re.compile(request["pattern"])
                answer: dict[str, Any] = {}
            except re.error as error:
                answer = {"error": error.msg, "position": error.pos}
            except (OverflowError, RecursionError, MemoryError) as error:
                answer = {"error": str(error) or type(error).__name__, "position": None}
        else:
            answer = _search(pattern, request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def _search(pattern: re.Pattern[str], request: dict[str, Any]) -> dict[str, Any]:
    """Search the bytes from `start` to `size` of `file`, where line `number` + 1 begins, for lines after `after`.

    Answers the first `count` lines that match, or the last ones with `last`; the number of all that match; and where
    the next search goes on.
    """
    count, after, size = request["count"], request["after"], request["size"]
    found: deque[tuple[int, str]] = deque(maxlen=count if request["last"] else None)
    matches, end, number = 0, 0, request["number"]
    with open(request["file"], "rb") as stream:
        stream.seek(request["start"])
        for batch in line_batches(stream, size - request["start"]):
            texts = _texts(batch.lines)
            unfinished = [unfinished_line(batch.rest)] if batch.rest else []
            for current, text in enumerate(texts + unfinished, number + 1):
                if pattern.search(text) and current > after:
                    matches += 1
                    if request["last"] or matches <= count:
                        found.append((current, text[:LINE_LENGTH]))
            number, end = number + len(texts), batch.end
    return {"found": list(found), "matches": matches, "number": number, "start": request["start"] + end}


def _texts(lines: list[bytes]) -> list[str]:
    data = b"\n".join(lines)
    if len(data.translate(None, _CONTROLS)) == len(data):
        return data.decode("utf-8", "replace").split("\n") if lines else []
    return [readable_line(line) for line in lines]


if __name__ == "__main__":
    main()
