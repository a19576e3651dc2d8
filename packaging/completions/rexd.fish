# fish completion for rexd
set -l commands serve exec-server stringd host run doctor check-config audit policy version help
set -l alone "not __fish_seen_subcommand_from $commands"
set -l serving "not __fish_seen_subcommand_from exec-server stringd run doctor check-config audit policy version help"
set -l configured "not __fish_seen_subcommand_from version help"

complete -c rexd -f
complete -c rexd -n $alone -a serve -d 'Serve the listeners of options and configuration'
complete -c rexd -n $alone -a exec-server -d 'Serve Codex, directly or through a hub'
complete -c rexd -n $alone -a stringd -d 'Serve String agents on 127.0.0.1'
complete -c rexd -n $alone -a host -d 'Dial out to hubs and serve their users'
complete -c rexd -n $alone -a run -d 'Start a run on the running host and attach to it'
complete -c rexd -n $alone -a doctor -d 'Check which features work on this machine'
complete -c rexd -n $alone -a check-config -d 'Print the effective configuration'
complete -c rexd -n $alone -a audit -d 'Verify or show an audit file'
complete -c rexd -n $alone -a policy -d 'Test the policy'
complete -c rexd -n $alone -a version -d 'Print the version'
complete -c rexd -n $alone -a help -d 'Print help'

# --config FILE, --root DIR
complete -c rexd -n $configured -l config -r -F -d 'Configuration file'
complete -c rexd -n $configured -l root -x -a '(__fish_complete_directories)' -d 'Serve this directory'
# --stdio, --http ADDR, --unix PATH, --exec-server URL, --stringd PORT, --hub URL
complete -c rexd -n $serving -l stdio -d 'Serve on standard input and output'
complete -c rexd -n $serving -l http -x -d 'Serve HTTP and WebSocket'
complete -c rexd -n $serving -l unix -r -F -d 'Serve a unix socket'
complete -c rexd -n $serving -l exec-server -x -a 'ws://127.0.0.1:0' -d 'Serve exec-server'
complete -c rexd -n $serving -l stringd -x -d 'Serve stringd on 127.0.0.1'
complete -c rexd -n '__fish_seen_subcommand_from stringd' -l log -d 'Write its own log'
complete -c rexd -n $serving -l hub -x -d 'Connect to a hub and serve its users'
# --host-id ID, --join CODE, --tool NAME
complete -c rexd -n $serving -l host-id -x -d 'Id of this host'
complete -c rexd -n $serving -l join -x -d 'Code for the enrolment'
complete -c rexd -n '__fish_seen_subcommand_from run' -l tool -x -d 'Name of the tool'
# --tls-cert FILE, --tls-key FILE, --client-ca FILE
complete -c rexd -n $serving -l tls-cert -r -F -d 'TLS certificate chain'
complete -c rexd -n $serving -l tls-key -r -F -d 'TLS key'
complete -c rexd -n $serving -l client-ca -r -F -d 'CA of client certificates'
# --listen URL, --remote URL, --executor-id ID, --name NAME, --concurrent-requests N
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l listen -x -a 'ws://127.0.0.1:0 stdio' -d 'Listen address'
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l remote -x -d 'Hub to register at'
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l executor-id -x -d 'Id at the hub'
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l name -x -d 'Display name'
complete -c rexd -n '__fish_seen_subcommand_from exec-server' -l concurrent-requests -x -d 'Requests of one connection that run at once'
# --ws-auth METHOD, --ws-token-file FILE, --ws-token-sha256 HEX
complete -c rexd -n '__fish_seen_subcommand_from serve exec-server' -l ws-auth -x -a capability-token -d 'Authentication of clients'
complete -c rexd -n '__fish_seen_subcommand_from serve exec-server' -l ws-token-file -r -F -d 'File with their token'
complete -c rexd -n '__fish_seen_subcommand_from serve exec-server' -l ws-token-sha256 -x -d 'SHA-256 of their token'
# --json, --help, --version
complete -c rexd -n '__fish_seen_subcommand_from doctor audit policy' -l json -d 'Print JSON'
complete -c rexd -n '__fish_seen_subcommand_from audit' -a verify -d 'Verify the hash chain'
complete -c rexd -n '__fish_seen_subcommand_from audit' -a show -d 'Print recorded requests'
complete -c rexd -n '__fish_seen_subcommand_from verify show replay check-config' -F
# --face NAME, --client NAME, --caller NAME
complete -c rexd -n '__fish_seen_subcommand_from audit policy' -l face -x -a 'rexd exec-server' -d 'Protocol'
complete -c rexd -n '__fish_seen_subcommand_from audit policy' -l client -x -d 'Name that the client sends'
complete -c rexd -n '__fish_seen_subcommand_from audit policy' -l caller -x -d 'Authenticated caller'
# --session ID, --operation GLOB, --decision WORD, --rule GLOB, --since TIME, --until TIME, --failed, --limit N
complete -c rexd -n '__fish_seen_subcommand_from show' -l session -x -d 'Only this session'
complete -c rexd -n '__fish_seen_subcommand_from show' -l operation -x -d 'Only these operations'
complete -c rexd -n '__fish_seen_subcommand_from show' -l decision -x -a 'allow deny ask approved denied timed_out withdrawn'
complete -c rexd -n '__fish_seen_subcommand_from show' -l rule -x -d 'Only these rules'
complete -c rexd -n '__fish_seen_subcommand_from show' -l since -x -d 'Not before'
complete -c rexd -n '__fish_seen_subcommand_from show' -l until -x -d 'Before'
complete -c rexd -n '__fish_seen_subcommand_from show' -l failed -d 'Only failed requests'
complete -c rexd -n '__fish_seen_subcommand_from show' -l limit -x -d 'Only the last N records'
# --cwd DIR, --shell TEXT, --read PATH, --write PATH, --remove PATH
complete -c rexd -n '__fish_seen_subcommand_from policy' -a 'test explain replay'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l cwd -x -a '(__fish_complete_directories)' -d 'Working directory'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l shell -x -d 'Decide shell text'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l read -r -F -d 'Decide a read'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l write -r -F -d 'Decide a write'
complete -c rexd -n '__fish_seen_subcommand_from policy' -l remove -r -F -d 'Decide a removal'
complete -c rexd -s h -l help -d 'Print help'
complete -c rexd -n $alone -s V -l version -d 'Print the version'
