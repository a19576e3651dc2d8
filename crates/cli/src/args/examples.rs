//! Examples shown below the help; a test parses every line that starts with `rex`.

pub(super) const REX: &str = "\
Examples:
  rex exec -- uname -a                           run a command on the current target
  rex -t ssh:build-host exec -- make -j8         run it on another machine
  rex -t ssh:build-host shell                    open a terminal on that machine
  rex cp ./dist build:/srv/app                   copy a directory; run again to update
  rex target install build-host --root /srv/app  install rexd over ssh
  rex mcp install claude                         give the tools to an agent

Exit status: the status of the command; 124 timeout, 127 not found, 128+n signal n, 255 rex failed.
`rex target show` explains which target is used. `rex COMMAND -h` describes a command.";

pub(super) const EXEC: &str = "\
Examples:
  rex exec -- cargo test                         forward output, input, Ctrl-C and exit status
  rex exec -- sh -c 'cd src && grep -c TODO *'   use a shell for pipes, && and globs
  rex exec --timeout 5m -e CI=1 -C web -- make   kill it after five minutes (exit status 124)
  rex exec -d --name train -- ./train.sh         run in the background; prints the process id
  rex exec --json -- ls                          print events as JSON lines, the exit last
  tar c src | rex exec -t build -- tar x         forward stdin to the command

Exit status: the status of the command; 128+n signal n, 124 timeout, 126 not executable,
127 not found, 255 rex failed.";

pub(super) const SHELL: &str = "\
Examples:
  rex shell -t build                             open your login shell
  rex shell -t build -- htop                     run one program in a terminal

Enter ~ . detaches and leaves the shell running, Enter ~ ~ types a single ~. `rex ps` lists it,
`rex attach ID` reattaches.";

pub(super) const WRITE: &str = "\
Examples:
  rex write notes.txt < notes.txt                replace the file atomically
  echo 'LANG=C' | rex write --append web:/etc/environment
  rex write --create lock < /dev/null            fail if the file exists

Missing directories are created. An existing file keeps its mode and owner.";

pub(super) const PATCH: &str = "\
Examples:
  rex patch -C web < change.patch                resolve its paths in web
  rex patch <<'END'
  *** Begin Patch
  *** Update File: greeting.txt
  @@
  -hello
  +hello there
  *** End Patch
  END

If one hunk does not apply, no file is changed. Prints A added, M modified, D deleted, R renamed.";

pub(super) const GREP: &str = "\
Examples:
  rex grep 'fn main' src -g '*.rs'               search on the target; only matches are transferred
  rex grep -F 'a+b' -C 2                         match literally, with two lines of context
  rex grep --json TODO | head                    print one match per line, a summary last

Exit status: 0 found, 1 not found, 255 failed. Files in .gitignore are skipped (see --no-ignore).";

pub(super) const CP: &str = "\
Examples:
  rex cp ./dist build:/srv/app                   /srv/app becomes a copy of dist, new or updated
  rex cp ./dist build:/srv/                      into /srv, as /srv/dist
  rex cp --delete --exclude '*.o' src build:src  mirror a directory without object files
  rex cp :logs/app.log .                         download from the current target
  rex cp build:/srv/data web:/srv/data           copy between two machines
  pg_dump app | rex cp - build:app.sql           copy stdin to a file

Modes, modification times and symbolic links are kept. Run the same command again to update the copy,
or to resume it: identical files are skipped. Hashes are compared at the end.
Exit status: 0 all copied, 1 some files failed, 255 failed.";

pub(super) const RSH: &str = "\
Examples:
  rsync -a -e 'rex rsh' src/ build:src           build is an alias, or a host that ssh reaches
  GIT_SSH_COMMAND='rex rsh' git push build:app.git
  rex rsh build make -C app                      the shell of the target runs the words

Options that tell ssh how to connect are passed on to it for ssh targets and ignored for others;
forwardings, -f and -N are refused. For programs that take the path of one program, such as
`scp -S`, create a link to rex with the name rex-rsh.";

pub(super) const TARGET: &str = "\
Examples:
  rex target install deploy@build-host --root /srv/app --alias build
  rex target test build                          report which step fails, with a hint
  rex target use build                           use it by default; `rex target use -` clears it
  rex target show                                show the current target and why it is used
  rex target add api https://api.example:7377 --token-file ~/.config/rexd/api.token

A target is local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…,
hub:HOST or an alias. Precedence: -t, REX_TARGET, .rex.toml, path prefix, `rex target use`, local.";

pub(super) const APPROVALS: &str = "\
Examples:
  rex approvals list                             show pending requests
  rex approvals approve a_3f                     a unique prefix of the id is enough
  rex approvals approve a_3f --scope session     approve the same for the rest of that session
  rex approvals watch                            prompt whenever a request arrives
  rex approvals watch -t hub:                    the same for all hosts of your hub

The policy of rexd decides what needs approval: docs/policy.md. Unanswered requests are denied.";

pub(super) const LOGIN: &str = "\
Examples:
  rex login https://hub.example --user ada       prompt for the password
  rex login https://hub.example --user ada --password-stdin < password.txt
  rex login https://hub.example --token-stdin < client.token
  rex exec -t hub:build-1 -- make                then use a host of the hub as a target

The last hub you sign in to is the default. The tokens are stored in ~/.config/rexd/hubs.json, which
only you can read; the password is not stored.";

pub(super) const RUNS: &str = "\
Examples:
  rex runs list                                  runs of all hosts of your hub
  rex runs start -t hub:build-1 -C /srv/app --tool codex
  rex runs start -t hub:build-1 -- make -j8      print the id of the run
  rex runs watch run-3f                          print its output until it ends
  rex runs send run-3f yes                       type a line
  rex runs stop run-3f -s kill                   end it and all its processes

A unique prefix of an id is enough. `watch` exits with the status of the run.";

pub(super) const MCP: &str = "\
Examples:
  rex mcp install claude                         show the change, prompt, write it
  rex mcp install codex -t build                 run the tools on the target build
  rex mcp install cursor --project --yes         configure this project, without a prompt
  rex mcp install claude --only                  also turn off the agent's own shell and file tools
  rex mcp uninstall claude                       remove the server, and undo --only
  rex mcp                                        serve on stdin and stdout
  rex mcp --http 127.0.0.1:0                     serve HTTP; prints the address and the token file";

pub(super) const STRING: &str = "\
Examples:
  rex string file:notes /open README.md          open a document
  rex string bash:dev make test                  run a line in a persistent shell
  echo 'buy rope' | rex string notes /write a.md write a file with the body from stdin
  rex string notes /edit a.md#list - < new.md    replace a block with the body from stdin

Exit status: 0 if the command succeeded, 1 if not, 255 rex failed.";
