# bash completion of reckon(1). Commands, options and names come from the program itself, so that they are never out of date.
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
        COMPREPLY=($(compgen -P "$list" -W "$(reckon devices --json 2>/dev/null | awk -F'"' '$2 == "name" { print $4 }')" -- "${word##*,}"))
        return ;;
    --html|--json-file|--perfetto|--svg|--db|-o|--from|--splits|--platform|--fit|--check)
        COMPREPLY=($(compgen -f -- "$word"))
        return ;;
    --mode) words="model anchored" ;;
    --engine) words="fluid simgrid" ;;
    --chip-engine) words="fast reference" ;;
    esac
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    elif [ "${word#-}" != "$word" ]; then
        COMPREPLY=($(compgen -W "$(reckon "$command" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*' | sort -u)" -- "$word"))
    elif [ "$COMP_CWORD" -eq 2 ] && { [ "$command" = kernel ] || [ "$command" = atomics ]; }; then
        COMPREPLY=($(compgen -W "$(reckon kernel --list 2>/dev/null | awk '/^[a-z]/ { print $1 }')" -- "$word"))
    elif [ "$COMP_CWORD" -eq 2 ] && [ "$command" = devices ]; then
        COMPREPLY=($(compgen -W "$(reckon devices --json 2>/dev/null | awk -F'"' '$2 == "name" { print $4 }')" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _reckon reckon
