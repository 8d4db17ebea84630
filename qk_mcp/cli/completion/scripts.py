"""The scripts that shells load. Each asks the program itself, so that none has to change with its commands."""

__all__ = ["FILES", "SCRIPTS"]

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
  # compopt is newer than bash 3.2, which offers files where nothing else fits, and puts no blank behind them.
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
    # What fish offers for a command that it does not know: files, also behind ~ and --option=.
    test "$answer[1]" = files; and complete -C "'' $current"
end

complete -c qk-mcp -f -a '(__qk_mcp_complete)'
"""

SCRIPTS = {"bash": _BASH.lstrip("\n"), "fish": _FISH.lstrip("\n"), "zsh": _ZSH.lstrip("\n")}
FILES = {"bash": "qk-mcp.bash", "fish": "qk-mcp.fish", "zsh": "_qk-mcp"}
"""The names of the scripts in the source tree."""
