# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_rexhub_global_optspecs
    string join \n h/help V/version
end

function __fish_rexhub_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_rexhub_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_rexhub_using_subcommand
    set -l cmd (__fish_rexhub_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c rexhub -n "__fish_rexhub_needs_command" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_needs_command" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "serve" -d 'Run the hub; prints `listening URL` when it is ready'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "token" -d 'Create, list and remove tokens; a running hub applies changes at once'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "user" -d 'Manage users of the web (not supported yet)'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "join-code" -d 'Manage enrolment codes of hosts (not supported yet)'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "host" -d 'Manage hosts (not supported yet)'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l listen -d 'Address to listen on; port 0 selects a free port' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l tls-cert -d 'TLS certificate chain in PEM' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l tls-key -d 'TLS private key in PEM' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l public-url -d 'URL of the hub for executors, if it is behind a proxy' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l nats -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l enrol -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l database -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -f -a "add" -d 'Create a token and print it; it is not shown again'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -f -a "list" -d 'List tokens'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -f -a "remove" -d 'Remove a token and close its connections'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -l kind -d 'Use of the token' -r -f -a "executor\t'Registers an executor and serves it'
harness\t'Connects to executors: a Codex client'
client\t'Uses the hub\'s API'"
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -l database -r
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -l database -r
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -l json -d 'Print JSON, one object per line'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from remove" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from remove" -l database -r
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "add" -d 'Create a token and print it; it is not shown again'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "list" -d 'List tokens'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a token and close its connections'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand user" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand user" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand join-code" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand join-code" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand host" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand host" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve token user join-code host help" -f -a "serve" -d 'Run the hub; prints `listening URL` when it is ready'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve token user join-code host help" -f -a "token" -d 'Create, list and remove tokens; a running hub applies changes at once'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve token user join-code host help" -f -a "user" -d 'Manage users of the web (not supported yet)'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve token user join-code host help" -f -a "join-code" -d 'Manage enrolment codes of hosts (not supported yet)'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve token user join-code host help" -f -a "host" -d 'Manage hosts (not supported yet)'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve token user join-code host help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "add" -d 'Create a token and print it; it is not shown again'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "list" -d 'List tokens'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "remove" -d 'Remove a token and close its connections'
