# bash completion of reckon(1). Commands, options and names come from the program itself, so that they are never out of date.
_reckon_options() # of a command: the lines of its help that begin with an option, not those that mention one
{
    reckon "$1" --help 2>/dev/null | sed -n -e 's/^  -[a-z], \(--[a-z][a-z-]*\).*/\1/p' -e 's/^      \(--[a-z][a-z-]*\).*/\1/p'
}
_reckon_devices()
{
    reckon devices --json 2>/dev/null | awk -F'"' '$2 == "name" { print $4 }'
}
_reckon()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$(reckon --help 2>/dev/null | awk '/^  [a-z]/ && $1 != "reckon" { print $1 }') --help --version"
        COMPREPLY=($(compgen -W "$words" -- "$word"))
        return
    fi
    case $before in
    -d|--device|--base)
        # the last of a list D1,D2
        local list=${word%"${word##*,}"}
        COMPREPLY=($(compgen -P "$list" -W "$(_reckon_devices)" -- "${word##*,}"))
        return ;;
    --html|--perfetto|--svg|--db|--csv|-o|--output|--from|--splits|--platform|--export-platform|--measured|--fit|--accuracy|--run|--check)
        COMPREPLY=($(compgen -f -- "$word"))
        return ;;
    --mode) words="model" ;;
    --engine) words="fluid simgrid" ;;
    --chip-engine) words="fast reference" ;;
    --route) words="trace model" ;;
    --cache) words="clean own predecessor flushed" ;;
    --trans) words="nt nn tt tn" ;;
    --dtype) words="bf16 fp16 tf32 fp32 fp8" ;;
    --protocol) words="simple LL LL128 LL64" ;;
    esac
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    elif [ "${word#-}" != "$word" ]; then
        COMPREPLY=($(compgen -W "$(_reckon_options "$command") --help" -- "$word"))
    elif [ "$COMP_CWORD" -eq 2 ] && { [ "$command" = kernel ] || [ "$command" = atomics ]; }; then
        COMPREPLY=($(compgen -W "$(reckon kernel --list 2>/dev/null | awk '/^[a-z]/ { print $1 }')" -- "$word"))
    elif [ "$COMP_CWORD" -eq 2 ] && [ "$command" = devices ]; then
        COMPREPLY=($(compgen -W "$(_reckon_devices)" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _reckon reckon
