//! Table of programs and their classes.

use super::Class;

/// Programs that have a class under a condition.
#[derive(Debug)]
pub(super) struct ClassEntry {
    pub(super) class: Class,
    pub(super) programs: &'static [&'static str],
    pub(super) when: ClassCondition,
}

/// When a program has the class.
#[derive(Debug)]
pub(super) enum ClassCondition {
    Always,
    /// The subcommand is one of these.
    Subcommand(&'static [&'static str]),
    /// One of these options is given.
    Option(&'static [&'static str]),
    /// The subcommand is one of the first, and one of these options is given.
    SubcommandWith(&'static [&'static str], &'static [&'static str]),
    /// None of these options is given.
    Without(&'static [&'static str]),
    /// None of the first options is given, and every word is an option, the value of one of the second, or starts with `+`.
    OnlyOptions(&'static [&'static str], &'static [&'static str]),
}

const fn entry(class: Class, programs: &'static [&'static str], when: ClassCondition) -> ClassEntry {
    ClassEntry { class, programs, when }
}

use Class::{Build, Destructive, Network, Package, Privilege, ReadOnly};
use ClassCondition::{Always, OnlyOptions, Option, Subcommand, SubcommandWith, Without};

const NODE: &[&str] = &["npm", "pnpm", "yarn", "bun"];
#[rustfmt::skip]
const NODE_INSTALLS: &[&str] = &[
    "install", "i", "ci", "add", "remove", "uninstall", "rm", "update", "upgrade", "publish", "link",
    "exec", "dlx", "x",
];
#[rustfmt::skip]
const CARGO_INSTALLS: &[&str] =
    &["install", "uninstall", "add", "remove", "update", "publish", "fetch", "yank"];
#[rustfmt::skip]
const SYSTEM_PACKAGERS: &[&str] = &[
    "apt", "apt-get", "aptitude", "dpkg", "yum", "dnf", "rpm", "zypper", "pacman", "apk", "brew", "port",
    "snap", "flatpak", "emerge", "nix-env", "nix", "pip", "pip3", "pipx", "conda", "mamba", "gem",
    "composer", "npx", "bunx", "luarocks", "cpan", "cpanm", "opam", "uvx",
];

