"""The layout of `--help`: no boxes, names in one column, their meanings in the next."""

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

__all__ = ["HelpFormatter", "examples"]

_HIDDEN_DEFAULTS = (None, "False", "True", "None", "[]", "0")
"""Defaults that only mean that an option is absent."""

_WIDEST = 100
"""Characters of a line on a wider terminal: longer lines are hard to read."""


class HelpFormatter:
    """Implements the protocol `HelpFormatter` of cyclopts."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:  # noqa: ARG002
        """Print a group of commands, arguments or options."""
        from rich.text import Text

        rows = [(_names(entry), _about(entry)) for entry in panel.entries]
        if not rows:
            return
        column = 4 + max(len(names) for names, _ in rows)
        width = max(20, min(console.width, _WIDEST) - column)
        console.print(Text(f"\n{panel.title}:", "bold"))
        for names, about in rows:
            first, *rest = textwrap.wrap(about, width) or [""]
            line = Text.assemble("  ", (names, "cyan"), " " * (column - 2 - len(names)) + first)
            line.rstrip()
            console.print(line, soft_wrap=True)
            for more in rest:
                console.print(Text(" " * column + more), soft_wrap=True)

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:  # noqa: ARG002
        """Print the usage line of a command."""
        from rich.text import Text

        line = f"Usage: {_plain(usage).removeprefix('Usage: ')}"
        console.print(Text(_filled(line, console, " " * 7)), soft_wrap=True)

    def render_description(self, console: "Console", options: "ConsoleOptions", description: Any) -> None:  # noqa: ARG002
        """Print the description of a command."""
        from rich.text import Text

        for paragraph in _plain(description).split("\n\n"):
            console.print(Text("\n" + _filled(paragraph, console)), soft_wrap=True)


def examples(*lines: str) -> str:
    """Return the examples at the end of a help text."""
    return "\n  ".join(("Examples:", *lines))


def _filled(text: str, console: "Console", indent: str = "") -> str:
    return textwrap.fill(" ".join(text.split()), min(console.width, _WIDEST), subsequent_indent=indent)


def _names(entry: "HelpEntry") -> str:
    return ", ".join(sorted(entry.display_labels_with_metavar, key=lambda name: name.startswith("--")))


def _about(entry: "HelpEntry") -> str:
    about = " ".join(_plain(entry.description).split())
    if entry.choices:
        about += f" [{', '.join(entry.choices)}]"
    if entry.default not in _HIDDEN_DEFAULTS:
        about += f" [default: {entry.default}]"
    return about


def _plain(text: Any) -> str:
    text = getattr(text, "primary_renderable", text)
    return str(getattr(text, "plain", text) or "").strip()
