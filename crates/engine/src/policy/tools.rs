//! Table of tools that run commands given by an option, a setting or an argument.

use super::wrappers::Wrapper;

/// Options of ssh whose value is a command.
const SSH: &[&str] = &["proxycommand", "localcommand", "knownhostscommand"];
/// Options of programs that start ssh: those of ssh, and the program to start instead.
const COPIES: &[&str] = &["proxycommand", "localcommand", "knownhostscommand", "-S", "-D", "--ssh"];

/// The wrapper for the tool with this base name.
pub(super) fn find(name: &str) -> Option<Wrapper> {
    Some(match name {
        "vi" | "vim" | "nvim" | "gvim" | "view" | "vimdiff" | "ex" | "ed" | "red" | "emacs"
        | "emacsclient" | "dc" | "m4" | "at" | "batch" | "crontab" | "tmux" | "screen" | "socat" | "entr"
        | "run-parts" | "sg" | "newgrp" | "capsh" | "ssh-agent" | "gpg-agent" | "nix-shell" | "nix"
        | "watchexec" | "nodemon" | "hyperfine" | "xterm" | "incrond" | "lftp" => Wrapper::Opaque,
        "uv" | "poetry" | "pipenv" | "pdm" | "hatch" | "bundle" | "npm" | "pnpm" | "yarn" | "rustup"
        | "pyenv" | "rbenv" | "conda" | "mamba" | "mise" | "asdf" | "direnv" | "op" | "aws-vault"
        | "doppler" | "sops" | "chamber" | "foreman" | "sem" | "perf" => Wrapper::AfterVerb,
        "npx" | "bunx" | "uvx" | "dotenv" | "xvfb-run" | "dbus-run-session" | "dbus-launch" | "chronic"
        | "prlimit" | "numactl" | "eatmydata" | "faketime" | "torsocks" | "proxychains" | "proxychains4"
        | "setuidgid" | "envdir" | "softlimit" | "aa-exec" | "runcon" | "valgrind" | "rlwrap"
        | "cpulimit" | "choom" | "uclampset" | "coreutils" | "winpty" | "sccache" | "ccache" | "distcc"
        | "mpirun" | "srun" | "gosu" | "su-exec" | "tini" | "dumb-init" | "catatonit" | "cgexec"
        | "trickle" => Wrapper::Somewhere,
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => Wrapper::Awk,
        "sed" | "gsed" | "ssed" => Wrapper::Sed,
        "git" => Wrapper::Git,
        _ => return with_options(name),
    })
}

/// Tools with options whose value is a command.
fn with_options(name: &str) -> Option<Wrapper> {
    Some(match name {
        "tar" | "gtar" | "bsdtar" => Wrapper::Takes(&[
            "-I",
            "-F",
            "--to-command",
            "--use-compress-program",
            "--checkpoint-action",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
        ]),
        "rsync" => Wrapper::Takes(&["-e", "--rsh", "--rsync-path"]),
        "split" | "gsplit" => Wrapper::Takes(&["--filter"]),
        "sort" | "gsort" => Wrapper::Takes(&["--compress-program"]),
        "rg" => Wrapper::Takes(&["--pre", "--hostname-bin"]),
        "zip" => Wrapper::Takes(&["-TT", "--unzip-command"]),
        "ssh" | "slogin" | "autossh" => Wrapper::OpaqueWords(SSH),
        "scp" | "sftp" | "mosh" => Wrapper::OpaqueWords(COPIES),
        "man" => Wrapper::Takes(&["-P", "--pager", "-H", "--html"]),
        "less" | "more" | "most" => Wrapper::OpaqueWords(&["+", "!"]),
        "tcpdump" => Wrapper::Takes(&["-z"]),
        "wget" => Wrapper::OpaqueWords(&["askpass", "use-askpass", "--execute", "-e"]),
        "nc" | "netcat" | "ncat" => Wrapper::OpaqueWords(&["-e", "-c", "exec"]),
        "fd" | "fdfind" => Wrapper::Somewhere,
        "make" | "gmake" | "bmake" => {
            Wrapper::OpaqueWords(&["--eval", "-E", "-f-", "--file=-", "/dev/", "shell="])
        }
        "sqlite3" | "psql" | "mysql" | "mariadb" => {
            Wrapper::OpaqueWords(&[".sh", ".sys", "\\!", "program", "system", "edit("])
        }
        "apt" | "apt-get" | "aptitude" => Wrapper::OpaqueWords(&["invoke", "pre-install"]),
        "rustc" | "cargo" => Wrapper::OpaqueWords(&["linker=", "runner=", "wrapper=", "rustc="]),
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" => Wrapper::OpaqueWords(&["-wrapper"]),
        "go" => Wrapper::Takes(&["-exec", "--exec", "-toolexec", "--toolexec", "-vettool"]),
        _ => return None,
    })
}