#[rustfmt::skip]
pub(super) static TABLE: &[ClassEntry] = &[
    // Read-only.
    entry(
        ReadOnly,
        &[
            "ls", "cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "cut", "tr", "pwd", "whoami",
            "id", "uname", "which", "type", "stat", "du", "df", "ps", "echo", "printf", "test", "[", "[[",
            "true", "false", ":", "diff", "cmp", "basename", "dirname", "realpath", "readlink",
            "sha256sum", "sha1sum", "md5sum", "cksum", "nl", "tac", "rev", "od", "hexdump", "strings",
            "jq", "cd", "sleep", "seq", "expr", "comm", "fold", "nproc", "free", "uptime", "groups",
            "arch", "locale", "getent", "lsof", "pgrep", "column", "paste", "join",
        ],
        Always,
    ),
    entry(ReadOnly, &["rg"], Without(&["--pre", "--hostname-bin"])),
    entry(ReadOnly, &["fd", "fdfind"], Without(&["-x", "-X", "--exec"])),
    entry(ReadOnly, &["sort"], Without(&["-o", "--o", "--compress-program", "-T", "--temporary-directory"])),
    entry(ReadOnly, &["tree"], Without(&["-o"])),
    entry(ReadOnly, &["file"], Without(&["-C", "--compile"])),
    // `date MMDDhhmm` sets the clock.
    entry(ReadOnly, &["date"], OnlyOptions(&["-s", "--s"], &["-d", "--date", "-r", "--reference", "-f", "--file"])),
    entry(
        ReadOnly,
        &["find", "gfind"],
        Without(&[
            "-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls",
        ]),
    ),
    // `git` is not in the class: the settings of a repository, which a command can write, name programs that even
    // `git status` runs.
    // Build.
    entry(
        Build,
        &[
            "make", "gmake", "cmake", "ninja", "meson", "gcc", "g++", "cc", "c++", "clang", "clang++",
            "rustc", "javac", "mvn", "gradle", "gradlew", "bazel", "buck2", "tsc", "pytest", "tox", "just",
            "ctest", "ant", "sbt", "webpack", "vite", "jest", "vitest", "eslint", "ruff", "mypy",
            "golangci-lint", "ld", "as", "ar", "autoconf", "automake",
        ],
        Always,
    ),
    entry(
        Build,
        &["cargo"],
        Subcommand(&[
            "build", "b", "check", "c", "test", "t", "clippy", "fmt", "run", "r", "bench", "doc", "nextest",
            "clean",
        ]),
    ),
    entry(Build, &["go"], Subcommand(&["build", "test", "vet", "run", "generate", "fmt"])),
    entry(Build, NODE, Subcommand(&["run", "test", "t", "build", "start", "lint", "run-script"])),
    entry(
        Build,
        &["dotnet", "swift", "zig", "mix", "stack", "cabal"],
        Subcommand(&["build", "test", "run", "compile"]),
    ),
    // Network.
    entry(
        Network,
        &[
            "curl", "wget", "http-request", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet",
            "ftp", "lftp", "ping", "dig", "nslookup", "host", "traceroute", "nmap", "gh", "glab", "aws",
            "gcloud", "az", "kubectl", "helm", "rclone", "aria2c", "http", "https", "xh", "ssh-copy-id",
            "mosh", "autossh", "openssl", "whois", "psql", "mysql", "redis-cli", "mongosh", "sendmail",
            "mail", "terraform", "ansible", "ansible-playbook",
        ],
        Always,
    ),
    entry(Network, SYSTEM_PACKAGERS, Always),
    entry(
        Network,
        &["git"],
        Subcommand(&["push", "pull", "fetch", "clone", "ls-remote", "submodule", "send-email", "archive"]),
    ),
    entry(Network, &["git"], SubcommandWith(&["remote"], &["update", "show", "prune"])),
    entry(Network, &["docker", "podman"], Subcommand(&["pull", "push", "login", "search", "run", "build"])),
    entry(Network, NODE, Subcommand(NODE_INSTALLS)),
    entry(Network, &["cargo"], Subcommand(CARGO_INSTALLS)),
    entry(Network, &["go"], Subcommand(&["get", "install", "mod"])),
    entry(
        Network,
        &["uv", "poetry", "bundle", "pdm"],
        Subcommand(&["add", "install", "sync", "pip", "tool", "lock", "update", "publish"]),
    ),
    // Packages.
    entry(Package, SYSTEM_PACKAGERS, Always),
    entry(Package, NODE, Subcommand(NODE_INSTALLS)),
    entry(Package, &["cargo"], Subcommand(CARGO_INSTALLS)),
    entry(Package, &["go"], Subcommand(&["get", "install"])),
    entry(
        Package,
        &["uv", "poetry", "bundle", "pdm"],
        Subcommand(&["add", "install", "sync", "pip", "tool", "update", "publish", "remove"]),
    ),
    // Destructive.
    entry(
        Destructive,
        &[
            "rm", "rmdir", "unlink", "shred", "dd", "mkfs", "mke2fs", "mkswap", "wipefs", "fdisk",
            "sfdisk", "parted", "truncate", "blkdiscard", "lvremove", "vgremove", "zpool", "shutdown",
            "reboot", "halt", "poweroff", "dropdb", "userdel", "groupdel", "killall", "pkill", "srm",
        ],
        Always,
    ),
    entry(Destructive, &["find", "gfind"], Option(&["-delete"])),
    entry(Destructive, &["rsync"], Option(&["--delete", "--remove-source-files"])),
    entry(
        Destructive,
        &["git"],
        Subcommand(&["clean", "filter-branch", "filter-repo", "restore", "gc", "prune"]),
    ),
    entry(Destructive, &["git"], SubcommandWith(&["reset"], &["--hard", "--merge", "--keep"])),
    entry(
        Destructive,
        &["git"],
        SubcommandWith(&["push"], &["--force", "-f", "--delete", "-d", "--mirror", "--prune"]),
    ),
    entry(Destructive, &["git"], SubcommandWith(&["branch", "tag"], &["-D", "-d", "--delete"])),
    entry(
        Destructive,
        &["git"],
        SubcommandWith(&["checkout", "switch"], &["-f", "--force", "--discard-changes", "--", "."]),
    ),
    entry(
        Destructive,
        &["git"],
        SubcommandWith(&["stash", "reflog", "worktree"], &["drop", "clear", "expire", "delete", "remove"]),
    ),
    entry(Destructive, &["docker", "podman"], Subcommand(&["rm", "rmi", "prune", "kill"])),
    entry(
        Destructive,
        &["docker", "podman"],
        SubcommandWith(&["system", "volume", "image", "container", "network"], &["prune", "rm", "remove"]),
    ),
    entry(Destructive, &["kubectl", "helm"], Subcommand(&["delete", "drain", "uninstall"])),
    entry(Destructive, &["terraform", "tofu"], Subcommand(&["destroy", "apply"])),
    // Privilege.
    entry(
        Privilege,
        &[
            "sudo", "sudo-rs", "sudoedit", "run0", "su", "doas", "pkexec", "runuser", "setpriv", "chroot", "nsenter", "unshare", "capsh",
            "setcap", "useradd", "usermod", "userdel", "groupadd", "passwd", "chpasswd", "visudo", "mount",
            "umount", "insmod", "rmmod", "modprobe", "sysctl", "chown", "chgrp", "crontab", "at",
            "iptables", "nft", "ufw", "swapon", "swapoff", "systemd-run", "loginctl", "newgrp", "sg",
            "machinectl",
        ],
        Always,
    ),
    entry(
        Privilege,
        &["systemctl", "service"],
        Option(&[
            "start", "stop", "restart", "reload", "enable", "disable", "mask", "unmask", "edit",
            "daemon-reload", "kill", "set-property", "link", "isolate",
        ]),
    ),
    entry(Privilege, &["chmod"], Option(&["u+s", "g+s", "+s", "a+s"])),
    entry(Privilege, &["docker", "podman"], Option(&["--privileged"])),
];
