# Completion of rex for fish, printed by `rex completions fish`.
complete -c rex -f -a '(rex complete -- (commandline -opc) (commandline -ct) 2>/dev/null)'
