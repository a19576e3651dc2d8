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
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "user" -d 'Create, list and remove users; a running hub applies changes at once'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "token" -d 'Create, list and remove tokens; a running hub applies changes at once'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "join-code" -d 'Print a code with which one host enrols within 15 minutes'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "host" -d 'List and remove hosts'
complete -c rexhub -n "__fish_rexhub_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l listen -d 'Address to listen on; port 0 selects a free port' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l tls-cert -d 'TLS certificate chain in PEM' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l tls-key -d 'TLS private key in PEM' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l public-url -d 'URL of the hub for its clients, if it is behind a proxy' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l enrol -d 'How new hosts enrol [default: tofu on a loopback address without --public-url, otherwise code]' -r -f -a "tofu\t'The first host with an id keeps it (trust on first use)'
code\t'A new host needs a code of `rexhub join-code`'"
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l keep-days -d 'Days after which an ended run is removed' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l keep-gib -d 'Size of all events in GiB, beyond which the oldest ended runs are removed' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l ca-cert -d 'Certificate of an own authority in PEM, to be offered to browsers at /ca.crt' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l nats -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -l push-allow-private -d 'Send push notices and webhooks also to private addresses and without TLS'
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rexhub -n "__fish_rexhub_using_subcommand serve" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and not __fish_seen_subcommand_from add link list remove help" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and not __fish_seen_subcommand_from add link list remove help" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and not __fish_seen_subcommand_from add link list remove help" -f -a "add" -d 'Create a user'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and not __fish_seen_subcommand_from add link list remove help" -f -a "link" -d 'Print a link with which a user signs in once within 15 minutes'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and not __fish_seen_subcommand_from add link list remove help" -f -a "list" -d 'List users'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and not __fish_seen_subcommand_from add link list remove help" -f -a "remove" -d 'Remove a user and end all sign-ins'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and not __fish_seen_subcommand_from add link list remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from add" -l role -d 'Role: a viewer watches, an operator also starts, types and approves, an admin also manages' -r -f -a "viewer\t'Watches runs'
operator\t'Also starts runs, types and approves'
admin\t'Also manages users, hosts and tokens'"
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from add" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from add" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from add" -l password-stdin -d 'Read the password from standard input; without it, the user signs in with `rexhub user link`'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from add" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from link" -l url -d 'URL of the hub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from link" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from link" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from link" -l qr -d 'Also print the link as a QR code on stderr'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from link" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from link" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from list" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from list" -l json -d 'Print JSON, one object per line'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from remove" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from remove" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "add" -d 'Create a user'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "link" -d 'Print a link with which a user signs in once within 15 minutes'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "list" -d 'List users'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a user and end all sign-ins'
complete -c rexhub -n "__fish_rexhub_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -f -a "add" -d 'Create a token and print it; it is not shown again'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -f -a "list" -d 'List tokens'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -f -a "remove" -d 'Remove a token and close its connections'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and not __fish_seen_subcommand_from add list remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -l kind -d 'Use of the token' -r -f -a "executor\t'Registers an executor and serves it'
harness\t'Connects to executors: a Codex client'
client\t'Uses the hub\'s API'"
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -l role -d 'Role of a client token' -r -f -a "viewer\t'Watches runs'
operator\t'Also starts runs, types and approves'
admin\t'Also manages users, hosts and tokens'"
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from add" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -l json -d 'Print JSON, one object per line'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from remove" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from remove" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "add" -d 'Create a token and print it; it is not shown again'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "list" -d 'List tokens'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a token and close its connections'
complete -c rexhub -n "__fish_rexhub_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand join-code" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand join-code" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand join-code" -l qr -d 'Also print the code as a QR code on stderr'
complete -c rexhub -n "__fish_rexhub_using_subcommand join-code" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand join-code" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and not __fish_seen_subcommand_from list remove help" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and not __fish_seen_subcommand_from list remove help" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and not __fish_seen_subcommand_from list remove help" -f -a "list" -d 'List hosts'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and not __fish_seen_subcommand_from list remove help" -f -a "remove" -d 'Remove a host and close its connection; its runs are kept'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and not __fish_seen_subcommand_from list remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from list" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from list" -l json -d 'Print JSON, one object per line'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from remove" -l data -d 'Data directory [default: $XDG_DATA_HOME/rexhub]' -r -F
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from remove" -l database -d 'PostgreSQL database instead of the data directory, such as postgres://rexhub@localhost/rexhub' -r
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from help" -f -a "list" -d 'List hosts'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a host and close its connection; its runs are kept'
complete -c rexhub -n "__fish_rexhub_using_subcommand host; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve user token join-code host help" -f -a "serve" -d 'Run the hub; prints `listening URL` when it is ready'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve user token join-code host help" -f -a "user" -d 'Create, list and remove users; a running hub applies changes at once'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve user token join-code host help" -f -a "token" -d 'Create, list and remove tokens; a running hub applies changes at once'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve user token join-code host help" -f -a "join-code" -d 'Print a code with which one host enrols within 15 minutes'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve user token join-code host help" -f -a "host" -d 'List and remove hosts'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and not __fish_seen_subcommand_from serve user token join-code host help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "add" -d 'Create a user'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "link" -d 'Print a link with which a user signs in once within 15 minutes'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "list" -d 'List users'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "remove" -d 'Remove a user and end all sign-ins'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "add" -d 'Create a token and print it; it is not shown again'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "list" -d 'List tokens'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "remove" -d 'Remove a token and close its connections'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from host" -f -a "list" -d 'List hosts'
complete -c rexhub -n "__fish_rexhub_using_subcommand help; and __fish_seen_subcommand_from host" -f -a "remove" -d 'Remove a host and close its connection; its runs are kept'
