//! Wrappers: programs whose arguments contain another command, and how to find it.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::languages;
use super::tools;
use super::words::Word;

/// How a program runs the command among its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wrapper {
    /// Runs the rest of its words.
    Pass(&'static WrapperOptions),
    /// Runs the rest of its words with other privileges.
    Sudo(&'static WrapperOptions),
    /// Runs the rest of its words with more words from its input.
    Xargs(&'static WrapperOptions),
    /// A shell whose language is parsed.
    Shell,
    /// Joins its arguments into shell text.
    Eval,
    /// Its first argument is shell text.
    Trap,
    /// Runs commands between `-exec` and `;` or `+`.
    Find,
    /// Runs a file in the current shell.
    Source,
    /// Sets variables of the shell that its arguments define.
    Declare,
    /// Sets variables of the shell that its arguments name.
    Assigns,
    /// Evaluates conditions, which may be arithmetic.
    Test,
    /// Runs the rest of its words, or shell text after `-c`.
    Flock(&'static WrapperOptions),
    /// May run commands that cannot be found.
    Opaque,
    /// Opaque only if an argument contains one of these texts.
    OpaqueWith(&'static [&'static str]),
    /// Opaque only if an argument contains one of these texts in upper or lower case.
    OpaqueWords(&'static [&'static str]),
    /// The values of these options are commands.
    Takes(&'static [&'static str]),
    /// Runs a command that starts at one of its arguments.
    Somewhere,
    /// Like `Somewhere`, after a word such as `run` or `exec`.
    AfterVerb,
    /// Interprets another language.
    Interpreter,
    /// Runs an awk program, which may run commands.
    Awk,
    /// Runs a sed script, which may run commands.
    Sed,
    /// Runs commands because of its settings and options.
    Git,
}

/// Options of a wrapper before the wrapped command.
#[derive(Debug)]
pub(super) struct WrapperOptions {
    /// Short options without a value.
    flags: &'static str,
    /// Short options with a value, attached or next.
    values: &'static str,
    /// Short options whose value is always attached.
    attached: &'static str,
    /// Long options without a value, or with one after `=`.
    long_flags: &'static [&'static str],
    /// Long options with a value, after `=` or next.
    long_values: &'static [&'static str],
    /// Number of its own arguments before the command.
    operands: usize,
    /// Whether `NAME=value` may precede the command.
    assigns: bool,
    /// Short options with which it runs nothing.
    queries: &'static str,
}

const PLAIN: WrapperOptions = WrapperOptions {
    flags: "",
    values: "",
    attached: "",
    long_flags: &[],
    long_values: &[],
    operands: 0,
    assigns: false,
    queries: "",
};

static NONE: WrapperOptions = PLAIN;
static ONE: WrapperOptions = WrapperOptions { operands: 1, ..PLAIN };
static ENV: WrapperOptions = WrapperOptions {
    flags: "i0v",
    values: "uC",
    long_flags: &["ignore-environment", "null", "debug"],
    long_values: &["unset", "chdir"],
    assigns: true,
    ..PLAIN
};
static SUDO: WrapperOptions = WrapperOptions {
    flags: "ABbEHnPSk",
    values: "CDghpRrTtuU",
    long_flags: &["askpass", "background", "preserve-env", "set-home", "non-interactive", "stdin"],
    long_values: &["close-from", "chdir", "group", "host", "prompt", "user", "role", "type"],
    assigns: true,
    queries: "lvKV",
    ..PLAIN
};
static RUN0: WrapperOptions = WrapperOptions {
    values: "ugDM",
    long_flags: &[
        "no-ask-password",
        "pty",
        "pipe",
        "unit",
        "property",
        "description",
        "slice",
        "slice-inherit",
    ],
    long_values: &["user", "group", "nice", "chdir", "machine", "background", "shell-prompt-prefix"],
    ..PLAIN
};
static DOAS: WrapperOptions = WrapperOptions { flags: "nL", values: "aCu", ..PLAIN };
static PKEXEC: WrapperOptions =
    WrapperOptions { long_flags: &["disable-internal-agent"], long_values: &["user"], ..PLAIN };
