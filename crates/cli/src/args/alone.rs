//! Reading a command line with no more than it needs: `exec` alone, then everything.

use std::ffi::OsString;

use clap::{Args as _, Command, FromArgMatches as _, Parser as _};

use super::{Args, Ask, Everywhere, Exec};

/// What this program was asked. Putting all commands together takes longer than the rest of what `rex exec` does before
/// something is started, so `exec` is tried alone. What is not understood that way, a question for help too, is left to
/// the whole, which has the words for it.
pub fn parse() -> Result<Args, clap::Error> {
    let line = || std::env::args_os();
    match line().any(|word| word == "exec").then(|| exec(line())).flatten() {
        Some(args) => Ok(args),
        None => Args::try_parse_from(line()),
    }
}

fn exec(line: impl Iterator<Item = OsString>) -> Option<Args> {
    let exec = Exec::augment_args(Command::new("exec"));
    // Its version is asked for by words that would otherwise belong to the command that is to be run.
    let rex = Command::new("rex").version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    let rex = Everywhere::augment_args(rex).subcommand(exec);
    let found = rex.try_get_matches_from(line).ok()?;
    let (_, taken) = found.subcommand()?;
    let command = Ask::Exec(Exec::from_arg_matches(taken).ok()?);
    Some(Args { everywhere: Everywhere::from_arg_matches(&found).ok()?, command })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read, if it could be.
    fn told(args: Option<Args>) -> Option<String> {
        args.map(|args| format!("{args:?}"))
    }

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from)
    }

    #[test]
    fn what_is_read_alone_is_what_the_whole_reads() {
        for line in [
            "rex exec true",
            "rex -t x exec -- sh -c true",
            "rex exec -t x --json --env A=B -e C=D --cwd /tmp --timeout 5s -n -- cat -n",
            "rex --json exec --tty --detach --sandbox read-only exec exec",
            "rex exec ls --version",
            "rex exec help",
        ] {
            let alone = told(exec(words(line)));
            assert!(alone.is_some(), "{line}");
            assert_eq!(alone, told(Args::try_parse_from(words(line)).ok()), "{line}");
        }
    }

    #[test]
    fn what_needs_words_or_another_command_is_left_to_the_whole() {
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
            assert_eq!(told(exec(words(line))), None, "{line}");
        }
    }
}
