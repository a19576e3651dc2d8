//! `rex complete`: the candidates for a word of a command line that is being typed, for the scripts of the shells.
//!
//! Commands, options and fixed values come from clap's definition. Aliases are read from the registry; ids, names and paths
//! of a target are asked for within a limited time, and an error means that there are none.

mod line;
mod lookup;
mod values;

use clap::{Command, CommandFactory as _};

use crate::args::RexArgs;
use line::{ExpectedWord, TypedLine};
use lookup::Lookup;

/// The completion scripts that call `rex complete`, by the name of their shell.
pub const SCRIPTS: [(&str, &str); 3] = [
    ("bash", include_str!("rex.bash")),
    ("zsh", include_str!("rex.zsh")),
    ("fish", include_str!("rex.fish")),
];

/// The candidates for the last of these words, of which the first is the name of the program.
pub fn candidates(words: &[String]) -> Vec<String> {
    let mut rex = RexArgs::command();
    rex.build();
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let line = TypedLine::read(&rex, before.get(1..).unwrap_or_default());
    let lookup = Lookup { target: line.target.clone() };
    let mut found = match line.expected(current) {
        ExpectedWord::Command(command) => subcommands(command),
        ExpectedWord::Option(command) => options(command),
        ExpectedWord::Value { command, arg, prefix } => {
            let typed = current.strip_prefix(&prefix).unwrap_or(current);
            let found = values::of(command, arg, &line, typed, &lookup);
            found.into_iter().map(|value| format!("{prefix}{value}")).collect()
        }
        ExpectedWord::Nothing => Vec::new(),
    };
    // A name with a line break would be two candidates, and other control characters would reach the terminal.
    found.retain(|candidate| candidate.starts_with(current) && !candidate.contains(char::is_control));
    found.sort();
    found.dedup();
    found
}

fn subcommands(command: &Command) -> Vec<String> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

fn options(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| arg.get_long()).map(|name| format!("--{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &str) -> Vec<String> {
        candidates(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_options_and_fixed_values_are_completed() {
        assert_eq!(complete("rex att"), ["attach"]);
        assert_eq!(complete("rex target us"), ["use"]);
        assert_eq!(complete("rex -t x --json lo"), ["login", "logout", "logs"]);
        assert_eq!(complete("rex logs --s"), ["--since"]);
        assert_eq!(complete("rex tools --format o"), ["openai"]);
        assert_eq!(complete("rex tools --format=o"), ["--format=openai"]);
        assert_eq!(complete("rex mcp install co"), ["codex", "copilot"]);
        assert!(!complete("rex ").contains(&"complete".to_owned()), "hidden commands are not offered");
    }

    #[test]
    fn words_that_rex_does_not_know_have_no_candidates() {
        for line in ["rex exec --name b", "rex edit f o", "rex exec -- ma", "rex nothing x", "rex logs a b"] {
            assert!(complete(line).is_empty(), "{line}: {:?}", complete(line));
        }
    }
}
