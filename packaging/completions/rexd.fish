# fish completion for rexd
set -l commands serve exec-server doctor check-config audit policy version help
set -l alone "not __fish_seen_subcommand_from $commands"
set -l serving "not __fish_seen_subcommand_from exec-server doctor check-config audit policy version help"
set -l configured "not __fish_seen_subcommand_from version help"

complete -c rexd -f
complete -c rexd -n $alone -a serve -d 'Serve every face that flags or the configuration name'
complete -c rexd -n $alone -a exec-server -d 'Serve Codex, directly or through a hub'
complete -c rexd -n $alone -a doctor -d 'What works here and what does not'
complete -c rexd -n $alone -a check-config -d 'Read the configuration and print what it comes to'
complete -c rexd -n $alone -a audit -d 'Check or show an audit file'
complete -c rexd -n $alone -a policy -d 'Ask the policy'
complete -c rexd -n $alone -a version -d 'Print the version'
complete -c rexd -n $alone -a help -d 'Show the help'

# --config FILE, --root DIR
complete -c rexd -n $configured -l config -r -F -d 'The configuration'
complete -c rexd -n $configured -l root -x -a '(__fish_complete_directories)' -d 'A directory to serve'
# --stdio, --http ADDR, --unix PATH, --exec-server URL, --stringd PORT, --hub URL
complete -c rexd -n $serving -l stdio -d 'Serve on standard input and output'
complete -c rexd -n $serving -l http -x -d 'Serve over HTTP and WebSocket'
complete -c rexd -n $serving -l unix -r -F -d 'Serve on a unix socket'
complete -c rexd -n $serving -l exec-server -x -a 'ws://127.0.0.1:0' -d 'Serve the exec-server face'
complete -c rexd -n $serving -l stringd -x -d 'Serve the stringd face on 127.0.0.1'
complete -c rexd -n $serving -l hub -x -d 'Dial a hub and serve through it'
# --tls-cert FILE, --tls-key FILE, --client-ca FILE
complete -c rexd -n $serving -l tls-cert -r -F -d 'Certificate chain of the listeners'
complete -c rexd -n $serving -l tls-key -r -F -d 'Key of the listeners'
complete -c rexd -n $serving -l client-ca -r -F -d 'Who signs the certificates of clients'
# --listen URL, --remote URL, --executor-id ID, --name NAME
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l listen -x -a 'ws://127.0.0.1:0 stdio' -d 'Where to listen'
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l remote -x -d 'The registry to register at'
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l executor-id -x -d 'Its name there'
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l name -x -d 'Its name for people'
# --ws-auth WAY, --ws-token-file FILE, --ws-token-sha256 HEX
complete -c rexd -n '__fish_seen_subcommand_from serve exec-server' -l ws-auth -x -a capability-token -d 'What clients show'
complete -c rexd -n '__fish_seen_subcommand_from serve exec-server' -l ws-token-file -r -F -d 'The file with their token'
complete -c rexd -n '__fish_seen_subcommand_from serve exec-server' -l ws-token-sha256 -x -d 'Its digest'
# --json, --help, --version
complete -c rexd -n '__fish_seen_subcommand_from doctor audit policy' -l json -d 'For programs'
complete -c rexd -n '__fish_seen_subcommand_from audit' -a verify -d 'Check the chain of a file'
complete -c rexd -n '__fish_seen_subcommand_from audit' -a show -d 'Show what was asked'
complete -c rexd -n '__fish_seen_subcommand_from verify show replay check-config' -F
# --face NAME, --client NAME, --caller NAME
complete -c rexd -n '__fish_seen_subcommand_from audit policy' -l face -x -a rexd -d 'The face'
complete -c rexd -n '__fish_seen_subcommand_from audit policy' -l client -x -d 'The name of the client'
complete -c rexd -n '__fish_seen_subcommand_from audit policy' -l caller -x -d 'Who asks'
# --session ID, --operation GLOB, --decision WORD, --rule GLOB, --since TIME, --until TIME, --failed, --limit N
complete -c rexd -n '__fish_seen_subcommand_from show' -l session -x -d 'Only this session'
complete -c rexd -n '__fish_seen_subcommand_from show' -l operation -x -d 'Only these operations'
complete -c rexd -n '__fish_seen_subcommand_from show' -l decision -x -a 'allow deny ask approved denied timed_out withdrawn'
complete -c rexd -n '__fish_seen_subcommand_from show' -l rule -x -d 'Only by these rules'
complete -c rexd -n '__fish_seen_subcommand_from show' -l since -x -d 'Not before'
complete -c rexd -n '__fish_seen_subcommand_from show' -l until -x -d 'Before'
complete -c rexd -n '__fish_seen_subcommand_from show' -l failed -d 'Only what failed'
complete -c rexd -n '__fish_seen_subcommand_from show' -l limit -x -d 'Only the last so many'
# --cwd DIR, --shell TEXT, --read PATH, --write PATH, --remove PATH
complete -c rexd -n '__fish_seen_subcommand_from policy' -a 'test explain replay'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l cwd -x -a '(__fish_complete_directories)' -d 'Where it starts'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l shell -x -d 'Ask about shell text'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l read -r -F -d 'Ask about reading'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l write -r -F -d 'Ask about writing'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l remove -r -F -d 'Ask about removing'
complete -c rexd -s h -l help -d 'Show the help'
complete -c rexd -n $alone -s V -l version -d 'Print the version'