static TIMEOUT: WrapperOptions = WrapperOptions {
    flags: "fpv",
    values: "ks",
    long_flags: &["foreground", "preserve-status", "verbose"],
    long_values: &["kill-after", "signal"],
    operands: 1,
    ..PLAIN
};
static XARGS: WrapperOptions = WrapperOptions {
    flags: "0oprtx",
    values: "adEILnPs",
    attached: "eil",
    long_flags: &["null", "interactive", "no-run-if-empty", "verbose", "exit", "replace", "eof", "open-tty"],
    long_values: &["arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars"],
    ..PLAIN
};
static NICE: WrapperOptions =
    WrapperOptions { flags: "0123456789", values: "n", long_values: &["adjustment"], ..PLAIN };
static IONICE: WrapperOptions =
    WrapperOptions { flags: "t", values: "cn", long_values: &["class", "classdata"], ..PLAIN };
/// The flags of `setarch`, which its other names (`linux32`, …) have too.
const SETARCH_FLAGS: WrapperOptions = WrapperOptions {
    flags: "vRFBILSTXZ3",
    long_flags: &[
        "uname-2.6",
        "verbose",
        "addr-no-randomize",
        "fdpic-funcptrs",
        "mmap-page-zero",
        "addr-compat-layout",
        "read-implies-exec",
        "32bit",
        "short-inode",
        "whole-seconds",
        "sticky-timeouts",
        "3gb",
        "4gb",
        "list",
        "show",
    ],
    ..PLAIN
};
static LINUX32: WrapperOptions = SETARCH_FLAGS;
static SETSID: WrapperOptions =
    WrapperOptions { flags: "cfw", long_flags: &["ctty", "fork", "wait"], ..PLAIN };
static TIME: WrapperOptions = WrapperOptions {
    flags: "apqv",
    values: "fo",
    long_flags: &["append", "portability", "verbose"],
    ..PLAIN
};
static COMMAND: WrapperOptions = WrapperOptions { flags: "p", queries: "vV", ..PLAIN };
static EXEC: WrapperOptions = WrapperOptions { flags: "cl", values: "a", ..PLAIN };
static STDBUF: WrapperOptions =
    WrapperOptions { values: "ioe", long_values: &["input", "output", "error"], ..PLAIN };
static CHROOT: WrapperOptions = WrapperOptions {
    long_flags: &["skip-chdir"],
    long_values: &["groups", "userspec"],
    operands: 1,
    ..PLAIN
};
static FLOCK: WrapperOptions = WrapperOptions {
    flags: "enosxuF",
    values: "wE",
    long_flags: &["exclusive", "nonblock", "shared", "no-fork", "close"],
    long_values: &["timeout", "wait", "conflict-exit-code"],
    operands: 1,
    ..PLAIN
};
static TASKSET: WrapperOptions = WrapperOptions { flags: "ac", operands: 1, ..PLAIN };
static CHRT: WrapperOptions = WrapperOptions { flags: "bfiorR", values: "TPD", operands: 1, ..PLAIN };

/// Programs that run commands in the same way.
struct WrapperRow {
    names: &'static [&'static str],
    wrapper: Wrapper,
    /// A line that may run `rm x` or sets a variable; `{}` is the name. The tests check every name of every row.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the tests"))]
    example: &'static str,
}

const fn row(names: &'static [&'static str], wrapper: Wrapper, example: &'static str) -> WrapperRow {
    WrapperRow { names, wrapper, example }
}

