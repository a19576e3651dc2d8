//! Examples that stand below the help, each a line that can be pasted.

pub(super) const REX: &str = "\
Examples:
  rex exec -- uname -a                           run a command; `rex target show` says where and why
  rex -t ssh:build-host exec -- make -j8         run it on another machine; ends as make does
  rex -t ssh:build-host shell                    a terminal there; Enter ~ . leaves it running
  rex cp ./dist build:/srv/app                   copy a tree there; again to go on after a cut
  rex target install build-host --root /srv/app  put rexd on a machine that ssh reaches
  rex mcp install claude                         give an agent these tools

Exit status: that of the command; 124 timeout, 127 not found, 128+n signal, 255 rex itself failed.
Every command explains itself: rex exec -h";

pub(super) const EXEC: &str = "\
Examples:
  rex exec -- cargo test                         output, input, Ctrl-C and status are the command's
  rex exec -- sh -c 'cd src && grep -c TODO *'   for pipes, && and globs: name a shell
  rex exec --timeout 5m -e CI=1 -C web -- make   ended after five minutes, with status 124
  rex exec -d -- ./train.sh                      outlives the link, rexd and you; prints an id
  rex exec --json -- ls                          every event as a line of JSON, the exit last
  tar c src | rex exec -t build -- tar x         what is on stdin goes there

Exit status: the command's own; 128+n for signal n, 124 timeout, 126 cannot run, 127 not found,
255 if rex itself failed: it says why, and what to do next.";

pub(super) const SHELL: &str = "\
Examples:
  rex shell -t build                             your shell there
  rex shell -t build -- htop                     one program in a terminal

Type Enter ~ . to leave it running, Enter ~ ~ for a ~ itself. `rex ps` lists it, `rex attach ID` is back.";

pub(super) const WRITE: &str = "\
Examples:
  rex write notes.txt < notes.txt                the whole file in one step, or not at all
  echo 'LANG=C' | rex write --append web:/etc/environment
  rex write --create lock < /dev/null            fails if it exists

Directories that are missing are made. Mode and owner of a file that exists stay.";

pub(super) const PATCH: &str = "\
Examples:
  rex patch -C web < change.patch                its paths start in web
  rex patch <<'END'
  *** Begin Patch
  *** Update File: greeting.txt
  @@
  -hello
  +hello there
  *** End Patch
  END

If one piece does not fit, nothing is changed. Prints A added, M changed, D removed, R renamed.";

pub(super) const GREP: &str = "\
Examples:
  rex grep 'fn main' src -g '*.rs'               searched there; only the matches travel
  rex grep -F 'a+b' -C 2                         as it is written, with two lines around
  rex grep --json TODO | head                    one match per line, a summary last

Exit status: 0 found, 1 nothing found, 255 failed. What git ignores is left out (--no-ignore).";

pub(super) const CP: &str = "\
Examples:
  rex cp ./dist build:/srv/app                   here to there: dist goes into /srv/app if that is there
  rex cp :logs/app.log .                         from where commands start on the target used here
  rex cp build:/srv/data web:/srv/data           between two machines

The same command again goes on where it was cut and passes over what is there already. Hashes are
compared at the end. Exit status: 0 all copied, 1 some files were not, 255 failed.";

pub(super) const TARGET: &str = "\
Examples:
  rex target install deploy@build-host --root /srv/app --alias build
  rex target test build                          which step fails, and what to do about it
  rex target use build                           work there from now on; `rex target use -` takes it back
  rex target show                                where is work done here, and why
  rex target add api https://api.example:7377 --token-file ~/.config/rexd/api.token

A target is local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://… or an alias for one.
The first that says something counts: -t, REX_TARGET, .rex.toml, path prefix, `target use`, local.";

pub(super) const APPROVALS: &str = "\
Examples:
  rex approvals list                             what waits, who asked, until when
  rex approvals approve a_3f                     its first characters do
  rex approvals approve a_3f --scope session     and the same for the rest of that session
  rex approvals watch                            ask me here whenever something waits

What is asked about is the operator's policy: docs/policy.md. Silence is a no.";

pub(super) const MCP: &str = "\
Examples:
  rex mcp install claude                         shows what changes in the configuration, asks, writes
  rex mcp install codex -t build                 the tools work on build
  rex mcp install cursor --project --yes         for this project only, without asking
  rex mcp                                        serve on stdin and stdout, as a client starts it
  rex mcp --http 127.0.0.1:0                     serve HTTP; prints the address and where the token is";
