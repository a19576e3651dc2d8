//! Classes of commands, so that a rule can match what commands do instead of their names.

mod table;

use super::analyze::ParsedCommand;
use super::pattern::Match;
use super::rule::arguments;
use super::words::{Word, base_name};
use table::{ClassCondition, ClassEntry, TABLE};

use std::collections::HashMap;
use std::sync::LazyLock;

/// What a command does. A command may have several classes or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Reads and changes nothing.
    ReadOnly,
    /// Compiles or tests a project.
    Build,
    /// Uses the network.
    Network,
    /// Installs, removes or publishes software.
    Package,
    /// Deletes or overwrites data irrecoverably.
    Destructive,
    /// Gains or grants privileges, or changes the system.
    Privilege,
}

impl Class {
    /// All classes with their names in the configuration.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("read-only", Self::ReadOnly),
        ("build", Self::Build),
        ("network", Self::Network),
        ("package", Self::Package),
        ("destructive", Self::Destructive),
        ("privilege", Self::Privilege),
    ];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Classes of one command.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Classes {
    surely: u8,
    possibly: u8,
}

impl Classes {
    /// Whether the command has no class, not even possibly.
    pub(super) fn is_nothing(self) -> bool {
        self.surely == 0 && self.possibly == 0
    }

    /// How surely the command has a class.
    pub(super) fn has(self, class: Class) -> Match {
        if self.surely & class.bit() != 0 {
            Match::Yes
        } else if self.possibly & class.bit() != 0 {
            Match::Maybe
        } else {
            Match::No
        }
    }
}

/// Index of the table by program name.
static INDEX: LazyLock<HashMap<&'static str, Vec<&'static ClassEntry>>> = LazyLock::new(|| {
    let mut index: HashMap<_, Vec<_>> = HashMap::new();
    for entry in TABLE {
        for program in entry.programs {
            index.entry(*program).or_default().push(entry);
        }
    }
    index
});

/// Looks up the classes of a command.
pub(super) fn of(command: &ParsedCommand) -> Classes {
    let mut classes = Classes::default();
    let name = base_name(command.program());
    let family = name.split_once('.').map_or(name, |(family, _)| family);
    let entries = INDEX.get(name).or_else(|| INDEX.get(family)).map(Vec::as_slice).unwrap_or_default();
    for entry in entries {
        let read_only = entry.class == Class::ReadOnly;
        match entry.when.holds(arguments(command)) {
            // A command that reads is not read-only if its output is written to a file.
            Match::Yes if read_only && command.writes => {}
            Match::Yes => classes.surely |= entry.class.bit(),
            Match::Maybe => classes.possibly |= entry.class.bit(),
            Match::No => {}
        }
    }
    classes
}

impl ClassCondition {
    fn holds(&self, words: &[Word]) -> Match {
        match self {
            Self::Always => Match::Yes,
            Self::Subcommand(names) => subcommand(words, names),
            Self::Option(options) => option(words, options),
            Self::SubcommandWith(names, options) => subcommand(words, names).min(option(words, options)),
            Self::Without(options) => opposite(option(words, options)),
            Self::OnlyOptions(excluded, with_value) => {
                opposite(option(words, excluded)).min(only_options(words, with_value))
            }
        }
    }
}

/// Whether every word is an option or the value of one of these options.
fn only_options(words: &[Word], with_value: &[&str]) -> Match {
    let mut is_value = false;
    for word in words {
        let (text, is_whole) = word.beginning();
        if !is_value && !text.starts_with(['-', '+']) {
            return if is_whole { Match::No } else { Match::Maybe };
        }
        is_value = !is_value && with_value.contains(&text);
    }
    Match::Yes
}

fn opposite(found: Match) -> Match {
    match found {
        Match::Yes => Match::No,
        Match::Maybe => Match::Maybe,
        Match::No => Match::Yes,
    }
}

/// Whether the subcommand is one of these. An option before it may take the next word as its value, so the first word
/// that is not an option and the one after it both count.
fn subcommand(words: &[Word], names: &[&str]) -> Match {
    let mut after_option = false;
    for word in words {
        let Some(text) = word.literal() else { return Match::Maybe };
        if text.starts_with('-') || text.starts_with('+') {
            after_option = true;
        } else if names.contains(&text) {
            return Match::Yes;
        } else if !after_option {
            return Match::No;
        } else {
            after_option = false;
        }
    }
    Match::No
}

/// Whether one of these options is given: `--name` also with `=value` and as the prefix of a longer name, `-x` also in a
/// cluster of short options, every other word literally.
fn option(words: &[Word], options: &[&str]) -> Match {
    let mut result = Match::No;
    for word in words {
        match word.literal() {
            None => result = Match::Maybe,
            Some(text) if options.iter().any(|option| is_option(text, option)) => return Match::Yes,
            Some(_) => {}
        }
    }
    result
}

fn is_option(text: &str, option: &str) -> bool {
    if option.starts_with("--") {
        return text.starts_with(option);
    }
    match (option.strip_prefix('-'), text.strip_prefix('-')) {
        (Some(flag), Some(cluster)) if flag.len() == 1 => !cluster.starts_with('-') && cluster.contains(flag),
        _ => text == option,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::CommandLine;
    use crate::policy::analyze::analyze;

    fn classes(line: &str) -> Vec<&'static str> {
        let parsed = analyze(&CommandLine::Shell { line, login: false }, &[]);
        let found: Vec<_> = parsed.commands.iter().map(of).collect();
        let is = |class| found.iter().any(|classes| classes.has(class) == Match::Yes);
        Class::NAMES.iter().filter(|(_, class)| is(*class)).map(|(name, _)| *name).collect()
    }

    #[test]
    fn commands_have_the_classes_people_expect() {
        let table: &[(&str, &[&str])] = &[
            ("ls -la", &["read-only"]),
            ("cat a > b", &[]),
            ("cat a 2>/dev/null", &["read-only"]),
            ("find . -name x", &["read-only"]),
            ("find . -delete", &["destructive"]),
            ("find . -exec rm {} ';'", &["destructive"]),
            ("git status --short", &[]),
            ("date -u +%s -d yesterday", &["read-only"]),
            ("date 01010000", &[]),
            ("git -c core.pager=x log", &[]),
            ("git push origin main", &["network"]),
            ("git -C dir push", &["network"]),
            ("git push --force", &["network", "destructive"]),
            ("git reset --hard HEAD~1", &["destructive"]),
            ("git reset HEAD~1", &[]),
            ("rm -rf x", &["destructive"]),
            ("/bin/rm x", &["destructive"]),
            ("mkfs.ext4 /dev/x", &["destructive"]),
            ("cargo test", &["build"]),
            ("cargo install x", &["network", "package"]),
            ("npm ci", &["network", "package"]),
            ("npm run build", &["build"]),
            ("curl http://x", &["network"]),
            ("sudo ls", &["read-only", "privilege"]),
            ("sort -o x x", &[]),
            ("apt-get install x", &["network", "package"]),
        ];
        for (line, expected) in table {
            assert_eq!(&classes(line), expected, "{line}");
        }
    }

    #[test]
    fn unknown_words_make_a_class_possible() {
        let parsed = analyze(&CommandLine::Shell { line: "find . $FLAGS", login: false }, &[]);
        assert_eq!(of(&parsed.commands[0]).has(Class::Destructive), Match::Maybe);
        assert_eq!(of(&parsed.commands[0]).has(Class::ReadOnly), Match::Maybe);
        assert_eq!(of(&parsed.commands[0]).has(Class::Network), Match::No);
    }
}
