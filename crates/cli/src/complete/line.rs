//! The words before the one that is completed, read with clap's definition of the commands.

use clap::{Arg, Command};

/// What is known about the words so far.
#[derive(Debug)]
pub(super) struct TypedLine<'a> {
    command: &'a Command,
    /// The names of the subcommands, as in `target use`.
    pub(super) name: String,
    /// The option that takes the next word as its value.
    pending: Option<&'a Arg>,
    /// Positional arguments so far.
    pub(super) positionals: usize,
    /// Whether options have ended, by `--` or because the words belong to a command that is run.
    has_ended_options: bool,
    /// The value of `-t`.
    pub(super) target: Option<String>,
}

/// What the next word is.
#[derive(Debug)]
pub(super) enum ExpectedWord<'a> {
    Command(&'a Command),
    Option(&'a Command),
    /// A value; `prefix` is the part of the word before it, as in `--format=`.
    Value {
        command: &'a str,
        arg: &'a Arg,
        prefix: String,
    },
    Nothing,
}

impl<'a> TypedLine<'a> {
    pub(super) fn read(rex: &'a Command, words: &[String]) -> TypedLine<'a> {
        let mut line = TypedLine {
            command: rex,
            name: String::new(),
            pending: None,
            positionals: 0,
            has_ended_options: false,
            target: None,
        };
        words.iter().for_each(|word| line.take(word));
        line
    }

    fn take(&mut self, word: &str) {
        if let Some(option) = self.pending.take() {
            self.set(option, word);
        } else if self.has_ended_options {
            self.positionals += 1;
        } else if word == "--" {
            self.has_ended_options = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if let Some(option) = self.option(|arg| arg.get_long() == Some(name)) {
                self.take_option(option, value);
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            self.take_letters(letters);
        } else if let Some(below) = self.command.find_subcommand(word).filter(|_| self.positionals == 0) {
            self.name = format!("{} {}", self.name, below.get_name()).trim().to_owned();
            self.command = below;
        } else {
            // From its first word on, everything belongs to the command that is run.
            self.has_ended_options = self.positional().is_some_and(Arg::is_trailing_var_arg_set);
            self.positionals += 1;
        }
    }

    /// Reads `-rf`, `-tNAME` and the like.
    fn take_letters(&mut self, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let Some(option) = self.option(|arg| arg.get_short() == Some(letter)) else { return };
            let rest = letters.get(at + letter.len_utf8()..).filter(|rest| !rest.is_empty());
            if takes_value(option) {
                return self.take_option(option, rest);
            }
        }
    }

    fn take_option(&mut self, option: &'a Arg, value: Option<&str>) {
        match value {
            Some(value) => self.set(option, value),
            None if takes_value(option) => self.pending = Some(option),
            None => {}
        }
    }

    fn set(&mut self, option: &Arg, value: &str) {
        if option.get_id() == "target" {
            self.target = Some(value.to_owned());
        }
    }

    fn option(&self, is_meant: impl Fn(&Arg) -> bool) -> Option<&'a Arg> {
        let command = self.command;
        command.get_arguments().find(|arg| !arg.is_positional() && is_meant(arg))
    }

    /// The positional argument that the next word is a value of.
    fn positional(&self) -> Option<&'a Arg> {
        let command = self.command;
        let is_repeated = |arg: &&Arg| arg.get_num_args().is_some_and(|count| count.max_values() > 1);
        let last = || command.get_positionals().last();
        command
            .get_positionals()
            .nth(self.positionals)
            .or_else(|| command.get_positionals().find(is_repeated).and_then(|_| last()))
    }

    /// What the word is that begins with `current`.
    pub(super) fn expected(&'a self, current: &str) -> ExpectedWord<'a> {
        let value = |arg: &'a Arg, prefix: &str| ExpectedWord::Value {
            command: &self.name,
            arg,
            prefix: prefix.to_owned(),
        };
        if let Some(option) = self.pending {
            return value(option, "");
        }
        if !self.has_ended_options && current.starts_with('-') {
            let option = current.split_once('=').and_then(|(name, _)| {
                let name = name.strip_prefix("--")?;
                Some((self.option(|arg| arg.get_long() == Some(name))?, format!("--{name}=")))
            });
            return match option {
                Some((option, prefix)) => value(option, &prefix),
                None => ExpectedWord::Option(self.command),
            };
        }
        match self.positional() {
            Some(arg) => value(arg, ""),
            None if self.command.has_subcommands() && self.positionals == 0 => {
                ExpectedWord::Command(self.command)
            }
            None => ExpectedWord::Nothing,
        }
    }
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}
