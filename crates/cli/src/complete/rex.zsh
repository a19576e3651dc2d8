#compdef rex
# Completion of rex for zsh, printed by `rex completions zsh`.
_rex() {
    local -a found open
    found=("${(@f)$("${words[1]}" complete -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    open=("${(@M)found:#*[/:=]}")
    found=("${(@)found:#(*[/:=]|)}")
    ((${#open})) && compadd -S '' -- "${open[@]}"
    ((${#found})) && compadd -- "${found[@]}"
}
if [[ ${funcstack[1]} == _rex ]]; then
    _rex "$@"
else
    compdef _rex rex
fi
