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

complete -c rex -n "__fish_rex_needs_command" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_needs_command" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_needs_command" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_needs_command" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_needs_command" -f -a "exec" -d 'Run a command; ends as it does'
complete -c rex -n "__fish_rex_needs_command" -f -a "shell" -d 'Open a terminal; Enter ~ . leaves it running, `rex attach` comes back'
complete -c rex -n "__fish_rex_needs_command" -f -a "attach" -d 'Take up a process again: its output so far, then as it comes; input goes to it'
complete -c rex -n "__fish_rex_needs_command" -f -a "logs" -d 'Show what a process has written, also one that has ended'
complete -c rex -n "__fish_rex_needs_command" -f -a "ps" -d 'List processes that run there, detached ones too'
complete -c rex -n "__fish_rex_needs_command" -f -a "kill" -d 'End a process with all of its children, or send it a signal'
complete -c rex -n "__fish_rex_needs_command" -f -a "wait" -d 'Wait for a process to end; ends as it did'
complete -c rex -n "__fish_rex_needs_command" -f -a "read" -d 'Print a file as it is'
complete -c rex -n "__fish_rex_needs_command" -f -a "write" -d 'Write stdin to a file'
complete -c rex -n "__fish_rex_needs_command" -f -a "edit" -d 'Replace a text that occurs once in a file'
complete -c rex -n "__fish_rex_needs_command" -f -a "patch" -d 'Apply a patch from stdin, whole or not at all'
complete -c rex -n "__fish_rex_needs_command" -f -a "ls" -d 'List a directory'
complete -c rex -n "__fish_rex_needs_command" -f -a "glob" -d 'Find paths by pattern, such as `**/*.rs`'
complete -c rex -n "__fish_rex_needs_command" -f -a "grep" -d 'Search the contents of files'
complete -c rex -n "__fish_rex_needs_command" -f -a "stat" -d 'Tell what a path is: kind, size, time, rights'
complete -c rex -n "__fish_rex_needs_command" -f -a "watch" -d 'Report what changes below a path, until Ctrl-C'
complete -c rex -n "__fish_rex_needs_command" -f -a "cp" -d 'Copy files and trees, either way or between targets'
complete -c rex -n "__fish_rex_needs_command" -f -a "target" -d 'Name the machines that work is done on, try them, put rexd there'
complete -c rex -n "__fish_rex_needs_command" -f -a "approvals" -d 'Decide what policy asks a person about'
complete -c rex -n "__fish_rex_needs_command" -f -a "mcp" -d 'Give an agent these tools: serve MCP, or write the agent\'s configuration'
complete -c rex -n "__fish_rex_needs_command" -f -a "tools" -d 'Print the tools\' schemas, for an agent of your own'
complete -c rex -n "__fish_rex_needs_command" -f -a "call" -d 'Call one tool as an agent would'
complete -c rex -n "__fish_rex_needs_command" -f -a "up" -d 'Show what this can do, on a sample workspace or yours'
complete -c rex -n "__fish_rex_needs_command" -f -a "completions" -d 'Print completions for a shell: bash, zsh or fish'
complete -c rex -n "__fish_rex_needs_command" -f -a "man" -d 'Write the manual pages into a directory'
complete -c rex -n "__fish_rex_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand exec" -l timeout -d 'End it after this long (30s, 5m, 2h); without it as long as the host allows' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -s e -l env -d 'Set a variable; may be given more than once' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -s C -l cwd -d 'Run it in this directory there' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -l sandbox -d 'Confine it by the kernel: read-only or workspace-write' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand exec" -l tty -d 'Give it a terminal, for programs that want one'
complete -c rex -n "__fish_rex_using_subcommand exec" -s d -l detach -d 'Let it outlive the link and the daemon; prints its id'
complete -c rex -n "__fish_rex_using_subcommand exec" -s n -l no-stdin -d 'Leave its stdin empty'
complete -c rex -n "__fish_rex_using_subcommand exec" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand exec" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand exec" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand shell" -s C -l cwd -d 'Start in this directory there' -r
complete -c rex -n "__fish_rex_using_subcommand shell" -s e -l env -d 'Set a variable; may be given more than once' -r
complete -c rex -n "__fish_rex_using_subcommand shell" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand shell" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand shell" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand shell" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand attach" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand attach" -l new -d 'Only what comes from now on'
complete -c rex -n "__fish_rex_using_subcommand attach" -s i -l input -d 'Send it our stdin, to its end, though that is no terminal'
complete -c rex -n "__fish_rex_using_subcommand attach" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand attach" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand attach" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand logs" -l cursor -d 'Start at this place in the output' -r
complete -c rex -n "__fish_rex_using_subcommand logs" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand logs" -s f -l follow -d 'Go on until it ends'
complete -c rex -n "__fish_rex_using_subcommand logs" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand logs" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand logs" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand ps" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand ps" -s a -l all -d 'Those that have ended, too'
complete -c rex -n "__fish_rex_using_subcommand ps" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand ps" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand ps" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand kill" -s s -l signal -d 'Send this signal instead of ending it' -r
complete -c rex -n "__fish_rex_using_subcommand kill" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand kill" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand kill" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand kill" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand wait" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand wait" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand wait" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand wait" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand read" -l offset -d 'First byte, from 0' -r
complete -c rex -n "__fish_rex_using_subcommand read" -l length -d 'How many bytes; without it all' -r
complete -c rex -n "__fish_rex_using_subcommand read" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand read" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand read" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand read" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand write" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand write" -l append -d 'Add to it instead of replacing it'
complete -c rex -n "__fish_rex_using_subcommand write" -l create -d 'Only if it does not exist yet'
complete -c rex -n "__fish_rex_using_subcommand write" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand write" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand write" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand edit" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand edit" -s a -l all -d 'Replace every occurrence'
complete -c rex -n "__fish_rex_using_subcommand edit" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand edit" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand edit" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand patch" -s C -l cwd -d 'Where its relative paths start' -r
complete -c rex -n "__fish_rex_using_subcommand patch" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand patch" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand patch" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand patch" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand ls" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand ls" -s R -l recursive -d 'With everything below'
complete -c rex -n "__fish_rex_using_subcommand ls" -s l -l long -d 'Sizes and times too'
complete -c rex -n "__fish_rex_using_subcommand ls" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand ls" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand ls" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand glob" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand glob" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand glob" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand glob" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand grep" -s g -l include -d 'Only files that match this glob; may be given more than once' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -l exclude -d 'No files that match this glob; may be given more than once' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -s C -l context -d 'Lines shown around each match' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -s m -l max-matches -d 'At most so many matches' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand grep" -s F -l literal -d 'Take the pattern as it is written'
complete -c rex -n "__fish_rex_using_subcommand grep" -s i -l ignore-case -d 'Ignore case'
complete -c rex -n "__fish_rex_using_subcommand grep" -s s -l case-sensitive -d 'Do not ignore case'
complete -c rex -n "__fish_rex_using_subcommand grep" -l hidden -d 'Dot files too'
complete -c rex -n "__fish_rex_using_subcommand grep" -l no-ignore -d 'Ignored files too'
complete -c rex -n "__fish_rex_using_subcommand grep" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand grep" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand grep" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand stat" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand stat" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand stat" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand stat" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand watch" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand watch" -l flat -d 'Not what is below'
complete -c rex -n "__fish_rex_using_subcommand watch" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand watch" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand watch" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand cp" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand cp" -l no-verify -d 'Do not compare hashes at the end'
complete -c rex -n "__fish_rex_using_subcommand cp" -l follow -d 'In a tree, copy what links lead to; without it they are left out'
complete -c rex -n "__fish_rex_using_subcommand cp" -s q -l quiet -d 'Show no progress'
complete -c rex -n "__fish_rex_using_subcommand cp" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand cp" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand cp" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "add" -d 'Remember a target under an alias'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "list" -d 'List what is remembered'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "use" -d 'Use this target from now on, unless something says otherwise; `-` for none'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "show" -d 'Tell which target is used here and which rule chose it'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "remove" -d 'Forget an alias'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "test" -d 'Try every step to a target; says which fails and what to do'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "install" -d 'Put rexd on a machine that ssh reaches, with a config that allows only the roots named'
complete -c rex -n "__fish_rex_using_subcommand target; and not __fish_seen_subcommand_from add list use show remove test install help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l cwd -d 'Where commands start there' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l root -d 'A root there, for the agents\' plugins; may be given more than once' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s i -l identity -d 'The key for ssh' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s o -l ssh-option -d 'An option for ssh, such as -oPort=22; may be given more than once' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l command -d 'What ssh starts there, if rexd does not lie where it is looked for' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l token-file -d 'The file with the token' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l ca-file -d 'Certificates to trust instead of the system\'s' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l cert-file -d 'Our own certificate' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l key-file -d 'The key of our own certificate' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l prefix -d 'Use it in this directory here and below; DIR=THERE names the same directory there; may be given more than once' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l force -d 'Replace what the alias stands for'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from add" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from list" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from list" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from use" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from use" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from use" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from use" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from show" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from show" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from remove" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from remove" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from test" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from test" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from test" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from test" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l root -d 'A root there; may be given more than once' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l rexd -d 'The program to put there, if it is not the one found beside rex' -r -F
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l alias -d 'Remember it under this alias' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l into -d 'Where to put it; /usr/local/bin if that can be written, else ~/.local/bin' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from install" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "add" -d 'Remember a target under an alias'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "list" -d 'List what is remembered'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "use" -d 'Use this target from now on, unless something says otherwise; `-` for none'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "show" -d 'Tell which target is used here and which rule chose it'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Forget an alias'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "test" -d 'Try every step to a target; says which fails and what to do'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "install" -d 'Put rexd on a machine that ssh reaches, with a config that allows only the roots named'
complete -c rex -n "__fish_rex_using_subcommand target; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "list" -d 'What waits now'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "approve" -d 'Let it happen'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "deny" -d 'Do not let it happen'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "watch" -d 'Show what comes and ask here'
complete -c rex -n "__fish_rex_using_subcommand approvals; and not __fish_seen_subcommand_from list approve deny watch help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from list" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from list" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l scope -d 'For what the answer holds: once, session or rule' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from watch" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from watch" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from watch" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "list" -d 'What waits now'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "approve" -d 'Let it happen'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "deny" -d 'Do not let it happen'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "watch" -d 'Show what comes and ask here'
complete -c rex -n "__fish_rex_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -l http -d 'Serve HTTP here instead of stdin and stdout; needs the token that is printed' -r
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -f -a "install" -d 'Show the configuration of an agent\'s program with these tools in it, and write it'
complete -c rex -n "__fish_rex_using_subcommand mcp; and not __fish_seen_subcommand_from install help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -l project -d 'In the project here, not for the user'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -s y -l yes -d 'Write without asking'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -l dry-run -d 'Only show it'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from install" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "install" -d 'Show the configuration of an agent\'s program with these tools in it, and write it'
complete -c rex -n "__fish_rex_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand tools" -l format -d 'As which provider takes them' -r -f -a "openai\t''
anthropic\t''
json-schema\t''"
complete -c rex -n "__fish_rex_using_subcommand tools" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand tools" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand tools" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand tools" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand call" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand call" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand call" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand call" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand up" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand up" -l once -d 'End after the demonstration'
complete -c rex -n "__fish_rex_using_subcommand up" -l lan -d 'Listen on the local network too, with the token that is printed'
complete -c rex -n "__fish_rex_using_subcommand up" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand up" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand up" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand completions" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand completions" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand completions" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand completions" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand man" -s t -l target -d 'Where: local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias (`rex target list`)' -r
complete -c rex -n "__fish_rex_using_subcommand man" -l json -d 'Results as JSON, one line each; errors as JSON on stderr'
complete -c rex -n "__fish_rex_using_subcommand man" -s h -l help -d 'Print help'
complete -c rex -n "__fish_rex_using_subcommand man" -s V -l version -d 'Print version'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "exec" -d 'Run a command; ends as it does'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "shell" -d 'Open a terminal; Enter ~ . leaves it running, `rex attach` comes back'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "attach" -d 'Take up a process again: its output so far, then as it comes; input goes to it'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "logs" -d 'Show what a process has written, also one that has ended'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "ps" -d 'List processes that run there, detached ones too'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "kill" -d 'End a process with all of its children, or send it a signal'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "wait" -d 'Wait for a process to end; ends as it did'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "read" -d 'Print a file as it is'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "write" -d 'Write stdin to a file'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "edit" -d 'Replace a text that occurs once in a file'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "patch" -d 'Apply a patch from stdin, whole or not at all'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "ls" -d 'List a directory'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "glob" -d 'Find paths by pattern, such as `**/*.rs`'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "grep" -d 'Search the contents of files'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "stat" -d 'Tell what a path is: kind, size, time, rights'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "watch" -d 'Report what changes below a path, until Ctrl-C'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "cp" -d 'Copy files and trees, either way or between targets'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "target" -d 'Name the machines that work is done on, try them, put rexd there'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "approvals" -d 'Decide what policy asks a person about'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "mcp" -d 'Give an agent these tools: serve MCP, or write the agent\'s configuration'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "tools" -d 'Print the tools\' schemas, for an agent of your own'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "call" -d 'Call one tool as an agent would'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "up" -d 'Show what this can do, on a sample workspace or yours'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "completions" -d 'Print completions for a shell: bash, zsh or fish'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "man" -d 'Write the manual pages into a directory'
complete -c rex -n "__fish_rex_using_subcommand help; and not __fish_seen_subcommand_from exec shell attach logs ps kill wait read write edit patch ls glob grep stat watch cp target approvals mcp tools call up completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "add" -d 'Remember a target under an alias'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "list" -d 'List what is remembered'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "use" -d 'Use this target from now on, unless something says otherwise; `-` for none'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "show" -d 'Tell which target is used here and which rule chose it'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "remove" -d 'Forget an alias'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "test" -d 'Try every step to a target; says which fails and what to do'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from target" -f -a "install" -d 'Put rexd on a machine that ssh reaches, with a config that allows only the roots named'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "list" -d 'What waits now'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "approve" -d 'Let it happen'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "deny" -d 'Do not let it happen'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "watch" -d 'Show what comes and ask here'
complete -c rex -n "__fish_rex_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "install" -d 'Show the configuration of an agent\'s program with these tools in it, and write it'
