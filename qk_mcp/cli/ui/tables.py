"""Aligned text without borders, broken to the width of the terminal; whole lines in a pipe or a file."""

import os
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

__all__ = ["GAP", "Sheet", "widest"]

GAP = 2
"""Blanks between columns."""
_NARROWEST = 20
"""Least width of the last column, however narrow the terminal."""


class Sheet:
    """Prints lines to stdout, as wide as its terminal; without a terminal, only COLUMNS sets a width."""

    def __init__(self) -> None:
        columns = os.environ.get("COLUMNS", "")
        self.width = int(columns) if columns.isdecimal() and int(columns) else None
        self.console = Console(file=sys.stdout, highlight=False, width=self.width)
        if self.console.is_terminal:
            self.width = self.console.width

    def line(self, *parts: str | Text | tuple[str, str], indent: int = 0) -> None:
        """Print a line without breaking it, so that it can be copied."""
        text = Text.assemble(" " * indent, *parts)
        text.rstrip()
        self.console.print(text, soft_wrap=True)

    def paragraph(self, text: Text, indent: int) -> None:
        """Print a text, its lines broken to fit."""
        for line in self._wrapped(text, self.width and max(_NARROWEST, self.width - indent)):
            self.line(line, indent=indent)

    def table(self, rows: Sequence[Sequence[Text]], indent: int, caps: Sequence[int]) -> None:
        """Print rows in columns, each as wide as its content or its cap; the last one gets the rest of the width."""
        columns_of = zip(zip(*rows, strict=True), caps, strict=False)
        widths = [min(widest(column), cap) if self.width else widest(column) for column, cap in columns_of]
        taken = indent + sum(width + GAP for width in widths if width)
        last = self.width and max(_NARROWEST, self.width - taken)
        for row in rows:
            cells = [
                self._wrapped(cell, self.width and width) for cell, width in zip(row, [*widths, last], strict=True)
            ]
            for pieces in zip_longest(*cells, fillvalue=Text()):
                *columns, end = pieces
                line = Text()
                for piece, width in zip(columns, widths, strict=True):
                    if width:  # an empty column takes no space
                        line.append_text(piece).append(" " * max(GAP, width - piece.cell_len + GAP))
                self.line(line.append_text(end), indent=indent)

    def _wrapped(self, text: Text, width: int | None) -> list[Text]:
        if width is None:
            return list(text.split("\n", allow_blank=True)) or [Text()]
        return list(text.wrap(self.console, width, overflow="fold")) or [Text()]


def widest(column: Iterable[Text]) -> int:
    """Return the width of the widest cell of a column."""
    return max((line.cell_len for cell in column for line in cell.split("\n")), default=0)
