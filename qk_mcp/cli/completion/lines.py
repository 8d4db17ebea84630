"""What was typed and what is answered, in the forms of the shells."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from qk_mcp.cli.completion.answers import Candidate

__all__ = ["Typed", "bash", "written"]

_OPEN_ENDED = ("/", ":", "=")
"""What a candidate ends with that is not complete yet, so that no blank follows; fish has the same rule."""
_SPECIAL = re.compile(r"([^A-Za-z0-9_@%+=:,./-])")
_SPECIAL_IN_QUOTES = re.compile(r'(["$`\\])')


@dataclass(frozen=True, slots=True)
class Typed:
    """The words before the cursor, after the program's name, and the part of a word that the cursor stands behind."""

    words: Sequence[str]
    current: str
    kept: int = 0
    """For bash: characters of `current` that it takes for words of their own."""
    quote: str = ""
    """For bash: the quotation mark that is open."""


def bash(line: str, breaks: str) -> Typed:
    """Read a command line up to the cursor as bash does; `breaks` is COMP_WORDBREAKS, which split words further."""
    words: list[str] = []
    current, kept, quote, escaped, within = "", 0, "", False, False
    for character in line:
        if escaped:
            current, escaped = current + character, False
        elif character == "\\" and quote != "'":
            escaped = within = True
        elif quote:
            current, quote = (current, "") if character == quote else (current + character, quote)
        elif character in "'\"":
            quote, within = character, True
        elif character.isspace():
            if within:
                words.append(current)
            current, kept, within = "", 0, False
        else:
            current, within = current + character, True
            if character in breaks:
                kept = len(current)
    return Typed(words[1:], current, 0 if quote else kept, quote)


def written(candidate: Candidate, typed: Typed, shell: str) -> str:
    """Return the line for a candidate; empty for one that does not fit, or that no line can hold."""
    value = candidate.value
    if not value or not value.isprintable():
        return ""
    if shell != "bash":  # which match, and quote, by themselves
        return f"{value}\t{candidate.about}"
    if not value.startswith(typed.current):
        return ""
    end = "" if typed.quote or value.endswith(_OPEN_ENDED) else " "  # bash itself closes the quotation
    rest = value[typed.kept :]
    if typed.quote == "'":
        return rest.replace("'", "'\\''") + end
    if typed.quote:
        return _SPECIAL_IN_QUOTES.sub(r"\\\1", rest) + end
    return _SPECIAL.sub(r"\\\1", rest) + end
