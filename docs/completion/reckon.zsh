#compdef reckon
# zsh completion of reckon(1), installed as _reckon. Commands, options and names come from the program itself, as in reckon.bash.
local command=${words[2]} before=${words[CURRENT-1]}
if (( CURRENT == 2 )); then
    compadd -- ${(f)"$(reckon --help 2>/dev/null | awk '/^  [a-z]/ && $1 != "reckon" { print $1 }')"} --help --version
    return
fi
case $before in
-d|--device|--base)
    compset -P '*,' # the last of a list D1,D2
    compadd -- ${(f)"$(reckon devices --json 2>/dev/null | awk -F'"' '$2 == "name" { print $4 }')"}
    return ;;
--mode) compadd -- model; return ;;
--engine) compadd -- fluid simgrid; return ;;
--chip-engine) compadd -- fast reference; return ;;
--route) compadd -- trace model; return ;;
--cache) compadd -- clean own predecessor flushed; return ;;
--trans) compadd -- nt nn tt tn; return ;;
--dtype) compadd -- bf16 fp16 tf32 fp32 fp8; return ;;
--protocol) compadd -- simple LL LL128 LL64; return ;;
esac
if [[ $PREFIX == -* ]]; then
    compadd -- ${(f)"$(reckon $command --help 2>/dev/null | sed -n -e 's/^  -[a-z], \(--[a-z][a-z-]*\).*/\1/p' -e 's/^      \(--[a-z][a-z-]*\).*/\1/p')"} --help
elif (( CURRENT == 3 )) && [[ $command == (kernel|atomics) ]]; then
    compadd -- ${(f)"$(reckon kernel --list 2>/dev/null | awk '/^[a-z]/ { print $1 }')"}
elif (( CURRENT == 3 )) && [[ $command == devices ]]; then
    compadd -- ${(f)"$(reckon devices --json 2>/dev/null | awk -F'"' '$2 == "name" { print $4 }')"}
else
    _files
fi
