# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_rex_global_optspecs
    string join \n t/target= json h/help V/version
end

function __fish_rex_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_rex_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_rex_using_subcommand
    set -l cmd (__fish_rex_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c rex -n "__fish_rex_needs_command" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_needs_command" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_needs_command" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_needs_command" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_needs_command" -f -a "exec" -d 'Run a command and exit with its status'
complete -c rex -n "__fish_rex_needs_command" -f -a "shell" -d 'Open a shell in a terminal; `Enter ~ .` detaches, `rex attach` reattaches'
complete -c rex -n "__fish_rex_needs_command" -f -a "attach" -d 'Reattach to a process: show its output and send it input'
complete -c rex -n "__fish_rex_needs_command" -f -a "logs" -d 'Print the output of a process, running or exited'
complete -c rex -n "__fish_rex_needs_command" -f -a "ps" -d 'List processes, including detached ones'
complete -c rex -n "__fish_rex_needs_command" -f -a "kill" -d 'Kill a process and its children, or send it a signal'
complete -c rex -n "__fish_rex_needs_command" -f -a "wait" -d 'Wait for a process and exit with its status'
complete -c rex -n "__fish_rex_needs_command" -f -a "read" -d 'Print a file, byte for byte'
complete -c rex -n "__fish_rex_needs_command" -f -a "write" -d 'Write stdin to a file'
complete -c rex -n "__fish_rex_needs_command" -f -a "edit" -d 'Replace text in a file'
complete -c rex -n "__fish_rex_needs_command" -f -a "patch" -d 'Apply a patch from stdin, completely or not at all'
complete -c rex -n "__fish_rex_needs_command" -f -a "ls" -d 'List a directory'
complete -c rex -n "__fish_rex_needs_command" -f -a "glob" -d 'Find files by pattern, such as `**/*.rs`'
complete -c rex -n "__fish_rex_needs_command" -f -a "grep" -d 'Search the contents of files'
complete -c rex -n "__fish_rex_needs_command" -f -a "stat" -d 'Show type, size, mode, owner and time of a path'
complete -c rex -n "__fish_rex_needs_command" -f -a "watch" -d 'Report changes below a path until Ctrl-C'
complete -c rex -n "__fish_rex_needs_command" -f -a "cp" -d 'Copy files to, from or between targets'
complete -c rex -n "__fish_rex_needs_command" -f -a "target" -d 'Manage targets: add, test, choose, and install rexd on them'
complete -c rex -n "__fish_rex_needs_command" -f -a "approvals" -d 'List and answer approval requests'
complete -c rex -n "__fish_rex_needs_command" -f -a "login" -d 'Sign in to a hub, which then carries `-t hub:HOST`'
complete -c rex -n "__fish_rex_needs_command" -f -a "logout" -d 'Sign out of a hub'
complete -c rex -n "__fish_rex_needs_command" -f -a "hosts" -d 'List the hosts of a hub'
complete -c rex -n "__fish_rex_needs_command" -f -a "runs" -d 'List, watch, start and control the runs on the hosts of a hub'
complete -c rex -n "__fish_rex_needs_command" -f -a "mcp" -d 'Serve the tools to an agent through MCP, or configure an agent to use them'
complete -c rex -n "__fish_rex_needs_command" -f -a "tools" -d 'Print the schemas of the tools, for your own agent'
complete -c rex -n "__fish_rex_needs_command" -f -a "call" -d 'Call one tool, as an agent does'
complete -c rex -n "__fish_rex_needs_command" -f -a "up" -d 'Run a demonstration on a sample workspace or on yours'
complete -c rex -n "__fish_rex_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c rex -n "__fish_rex_needs_command" -f -a "man" -d 'Write the manual pages to a directory'
complete -c rex -n "__fish_rex_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand exec" -l timeout -d 'Kill the command after this time, such as 30s, 5m or 2h [default: the limit of the host]' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -s e -l env -d 'Set an environment variable; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -s C -l cwd -d 'Working directory on the target' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -l sandbox -d 'Run in a sandbox: read-only or workspace-write' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -l tty -d 'Allocate a terminal'
complete -c rex -n "__fish_rex_using_subcommand exec" -s d -l detach -d 'Detach: print the process id and exit; the process survives the connection and the daemon'
complete -c rex -n "__fish_rex_using_subcommand exec" -s n -l no-stdin -d 'Do not forward stdin; the command reads end of file'
complete -c rex -n "__fish_rex_using_subcommand exec" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand exec" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand exec" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand shell" -s C -l cwd -d 'Working directory on the target' -r
complete -c rex -n "__fish_rex_using_subcommand shell" -s e -l env -d 'Set an environment variable; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand shell" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand shell" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand shell" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand shell" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand attach" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand attach" -l new -d 'Skip the output so far'
complete -c rex -n "__fish_rex_using_subcommand attach" -s i -l input -d 'Forward stdin even if it is not a terminal'
complete -c rex -n "__fish_rex_using_subcommand attach" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand attach" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand attach" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand logs" -l cursor -d 'Start at this offset of the output' -r
complete -c rex -n "__fish_rex_using_subcommand logs" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand logs" -s f -l follow -d 'Follow the output until the process exits'
complete -c rex -n "__fish_rex_using_subcommand logs" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand logs" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand logs" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand ps" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand ps" -s a -l all -d 'Include exited processes'
complete -c rex -n "__fish_rex_using_subcommand ps" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand ps" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand ps" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand kill" -s s -l signal -d 'Send this signal instead of killing the process' -r
complete -c rex -n "__fish_rex_using_subcommand kill" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand kill" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand kill" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand kill" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand wait" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand wait" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand wait" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand wait" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand read" -l offset -d 'First byte to print, from 0' -r
complete -c rex -n "__fish_rex_using_subcommand read" -l length -d 'Number of bytes to print [default: all]' -r
complete -c rex -n "__fish_rex_using_subcommand read" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand read" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand read" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand read" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand write" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand write" -l append -d 'Append to the file instead of replacing it'
complete -c rex -n "__fish_rex_using_subcommand write" -l create -d 'Fail if the file exists'
complete -c rex -n "__fish_rex_using_subcommand write" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand write" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand write" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand edit" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand edit" -s a -l all -d 'Replace every occurrence'
complete -c rex -n "__fish_rex_using_subcommand edit" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand edit" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand edit" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand patch" -s C -l cwd -d 'Directory that relative paths in the patch start from' -r
complete -c rex -n "__fish_rex_using_subcommand patch" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand patch" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand patch" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand patch" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand ls" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand ls" -s R -l recursive -d 'List subdirectories recursively'
complete -c rex -n "__fish_rex_using_subcommand ls" -s l -l long -d 'Show sizes and times'
complete -c rex -n "__fish_rex_using_subcommand ls" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand ls" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand ls" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand glob" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand glob" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand glob" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand glob" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand grep" -s g -l include -d 'Search only files that match this glob; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -l exclude -d 'Skip files that match this glob; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -s C -l context -d 'Lines of context around each match' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -s m -l max-matches -d 'Stop after this many matches' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -s F -l literal -d 'Match the pattern literally'
complete -c rex -n "__fish_rex_using_subcommand grep" -s i -l ignore-case -d 'Ignore case'
complete -c rex -n "__fish_rex_using_subcommand grep" -s s -l case-sensitive -d 'Match case'
complete -c rex -n "__fish_rex_using_subcommand grep" -l hidden -d 'Search hidden files'
complete -c rex -n "__fish_rex_using_subcommand grep" -l no-ignore -d 'Search files that .gitignore excludes'
complete -c rex -n "__fish_rex_using_subcommand grep" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand grep" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand grep" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand stat" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand stat" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand stat" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand stat" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand watch" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand watch" -l flat -d 'Do not watch subdirectories'
complete -c rex -n "__fish_rex_using_subcommand watch" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand watch" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand watch" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand cp" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand cp" -l no-verify -d 'Skip the comparison of hashes'
complete -c rex -n "__fish_rex_using_subcommand cp" -l follow -d 'Follow symbolic links in a directory [default: skip them]'
complete -c rex -n "__fish_rex_using_subcommand cp" -s q -l quiet -d 'Do not show progress'
complete -c rex -n "__fish_rex_using_subcommand cp" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand cp" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand cp" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "add" -d 'Add a target under an alias'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "list" -d 'List the configured targets'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "use" -d 'Use a target by default; `-` clears the default'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "show" -d 'Show which target is used in this directory, and which rule chose it'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "remove" -d 'Remove an alias'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "test" -d 'Test a target step by step and report the step that fails'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "install" -d 'Install rexd on a machine over ssh, with access to the given directories only'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l cwd -d 'Working directory on the target' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l root -d 'Workspace root on the target, read by agent plugins; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s i -l identity -d 'ssh identity file (private key)' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s o -l ssh-option -d 'ssh option, such as -oPort=22; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l command -d 'Remote command that starts rexd [default: rexd --stdio from /usr/local/bin, ~/.local/bin or PATH]' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l hub -d 'Hub of a hub:HOST target [default: the hub of the last `rex login`]' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l token-file -d 'File that contains the token' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l ca-file -d 'CA certificates to trust instead of the system\'s' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l cert-file -d 'Client certificate' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l key-file -d 'Private key of the client certificate' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l prefix -d 'Use the target in this local directory and below; DIR=REMOTE also maps it to a directory on the target; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l force -d 'Replace an existing alias'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from list" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from list" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from use" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from use" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from use" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from use" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from show" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from show" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from remove" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from remove" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from test" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from test" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from test" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from test" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l root -d 'Directory that rexd may access; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l rexd -d 'rexd binary to install [default: the one next to rex]' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l alias -d 'Also add the machine as a target under this alias' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l into -d 'Directory to install to [default: /usr/local/bin if writable, else ~/.local/bin]' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add a target under an alias'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the configured targets'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "use" -d 'Use a target by default; `-` clears the default'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show which target is used in this directory, and which rule chose it'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove an alias'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "test" -d 'Test a target step by step and report the step that fails'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "install" -d 'Install rexd on a machine over ssh, with access to the given directories only'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "list" -d 'List pending approval requests'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "approve" -d 'Approve a request'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "deny" -d 'Deny a request'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "watch" -d 'Show requests as they arrive and prompt for an answer'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from list" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from list" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l scope -d 'Scope of the approval: once, session or rule' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from watch" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from watch" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from watch" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "list" -d 'List pending approval requests'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "approve" -d 'Approve a request'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "deny" -d 'Deny a request'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "watch" -d 'Show requests as they arrive and prompt for an answer'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand login" -s u -l user -d 'User name [default: prompt for it]' -r
complete -c rex -n "__fish_rex_using_subcommand login" -l ca-file -d 'CA certificates to trust instead of the system\'s' -r -F
complete -c rex -n "__fish_rex_using_subcommand login" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand login" -l password-stdin -d 'Read the password from the first line of stdin instead of the terminal'
complete -c rex -n "__fish_rex_using_subcommand login" -l token-stdin -d 'Read a client token from the first line of stdin instead of signing in with a password'
complete -c rex -n "__fish_rex_using_subcommand login" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand login" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand login" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand logout" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand logout" -l everywhere -d 'End all sign-ins of this user, on every machine'
complete -c rex -n "__fish_rex_using_subcommand logout" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand logout" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand logout" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand hosts" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand hosts" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand hosts" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand hosts" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -f -a "list" -d 'List the runs of all hosts, or of the host of `-t hub:HOST`'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -f -a "watch" -d 'Print the output of a run until it ends, and exit with its status'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -f -a "start" -d 'Start a run on the host of `-t hub:HOST` and print its id'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -f -a "send" -d 'Type text into a run, followed by Enter; without TEXT, send stdin unchanged'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -f -a "stop" -d 'Stop a run'
complete -c rex -n "__fish_rex_using_subcommand runs; and not __fish_seen_subcommand_from list watch start send stop help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from list" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from list" -s a -l all -d 'Include runs that have ended'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from list" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from watch" -l since -d 'Skip output that is older than this, such as 30s, 5m or 2h' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from watch" -l after -d 'Start after this event; `--json` prints the number of each event as `seq`' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from watch" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from watch" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from watch" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from start" -s C -l cwd -d 'Working directory on the host [default: its first root]' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from start" -l tool -d 'Tool that is run: codex, claude, opencode, shell, …' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from start" -s e -l env -d 'Set an environment variable; repeatable' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from start" -s c -d 'Shell command line to run' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from start" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from start" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from start" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from start" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from send" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from send" -s n -l no-enter -d 'Do not add Enter'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from send" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from send" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from send" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from stop" -s s -l signal -d 'Signal: term and kill end all of its processes, int interrupts it as Ctrl-C does' -r -f -a "term\t''
kill\t''
int\t''"
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from stop" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from stop" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from stop" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from stop" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the runs of all hosts, or of the host of `-t hub:HOST`'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from help" -f -a "watch" -d 'Print the output of a run until it ends, and exit with its status'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from help" -f -a "start" -d 'Start a run on the host of `-t hub:HOST` and print its id'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from help" -f -a "send" -d 'Type text into a run, followed by Enter; without TEXT, send stdin unchanged'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from help" -f -a "stop" -d 'Stop a run'
complete -c rex -n "__fish_rex_using_subcommand runs; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -l http -d 'Serve HTTP on this address instead of stdin and stdout; clients authenticate with a token' -r
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -l structured -d 'Add structured content and links to results, for clients that are programs; agents show it to the model instead of the text'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -f -a "install" -d 'Add the server to the configuration of an agent, after showing the change'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -l project -d 'Write the configuration of the current project instead of the user\'s'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -s y -l yes -d 'Write without a prompt'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -l dry-run -d 'Show the change without writing it'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "install" -d 'Add the server to the configuration of an agent, after showing the change'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand tools" -l format -d 'Format of the schemas' -r -f -a "openai\t''
anthropic\t''
json-schema\t''"
complete -c rex -n "__fish_rex_using_subcommand tools" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand tools" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand tools" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand tools" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand call" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand call" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand call" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand call" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand up" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand up" -l once -d 'ProcessExit after the demonstration'
complete -c rex -n "__fish_rex_using_subcommand up" -l lan -d 'Listen on the local network too; clients authenticate with the printed token'
complete -c rex -n "__fish_rex_using_subcommand up" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand up" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand up" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand completions" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand completions" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand completions" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand completions" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand man" -s t -l target -d 'Target to work on: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST or an alias (see `rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand man" -l json -d 'Print results as JSON, one line each, and errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand man" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand man" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "exec" -d 'Run a command and exit with its status'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "shell" -d 'Open a shell in a terminal; `Enter ~ .` detaches, `rex attach` reattaches'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "attach" -d 'Reattach to a process: show its output and send it input'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "logs" -d 'Print the output of a process, running or exited'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "ps" -d 'List processes, including detached ones'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "kill" -d 'Kill a process and its children, or send it a signal'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "wait" -d 'Wait for a process and exit with its status'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "read" -d 'Print a file, byte for byte'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "write" -d 'Write stdin to a file'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "edit" -d 'Replace text in a file'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "patch" -d 'Apply a patch from stdin, completely or not at all'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "ls" -d 'List a directory'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "glob" -d 'Find files by pattern, such as `**/*.rs`'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "grep" -d 'Search the contents of files'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "stat" -d 'Show type, size, mode, owner and time of a path'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "watch" -d 'Report changes below a path until Ctrl-C'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "cp" -d 'Copy files to, from or between targets'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "target" -d 'Manage targets: add, test, choose, and install rexd on them'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "approvals" -d 'List and answer approval requests'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "login" -d 'Sign in to a hub, which then carries `-t hub:HOST`'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "logout" -d 'Sign out of a hub'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "hosts" -d 'List the hosts of a hub'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "runs" -d 'List, watch, start and control the runs on the hosts of a hub'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "mcp" -d 'Serve the tools to an agent through MCP, or configure an agent to use them'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "tools" -d 'Print the schemas of the tools, for your own agent'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "call" -d 'Call one tool, as an agent does'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "up" -d 'Run a demonstration on a sample workspace or on yours'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "man" -d 'Write the manual pages to a directory'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals login logout hosts runs mcp tools call up completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "add" -d 'Add a target under an alias'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "list" -d 'List the configured targets'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "use" -d 'Use a target by default; `-` clears the default'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "show" -d 'Show which target is used in this directory, and which rule chose it'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "remove" -d 'Remove an alias'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "test" -d 'Test a target step by step and report the step that fails'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "install" -d 'Install rexd on a machine over ssh, with access to the given directories only'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "list" -d 'List pending approval requests'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "approve" -d 'Approve a request'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "deny" -d 'Deny a request'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "watch" -d 'Show requests as they arrive and prompt for an answer'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from runs" -f -a "list" -d 'List the runs of all hosts, or of the host of `-t hub:HOST`'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from runs" -f -a "watch" -d 'Print the output of a run until it ends, and exit with its status'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from runs" -f -a "start" -d 'Start a run on the host of `-t hub:HOST` and print its id'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from runs" -f -a "send" -d 'Type text into a run, followed by Enter; without TEXT, send stdin unchanged'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from runs" -f -a "stop" -d 'Stop a run'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "install" -d 'Add the server to the configuration of an agent, after showing the change'
