# bash completion for rexd
_rexd() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' word at
    for ((at = 1; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        case $word in
            serve|exec-server|stringd|host|run|doctor|check-config|audit|policy|version|help) command=$word; break ;;
        esac
    done
    COMPREPLY=()
    case $previous in
        --config|--tls-cert|--tls-key|--client-ca|--ws-token-file|--unix|--read|--write|--remove)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return ;;
        --root|--cwd)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            return ;;
        --http|--stringd|--hub|--host-id|--join|--tool|--remote|--executor-id|--name|--concurrent-requests|--ws-token-sha256|--client|--caller|--shell|--session|--operation|--rule|--since|--until|--limit) return ;;
        --face)
            mapfile -t COMPREPLY < <(compgen -W 'rexd exec-server stringd host' -- "$current")
            return ;;
        --decision)
            mapfile -t COMPREPLY < <(compgen -W 'allow deny ask approved denied timed_out withdrawn' -- "$current")
            return ;;
        --listen)
            mapfile -t COMPREPLY < <(compgen -W 'ws://127.0.0.1:0 stdio' -- "$current")
            return ;;
        --ws-auth)
            mapfile -t COMPREPLY < <(compgen -W 'capability-token' -- "$current")
            return ;;
        --exec-server)
            mapfile -t COMPREPLY < <(compgen -W 'ws://127.0.0.1:0' -- "$current")
            return ;;
    esac
    local serving='--config --root --stdio --http --unix --exec-server --stringd --hub --host-id --join --tls-cert --tls-key --client-ca --ws-auth --ws-token-file --ws-token-sha256'
    local words
    case $command in
        '') words="serve exec-server stringd host run doctor check-config audit policy version help $serving --help --version -h -V" ;;
        serve) words="$serving --help" ;;
        exec-server) words='--listen --remote --executor-id --name --concurrent-requests --ws-auth --ws-token-file --ws-token-sha256 --config --root --help' ;;
        stringd) words='--log --config --root --help' ;;
        host) words='--hub --host-id --join --config --root --help' ;;
        run) words='--tool --config --help' ;;
        doctor) words='--json --config --root --help' ;;
        check-config) words='--config --root --help' ;;
        audit) words='verify show --config --json --face --client --caller --session --operation --decision --rule --since --until --failed --limit --help' ;;
        policy) words='test explain replay --config --json --face --client --caller --cwd --shell --read --write --remove --help' ;;
        *) words='--help' ;;
    esac
    if [[ $current != -* && ( $command == check-config || $previous == verify || $previous == show || $previous == replay ) ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _rexd rexd
