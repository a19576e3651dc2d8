//! Environment variables that change which programs or code a command runs.

use super::words::Assignment;

/// Effect of a variable on the commands that inherit it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum VariableEffect {
    /// No effect on which code runs, as far as known.
    None,
    /// Names may refer to other programs, or programs load other files.
    Lookup,
    /// Some program runs the value as a command.
    Command,
    /// The value is code, or names code, that is not analyzed.
    Code,
}

/// Variables that determine which program a name refers to, or which files a program loads.
#[rustfmt::skip]
const LOOKUP: &[&str] = &[
    "PATH", "IFS", "CDPATH", "HOME", "SHELLOPTS", "BASHOPTS", "PYTHONPATH", "PYTHONHOME", "PERL5LIB", "PERLLIB",
    "RUBYLIB", "NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "MAKEFILES", "MAKEFLAGS",
    "XDG_CONFIG_HOME", "TAR_OPTIONS", "GLOBIGNORE", "EXECIGNORE", "POSIXLY_CORRECT",
];
/// Prefixes of such variables.
const LOOKUP_PREFIXES: &[&str] = &["LD_", "DYLD_", "GIT_", "RUSTC", "CARGO_", "NPM_CONFIG_", "npm_config_"];

/// Variables whose value a program runs as a command.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "PAGER", "MANPAGER", "EDITOR", "VISUAL", "BROWSER", "FCEDIT", "SHELL", "MAKESHELL", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PAGER",
    "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "SSH_ASKPASS",
    "SUDO_ASKPASS", "SUDO_EDITOR", "SYSTEMD_EDITOR", "SYSTEMD_PAGER", "KUBE_EDITOR", "RSYNC_RSH", "RSYNC_CONNECT_PROG",
    "CVS_RSH", "SVN_EDITOR", "SVN_SSH", "HGEDITOR", "LESSEDIT", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTC",
    "RUSTDOC", "CARGO_BUILD_RUSTC_WRAPPER", "CARGO_BUILD_RUSTC", "TAR_RSH", "RMT",
];
/// Variables whose value is code for a shell, an interpreter or a loader.
#[rustfmt::skip]
const CODE: &[&str] = &[
    "BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "LESSOPEN", "LESSCLOSE", "LD_PRELOAD", "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES", "PERL5OPT", "PERL5DB", "RUBYOPT", "PYTHONSTARTUP", "PYTHONWARNINGS", "AWKPATH", "ERL_FLAGS",
    "ERL_AFLAGS", "ERL_ZFLAGS", "LUA_INIT", "VIMINIT", "EXINIT", "MYVIMRC", "PHPRC", "BASH_LOADABLES_PATH",
];
/// Prefixes of such variables: exported functions and single settings of git.
const CODE_PREFIXES: &[&str] = &["BASH_FUNC_", "GIT_CONFIG", "LUA_INIT_"];
/// Texts in `NODE_OPTIONS` that make it load code.
const NODE_CODE: &[&str] = &["import", "require", "-r", "loader", "eval", "-e", "-p", "inspect"];

/// The effect of setting a variable; `None` is a value that is only known at run time.
pub(super) fn effect(name: &str, value: Option<&str>) -> VariableEffect {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let node_code = || value.is_none_or(|value| NODE_CODE.iter().any(|part| value.contains(part)));
    if CODE.contains(&name) || begins(CODE_PREFIXES) || (name == "NODE_OPTIONS" && node_code()) {
        VariableEffect::Code
    } else if COMMANDS.contains(&name) || (name.starts_with("CARGO_TARGET_") && is_tool(name)) {
        VariableEffect::Command
    } else if LOOKUP.contains(&name) || begins(LOOKUP_PREFIXES) {
        VariableEffect::Lookup
    } else {
        VariableEffect::None
    }
}

/// Variables that change only language, time zone, colours and the amount of output.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS",
    "LINES", "CI", "DEBIAN_FRONTEND", "RUST_BACKTRACE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONIOENCODING", "PYTHONHASHSEED", "CARGO_TERM_COLOR", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT",
];

/// Whether an assignment cannot change which code runs: the variable is known to be harmless, or it stays in the shell
/// and has a name that programs do not read.
pub(super) fn is_harmless(assignment: &Assignment) -> bool {
    let name = assignment.name.as_str();
    let is_private = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !name.ends_with("_proxy")
            && !name.starts_with("npm_config_")
    };
    HARMLESS.contains(&name) || name.starts_with("LC_") || (!assignment.is_exported && is_private(name))
}

fn is_tool(name: &str) -> bool {
    name.ends_with("_RUNNER") || name.ends_with("_LINKER")
}