#[rustfmt::skip]
static TABLE: &[WrapperRow] = &[
    row(&["env"], Wrapper::Pass(&ENV), "{} -i A=1 rm x"),
    row(&["sudo", "sudo-rs"], Wrapper::Sudo(&SUDO), "{} -n -u root rm x"),
    row(&["doas"], Wrapper::Sudo(&DOAS), "{} -n rm x"),
    row(&["pkexec"], Wrapper::Sudo(&PKEXEC), "{} --user root rm x"),
    row(&["run0"], Wrapper::Sudo(&RUN0), "{} --user=root rm x"),
    row(&["nohup", "builtin", "noglob", "busybox", "toybox", "catchsegv", "unbuffer"], Wrapper::Pass(&NONE), "{} rm x"),
    row(&["repeat"], Wrapper::Pass(&ONE), "{} 3 rm x"),
    row(&["timeout", "gtimeout"], Wrapper::Pass(&TIMEOUT), "{} -k 1 5 rm x"),
    row(&["xargs", "gxargs"], Wrapper::Xargs(&XARGS), "{} -n1 rm"),
    row(&["nice"], Wrapper::Pass(&NICE), "{} -n 5 rm x"),
    row(&["ionice"], Wrapper::Pass(&IONICE), "{} -c 3 rm x"),
    row(&["setsid"], Wrapper::Pass(&SETSID), "{} -w rm x"),
    row(&["setarch"], Wrapper::Somewhere, "{} x86_64 -R rm x"),
    row(&["linux32", "linux64", "i386", "x86_64", "uname26"], Wrapper::Pass(&LINUX32), "{} -R rm x"),
    row(&["time", "gtime"], Wrapper::Pass(&TIME), "{} -f %e rm x"),
    row(&["command"], Wrapper::Pass(&COMMAND), "{} -p rm x"),
    row(&["exec"], Wrapper::Pass(&EXEC), "{} -a y rm x"),
    row(&["stdbuf"], Wrapper::Pass(&STDBUF), "{} -oL rm x"),
    row(&["chroot"], Wrapper::Pass(&CHROOT), "{} / rm x"),
    row(&["flock"], Wrapper::Flock(&FLOCK), "{} -n f -c 'rm x'"),
    row(&["taskset"], Wrapper::Pass(&TASKSET), "{} 1 rm x"),
    row(&["chrt"], Wrapper::Pass(&CHRT), "{} -f 1 rm x"),
    row(&["ld.so"], Wrapper::Pass(&NONE), "{} /bin/rm x"),
    row(&["sh", "bash", "rbash", "dash", "ash"], Wrapper::Shell, "{} -ec 'rm x'"),
    row(&["eval"], Wrapper::Eval, "{} 'rm x'"),
    row(&["trap"], Wrapper::Trap, "{} 'rm x' EXIT"),
    row(&["find", "gfind"], Wrapper::Find, "{} . -exec rm {} ';'"),
    row(&[".", "source"], Wrapper::Source, "{} /dev/stdin"),
    row(&["export", "readonly", "declare", "typeset", "local"], Wrapper::Declare, "{} PATH=5"),
    row(&["read", "mapfile", "readarray", "getopts", "unset", "let", "printf", "wait", "set"], Wrapper::Assigns, ""),
    row(&["[", "[[", "test"], Wrapper::Test, "{} PATH=5 -eq 5 ]]"),
    row(
        &[
            "zsh", "fish", "csh", "tcsh", "ksh", "mksh", "nu", "pwsh", "elvish", "xonsh", "rc", "su", "runuser",
            "script", "watch", "parallel", "setpriv", "unshare", "nsenter", "systemd-run", "strace", "ltrace", "gdb",
            "start-stop-daemon", "chpst", "firejail", "bwrap", "proot", "fakeroot", "fc", "bind", "coproc",
        ],
        Wrapper::Opaque,
        "{} -c 'rm x'",
    ),
    row(&["alias"], Wrapper::OpaqueWith(&["="]), "{} ls='rm x'"),
    row(&["hash"], Wrapper::OpaqueWith(&["-p"]), "{} -p /bin/rm ls"),
    row(&["enable"], Wrapper::OpaqueWith(&["-f"]), "{} -f x y"),
    row(&["jobs"], Wrapper::OpaqueWith(&["-x"]), "{} -x rm x"),
    row(&["complete", "compgen"], Wrapper::OpaqueWith(&["-C", "-F"]), "{} -C 'rm x' a"),
];

static INDEX: LazyLock<HashMap<&'static str, Wrapper>> = LazyLock::new(|| {
    TABLE.iter().flat_map(|row| row.names.iter().map(|name| (*name, row.wrapper))).collect()
});

/// The wrapper with this base name.
pub(super) fn find(name: &str) -> Option<Wrapper> {
    match INDEX.get(name) {
        Some(wrapper) => Some(*wrapper),
        // The dynamic loader can start a program.
        None if name.starts_with("ld-linux") || name.starts_with("ld-musl") => Some(Wrapper::Pass(&NONE)),
        None if languages::is_interpreter(name) => Some(Wrapper::Interpreter),
        None => tools::find(name),
    }
}

/// Whether a program may change the working directory of the commands that it runs or that follow it. For some programs
/// any option counts.
pub(super) fn moves(name: &str, has_options: bool) -> bool {
    match name {
        "cd" | "chdir" | "pushd" | "popd" | "chroot" => true,
        "env" | "sudo" | "sudo-rs" | "doas" | "run0" => has_options,
        _ => false,
    }
}

