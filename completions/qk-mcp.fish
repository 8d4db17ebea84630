# fish completion for qk-mcp.

function __qk_mcp_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    command -q $program; or set program qk-mcp
    set -l answer ($program __complete fish $words[2..-1] $current 2>/dev/null </dev/null)
    string join \n -- $answer[2..-1]
    test "$answer[1]" = files; or return 0
    set -l option (string match -r -- '^--[^=]*=' $current)
    for file in (__fish_complete_path (string replace -- "$option" '' "$current"))
        echo "$option$file"
    end
end

complete -c qk-mcp -f -a '(__qk_mcp_complete)'
