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