/// Where the wrapped command starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WrappedCommand {
    /// At this index, with these variables set.
    At(usize, Vec<(String, String)>),
    /// There is no command.
    Nothing,
    /// The options are not recognised, so it may start at any word.
    Unclear,
}

impl WrapperOptions {
    /// Parses the options in `words`; the first word is the wrapper itself.
    pub(super) fn inner(&self, words: &[Word]) -> WrappedCommand {
        let mut at = 1;
        let mut assigned = Vec::new();
        while let Some(word) = words.get(at) {
            let Some(text) = word.literal() else { return WrappedCommand::Unclear };
            if text == "--" {
                at += 1;
                break;
            }
            if let Some(long) = text.strip_prefix("--") {
                let Some(taken) = self.long(long) else { return WrappedCommand::Unclear };
                at += taken;
            } else if text.len() > 1 && text.starts_with('-') {
                match self.short(&text[1..]) {
                    Some(Short::Takes(taken)) => at += taken,
                    Some(Short::Queries) => return WrappedCommand::Nothing,
                    None => return WrappedCommand::Unclear,
                }
            } else if text == "-" && self.assigns {
                at += 1;
            } else if let (true, Some((name, value))) = (self.assigns, text.split_once('=')) {
                assigned.push((name.to_owned(), value.to_owned()));
                at += 1;
            } else {
                break;
            }
        }
        // `env` and `sudo` accept assignments after `--`.
        while let (true, Some((name, value))) =
            (self.assigns, words.get(at).and_then(Word::literal).and_then(|text| text.split_once('=')))
        {
            assigned.push((name.to_owned(), value.to_owned()));
            at += 1;
        }
        let operands = words.get(at..).unwrap_or_default().iter().take(self.operands);
        if operands.clone().any(|word| word.literal().is_none()) {
            return WrappedCommand::Unclear;
        }
        at += self.operands;
        if at < words.len() { WrappedCommand::At(at, assigned) } else { WrappedCommand::Nothing }
    }

    fn long(&self, text: &str) -> Option<usize> {
        let (name, has_value) = text.split_once('=').map_or((text, false), |(name, _)| (name, true));
        if self.long_flags.contains(&name) {
            Some(1)
        } else if self.long_values.contains(&name) {
            Some(if has_value { 1 } else { 2 })
        } else {
            None
        }
    }

    fn short(&self, cluster: &str) -> Option<Short> {
        for (at, flag) in cluster.char_indices() {
            if self.queries.contains(flag) {
                return Some(Short::Queries);
            }
            if self.attached.contains(flag) {
                return Some(Short::Takes(1));
            }
            if self.values.contains(flag) {
                let attached = at + flag.len_utf8() < cluster.len();
                return Some(Short::Takes(if attached { 1 } else { 2 }));
            }
            if !self.flags.contains(flag) {
                return None;
            }
        }
        Some(Short::Takes(1))
    }
}

enum Short {
    Takes(usize),
    Queries,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{policy, rule, shell};
    use crate::policy::{CommandLine, Verdict, analyze};

    #[test]
    fn every_wrapper_is_recognised() {
        let no_rm = policy(Verdict::Allow, vec![rule(Verdict::Deny, &["rm", "*"])]);
        for (name, example) in TABLE.iter().flat_map(|row| row.names.iter().map(|name| (*name, row.example)))
        {
            let example = match name {
                "read" | "unset" => "{} -r PATH",
                "mapfile" | "readarray" => "{} -t PATH",
                "getopts" => "{} ab PATH",
                "let" => "{} PATH=5",
                "printf" => "{} -vPATH 5",
                "wait" => "{} -p PATH",
                "set" => "{} -a",
                _ => example,
            };
            let line = example.replacen("{}", name, 1);
            let is_refused = shell(&no_rm, &line) != Verdict::Allow;
            let parsed = analyze::analyze(&CommandLine::Shell { line: &line, login: false }, &[]);
            assert!(is_refused || !parsed.variables.is_empty(), "{line}");
            // The same words without the wrapper run nothing.
            let harmless = example.replacen("{}", "echo", 1);
            assert_eq!(shell(&no_rm, &harmless), Verdict::Allow, "{harmless}");
        }
    }
}
