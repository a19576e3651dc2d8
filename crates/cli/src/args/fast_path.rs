//! Fast parsing of `rex exec`, the command whose start-up time matters.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args as _, Command, FromArgMatches as _, Parser as _};

use super::{ExecArgs, GlobalOptions, RexArgs, RexCommand, RshArgs};

/// Parses the command line. Building clap's definition of all commands takes longer than everything else `rex exec`
/// does before it starts the command, so a line with `exec` is first parsed with a definition of `exec` alone. Errors
/// and requests for help fall through to the full definition.
pub fn parse() -> Result<RexArgs, clap::Error> {
    let line = || std::env::args_os();
    if let Some(args) = rsh(line()) {
        return Ok(args);
    }
    match line().any(|word| word == "exec").then(|| exec(line())).flatten() {
        Some(args) => Ok(args),
        None => RexArgs::try_parse_from(line()),
    }
}

/// The hint for a line that was rejected and contains `-it`, which docker takes for a terminal.
pub fn misuse_hint() -> Option<&'static str> {
    let mut words = std::env::args_os().take_while(|word| word != "--");
    words
        .any(|word| word == "-it" || word == "-ti")
        .then_some("-t is the target; for a terminal use --tty: `rex exec --tty -- CMD`")
}

/// The name of a link to this program under which it behaves as `rex rsh`.
const RSH_NAME: &str = "rex-rsh";

/// Parses `rex rsh`, whose options are those of ssh. Help falls through to the full definition.
fn rsh(mut line: impl Iterator<Item = OsString>) -> Option<RexArgs> {
    let program = line.next()?;
    if Path::new(&program).file_name()? != RSH_NAME && line.next()? != "rsh" {
        return None;
    }
    let words = line.map(|word| word.into_string().ok()).collect::<Option<Vec<_>>>()?;
    match words.first().map(String::as_str) {
        None | Some("-h" | "--help" | "--version") => None,
        Some(_) => Some(RexArgs {
            global: GlobalOptions { target: None, json: false },
            command: RexCommand::Rsh(RshArgs { words }),
        }),
    }
}

fn exec(line: impl Iterator<Item = OsString>) -> Option<RexArgs> {
    let exec = ExecArgs::augment_args(Command::new("exec"));
    // Without the version flag here, `rex exec --version` would be taken as a command.
    let rex = Command::new("rex").version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    let rex = GlobalOptions::augment_args(rex).subcommand(exec);
    let found = rex.try_get_matches_from(line).ok()?;
    let (_, taken) = found.subcommand()?;
    let command = RexCommand::Exec(ExecArgs::from_arg_matches(taken).ok()?);
    Some(RexArgs { global: GlobalOptions::from_arg_matches(&found).ok()?, command })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parsed arguments as text, if parsing succeeded.
    fn debug_text(args: Option<RexArgs>) -> Option<String> {
        args.map(|args| format!("{args:?}"))
    }

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from)
    }

    #[test]
    fn the_fast_path_and_the_full_definition_agree() {
        for line in [
            "rex exec true",
            "rex -t x exec -- sh -c true",
            "rex exec -t x --json --env A=B -e C=D --cwd /tmp --timeout 5s -n -- cat -n",
            "rex --json exec --tty --detach --sandbox read-only exec exec",
            "rex exec ls --version",
            "rex exec help",
        ] {
            let fast = debug_text(exec(words(line)));
            assert!(fast.is_some(), "{line}");
            assert_eq!(fast, debug_text(RexArgs::try_parse_from(words(line)).ok()), "{line}");
        }
    }

    #[test]
    fn the_options_of_ssh_are_not_those_of_rex() {
        for line in ["rex rsh -t host true", "/usr/bin/rex-rsh -t host true", "rex rsh --json x"] {
            let Some(RexArgs { global, command: RexCommand::Rsh(rsh) }) = rsh(words(line)) else {
                panic!("{line}")
            };
            assert!(global.target.is_none() && !global.json && rsh.words.len() >= 2, "{line}: {rsh:?}");
        }
        for line in ["rex rsh", "rex rsh -h", "rex-rsh", "rex exec rsh", "rex -t rsh exec x"] {
            assert!(rsh(words(line)).is_none(), "{line}");
        }
    }

    #[test]
    fn errors_help_and_other_commands_fall_through_to_the_full_definition() {
        for line in [
            "rex exec",
            "rex exec -h",
            "rex exec --wrong x",
            "rex exec --help",
            "rex exec --version",
            "rex exec -V",
            "rex --version exec",
            "rex help exec",
            "rex ls exec",
            "rex -t exec ls",
            "rex exec --timeout never x",
        ] {
            assert_eq!(debug_text(exec(words(line))), None, "{line}");
        }
    }
}
