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
