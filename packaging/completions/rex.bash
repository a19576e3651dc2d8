# Completion of rex for bash, printed by `rex completions bash`.
_rex() {
    local line=${COMP_LINE:0:COMP_POINT} words=() index word current prefix
    # Readline splits words at `:` and `=`; rex needs them as they were typed.
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if ((index == 0)) || [[ $line == [[:space:]]* ]]; then
            words+=("")
        fi
        line=${line#"${line%%[![:space:]]*}"}
        ((index == COMP_CWORD)) && word=$line
        words[${#words[@]} - 1]+=$word
        line=${line#"$word"}
    done
    current=${words[${#words[@]} - 1]}
    # What it replaces is the part behind the last split.
    [[ $COMP_WORDBREAKS == *:* ]] && prefix=${current%"${current##*[:=]}"}
    mapfile -t COMPREPLY < <("${words[0]}" complete -- "${words[@]}" 2>/dev/null)
    for index in "${!COMPREPLY[@]}"; do
        printf -v "COMPREPLY[index]" %q "${COMPREPLY[index]#"$prefix"}"
    done
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[/:=] ]]; then
        compopt -o nospace
    fi
}
complete -F _rex rex
