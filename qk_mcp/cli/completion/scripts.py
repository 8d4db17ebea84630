"""The scripts that shells load, the lines that they exchange with this program, and where they are installed.

A script sends what was typed and shows what it gets, so that it does not change with the program's commands.
"""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qk_mcp.cli.completion.complete import SHELLS, Candidate, complete
from qk_mcp.errors import NoHome
from qk_mcp.projects.project import current_directory

__all__ = ["FILES", "SCRIPTS", "answer_shell", "script_path"]

_BASH = r"""
# bash completion for qk-mcp, for bash 3.2 and later.

_qk_mcp() {
  local program=$1 kind='' line
  type -P -- "$program" >/dev/null || program=qk-mcp
  COMPREPLY=()
  {
    read -r kind
    while IFS= read -r line; do COMPREPLY+=("$line"); done
  } < <("$program" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null </dev/null)
  # compopt needs bash 4. Without it, files are offered when nothing else fits, and no blank follows them.
  if [[ $kind == files ]]; then
    compopt +o nospace 2>/dev/null
  else
    compopt +o default 2>/dev/null
  fi
  return 0
}

complete -o default -o nospace -F _qk_mcp qk-mcp
"""

_ZSH = r"""
#compdef qk-mcp
# zsh completion for qk-mcp.

local kind line word
local -a answer words_ended words_open
local program=${(Q)words[1]}
(( $+commands[$program] )) || [[ -x $program ]] || program=qk-mcp
answer=("${(@f)$("$program" __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)}")
kind=$answer[1]
for line in "${(@)answer[2,-1]}"; do
  word=${line%%$'\t'*}
  line=${line#*$'\t'}
  line=${word//:/\\:}${line:+:$line}
  case $word in
    '') ;;
    */|*:|*=) words_open+=("$line") ;;
    *) words_ended+=("$line") ;;
  esac
done
local -i found=1
(( $#words_ended )) && _describe -t words 'word' words_ended && found=0
(( $#words_open )) && _describe -t words 'word' words_open -S '' && found=0
if [[ $kind == files ]]; then
  [[ $PREFIX == --*=* ]] && compset -P '*='
  _files && found=0
fi
return $found
"""

_FISH = r"""
# fish completion for qk-mcp.

function __qk_mcp_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    command -q $program; or set program qk-mcp
    set -l answer ($program __complete fish $words[2..-1] $current 2>/dev/null </dev/null)
    string join \n -- $answer[2..-1]
    # What fish offers for an unknown command: files, also after ~ and --option=.
    test "$answer[1]" = files; and complete -C "'' $current"
end

complete -c qk-mcp -f -a '(__qk_mcp_complete)'
"""

SCRIPTS = {shell: script.lstrip("\n") for shell, script in zip(SHELLS, (_BASH, _FISH, _ZSH), strict=True)}
FILES = {"bash": "qk-mcp.bash", "fish": "qk-mcp.fish", "zsh": "_qk-mcp"}
"""The names of the scripts in the source tree."""

_OPEN_ENDED = ("/", ":", "=")
"""Ends of candidates that are incomplete, so that no blank follows; fish has the same rule."""
_SPECIAL = re.compile(r"(?![\w@%+=:,./-])([ -~])")
"""Characters that bash needs a backslash for; it takes one before a non-ASCII character for part of the word."""
_SPECIAL_IN_QUOTES = re.compile(r'(["$`\\])')


def script_path(shell: str) -> Path:
    """Return where a shell looks for the script among the user's own files. Raises NoHome."""
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute():
        raise NoHome
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    match shell:
        case "bash":
            own = os.environ.get("BASH_COMPLETION_USER_DIR", "").split(":")[0]
            return Path(own or data / "bash-completion") / "completions" / "qk-mcp"
        case "fish":
            return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions" / "qk-mcp.fish"
    return data / "zsh" / "site-functions" / "_qk-mcp"


def answer_shell(argv: Sequence[str]) -> int:
    """Print `files` if files may stand at the cursor, otherwise `words`, then one candidate a line.

    `argv` is `__complete SHELL` and what was typed: the words up to the cursor, the last one incomplete or
    empty; from bash, the line up to the cursor and COMP_WORDBREAKS. Returns 1, and prints no error, on failure.
    """
    try:
        _, shell, *rest = argv
        typed = _read_bash(*rest) if shell == "bash" else _Typed(rest[:-1], rest[-1])
        answer = complete(typed.words, typed.current, os.environ, current_directory())
        print("files" if answer.files else "words")
        for candidate in answer.candidates:
            if line := _candidate_line(candidate, typed, shell):
                print(line)
        sys.stdout.flush()
    except Exception:  # an error message in the middle of a command line is worse than no candidates
        return 1
    return 0


@dataclass(frozen=True, slots=True)
class _Typed:
    """The words between the program's name and the cursor, and the part of a word before the cursor."""

    words: Sequence[str]
    current: str
    kept: int = 0
    """For bash: characters of `current` that it treats as words of their own."""
    quote: str = ""
    """For bash: the open quotation mark."""


def _read_bash(line: str, breaks: str) -> _Typed:
    """Read a command line up to the cursor as bash does; bash also splits words at `breaks`, its COMP_WORDBREAKS."""
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
    return _Typed(words[1:], current, 0 if quote else kept, quote)


def _candidate_line(candidate: Candidate, typed: _Typed, shell: str) -> str:
    """Return the line for a candidate; empty if it does not match, or does not fit in one line."""
    value = candidate.value
    if not value or not value.isprintable():
        return ""
    if shell != "bash":  # zsh and fish match and quote by themselves
        return f"{value}\t{candidate.about}"
    if not value.startswith(typed.current):
        return ""
    end = "" if typed.quote or value.endswith(_OPEN_ENDED) else " "  # bash closes the quotation
    rest = value[typed.kept :]
    if typed.quote == "'":
        return rest.replace("'", "'\\''") + end
    if typed.quote:
        return _SPECIAL_IN_QUOTES.sub(r"\\\1", rest) + end
    return _SPECIAL.sub(r"\\\1", rest) + end
