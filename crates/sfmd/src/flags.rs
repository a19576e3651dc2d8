//! Flags: the arguments of an action, read against its declaration.

use std::fmt;

use crate::action::{Action, Field};

/// The values that an invocation gives, in order.
pub type Flags = Vec<(String, String)>;

/// What an invocation asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Show the flags of the action; nothing runs.
    Schema,
    /// Run the action with these values.
    Run(Flags),
}

/// Why the values of an invocation are rejected; its text is the response to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadError(pub String);

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PayloadError {}

/// Words of one invocation; more are rejected.
const MOST_WORDS: usize = 1_000;

/// Reads the arguments of an action.
pub fn parse(action: &Action, args: &str) -> Result<Invocation, PayloadError> {
    let words = words(args);
    if words.len() > MOST_WORDS {
        return Err(PayloadError(format!("Too many arguments: {} (limit {MOST_WORDS}).", words.len())));
    }
    let has_alias = |letter| action.fields.iter().any(|field| field.alias == Some(letter));
    let asks_help = |word: &ArgumentWord| {
        !word.is_quoted && (word.text == "--help" || (word.text == "-h" && !has_alias('h')))
    };
    let lacks_value = |field: &Field| field.is_required && field.default.is_none();
    if words.iter().any(asks_help) || (words.is_empty() && action.fields.iter().any(lacks_value)) {
        return Ok(Invocation::Schema);
    }
    let mut reader = FlagReader { action, flags: Vec::new(), positionals: Vec::new() };
    reader.read(words)?;
    reader.bind_positionals()?;
    Ok(Invocation::Run(reader.flags))
}

struct FlagReader<'a> {
    action: &'a Action,
    flags: Flags,
    positionals: Vec<String>,
}

impl FlagReader<'_> {
    fn read(&mut self, words: Vec<ArgumentWord>) -> Result<(), PayloadError> {
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            if word.ends_flags() {
                self.positionals.extend(words.by_ref().map(|word| word.text));
            } else if !word.is_flag() {
                self.positionals.push(word.text);
            } else if let Some((name, value)) = word.long_assignment() {
                self.set(name, value);
            } else {
                let name = self.flag_name(&word.text);
                match words.next_if(|next| !next.is_flag() && !next.ends_flags()) {
                    Some(value) => self.set(name, value.text),
                    None => self.set_bare(name)?,
                }
            }
        }
        Ok(())
    }

    /// The field of `--name` or `-x`; an unknown letter names itself.
    fn flag_name(&self, word: &str) -> String {
        if let Some(name) = word.strip_prefix("--") {
            return name.to_owned();
        }
        let letter = word.trim_start_matches('-');
        let field = self
            .action
            .fields
            .iter()
            .find(|field| field.alias.is_some_and(|alias| letter.starts_with(alias)));
        field.map_or_else(|| letter.to_owned(), |field| field.name.clone())
    }

    fn set_bare(&mut self, name: String) -> Result<(), PayloadError> {
        if let Some(field) = self.action.field(&name).filter(|field| field.kind != "boolean") {
            return Err(PayloadError(format!(
                "Flag --{name} requires a value (declared type: {}).\nUse: --{name} <{}>",
                field.kind, field.kind
            )));
        }
        self.set(name, "true".to_owned());
        Ok(())
    }

    /// A repeated flag replaces the earlier value.
    fn set(&mut self, name: String, value: String) {
        match self.flags.iter_mut().find(|(given, _)| *given == name) {
            Some((_, old)) => *old = value,
            None => self.flags.push((name, value)),
        }
    }

    fn bind_positionals(&mut self) -> Result<(), PayloadError> {
        if self.action.fields.is_empty() {
            return Ok(());
        }
        let given = |flags: &Flags, field: &Field| flags.iter().any(|(name, _)| *name == field.name);
        let free: Vec<_> = self.action.fields.iter().filter(|field| !given(&self.flags, field)).collect();
        if self.positionals.len() > free.len() {
            return Err(PayloadError(format!(
                "Too many positional arguments for /act.{}.\nUse /act.{} --help for its flags.",
                self.action.id, self.action.id
            )));
        }
        let bound =
            free.into_iter().map(|field| field.name.clone()).zip(std::mem::take(&mut self.positionals));
        self.flags.extend(bound);
        Ok(())
    }
}

/// A word of the arguments, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ArgumentWord {
    text: String,
    /// Whether the word starts with a quote; it is then a value.
    is_quoted: bool,
}

impl ArgumentWord {
    fn ends_flags(&self) -> bool {
        !self.is_quoted && self.text == "--"
    }

    fn is_flag(&self) -> bool {
        let bytes = self.text.as_bytes();
        let is_long = bytes.len() > 2 && bytes.starts_with(b"--");
        let is_short = bytes.len() == 2 && bytes[0] == b'-' && bytes[1].is_ascii_alphabetic();
        !self.is_quoted && (is_long || is_short)
    }

    fn long_assignment(&self) -> Option<(String, String)> {
        let (name, value) = self.text.strip_prefix("--")?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    }
}

/// Splits at blanks; quotes group and are removed, nothing is escaped.
fn words(text: &str) -> Vec<ArgumentWord> {
    let mut words = Vec::new();
    let mut word: Option<ArgumentWord> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, ' ' | '\t' | '\n' | '\r') => words.extend(word.take()),
            None if matches!(c, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert(ArgumentWord { text: String::new(), is_quoted: true });
            }
            _ => word.get_or_insert(ArgumentWord { text: String::new(), is_quoted: false }).text.push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action() -> Action {
        let text = "CLI x\n  item, -i: string (required)\n  qty: number = \"1\"\n  fast: boolean\n";
        Action::parse("order", text).unwrap()
    }

    fn run(args: &str) -> Result<Vec<(String, String)>, String> {
        match parse(&action(), args) {
            Ok(Invocation::Run(flags)) => Ok(flags),
            Ok(Invocation::Schema) => Ok(vec![("SCHEMA".to_owned(), String::new())]),
            Err(error) => Err(error.0.lines().next().unwrap_or_default().to_owned()),
        }
    }

    #[test]
    fn arguments_become_values() {
        let table: &[(&str, &[(&str, &str)])] = &[
            ("", &[("SCHEMA", "")]),
            ("x --help", &[("SCHEMA", "")]),
            ("-h", &[("SCHEMA", "")]),
            ("--", &[]),
            ("ball", &[("item", "ball")]),
            ("-i ball --qty=2", &[("item", "ball"), ("qty", "2")]),
            ("--item 'red ball' 3", &[("item", "red ball"), ("qty", "3")]),
            ("ball 3 true", &[("item", "ball"), ("qty", "3"), ("fast", "true")]),
            ("--fast --item x", &[("fast", "true"), ("item", "x")]),
            ("-- --item -x", &[("item", "--item"), ("qty", "-x")]),
            ("--item -5", &[("item", "-5")]),
            ("--item \"--x\"", &[("item", "--x")]),
            ("--item a --item b", &[("item", "b")]),
            ("-z 1 --other=a=b", &[("z", "1"), ("other", "a=b")]),
        ];
        for (args, expected) in table {
            let expected: Vec<_> = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(run(args), Ok(expected), "{args}");
        }
    }

    #[test]
    fn wrong_arguments_are_rejected() {
        assert_eq!(run("--item"), Err("Flag --item requires a value (declared type: string).".to_owned()));
        assert_eq!(
            run("--qty --fast"),
            Err("Flag --qty requires a value (declared type: number).".to_owned())
        );
        assert_eq!(run("a b c d"), Err("Too many positional arguments for /act.order.".to_owned()));
    }
}
