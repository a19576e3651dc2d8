//! The command line: a verb, its arguments on the first line, and a body after it.

use std::fmt;

use crate::scan::is_id;

/// What a command asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// List the commands.
    Help,
    /// Open a document, block, page or application.
    Open,
    /// Show menus.
    Nav,
    /// List the actions or run one; the id if it follows the verb after a dot.
    Act(Option<String>),
    /// Return to the previous document.
    Back,
    /// Forget the current document.
    Close,
    /// Load the current document again.
    Refresh,
    /// Describe the topic.
    Info,
    /// Show the text of the current document.
    Source,
    /// List a directory.
    Ls,
    /// Replace a file.
    Write,
    /// Add to the end of a file.
    Append,
    /// Show or replace a file or one of its blocks.
    Edit,
    /// Show the start of a block.
    Verify,
    /// Revert the last change of a file.
    Undo,
    /// Set variables.
    Set,
    /// Run a shell command.
    Exec,
    /// Install a package.
    Install,
    /// Remove a package.
    Uninstall,
    /// Run an action of a tool.
    Tool {
        /// The tool's name.
        name: String,
        /// The action after the dot; the tool's default without it.
        action: Option<String>,
    },
}

/// A command, split into its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine<'a> {
    /// What is asked for.
    pub verb: Verb,
    /// The rest of the first line, trimmed.
    pub args: &'a str,
    /// Everything after the first line feed, as it was sent.
    pub body: Option<&'a str>,
}

/// Why a text is not a command; its text is the response to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// The text does not start with a slash and a word.
    NotACommand,
    /// The verb, as it was typed.
    Unknown(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::NotACommand => f.write_str("Commands must start with /. Use /help for details."),
            CommandError::Unknown(verb) => {
                write!(
                    f,
                    "Unknown command: /{verb}\nUse /info for the state of this topic or /help for commands."
                )
            }
        }
    }
}

impl std::error::Error for CommandError {}

/// Splits a trimmed command; one of two leading slashes is ignored.
pub fn parse(text: &str) -> Result<CommandLine<'_>, CommandError> {
    let text = text.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(text);
    let (header, body) = match text.split_once('\n') {
        Some((header, body)) => (header, Some(body)),
        None => (text, None),
    };
    let header = header.trim();
    let (word, args) = header.split_once(char::is_whitespace).unwrap_or((header, ""));
    let typed = word.strip_prefix('/').filter(|rest| !rest.is_empty()).ok_or(CommandError::NotACommand)?;
    let verb = verb(&typed.to_lowercase()).ok_or_else(|| CommandError::Unknown(typed.to_owned()))?;
    Ok(CommandLine { verb, args: args.trim(), body })
}

fn verb(word: &str) -> Option<Verb> {
    Some(match word {
        "help" => Verb::Help,
        "open" => Verb::Open,
        "nav" => Verb::Nav,
        "act" => Verb::Act(None),
        "back" => Verb::Back,
        "close" => Verb::Close,
        "refresh" => Verb::Refresh,
        "info" => Verb::Info,
        "source" => Verb::Source,
        "ls" => Verb::Ls,
        "write" => Verb::Write,
        "append" => Verb::Append,
        "edit" => Verb::Edit,
        "verify" => Verb::Verify,
        "undo" => Verb::Undo,
        "set" => Verb::Set,
        "exec" => Verb::Exec,
        "install" => Verb::Install,
        "uninstall" => Verb::Uninstall,
        word => return compound_verb(word),
    })
}

/// `act.ID`, `tool:NAME` and `tool:NAME.ACTION`.
fn compound_verb(word: &str) -> Option<Verb> {
    if let Some(id) = word.strip_prefix("act.") {
        return is_id(id).then(|| Verb::Act(Some(id.to_owned())));
    }
    let tool = word.strip_prefix("tool:")?;
    let (name, action) = match tool.split_once('.') {
        Some((name, action)) => (name, Some(action)),
        None => (tool, None),
    };
    let is_valid = is_id(name) && action.is_none_or(is_id);
    is_valid.then(|| Verb::Tool { name: name.to_owned(), action: action.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_verb_arguments_and_a_body() {
        let parsed = parse("/Write  a  b.md \nline 1\n\nline 2").unwrap();
        assert_eq!(
            parsed,
            CommandLine { verb: Verb::Write, args: "a  b.md", body: Some("line 1\n\nline 2") }
        );
        assert_eq!(parse("//help").unwrap().verb, Verb::Help);
        assert_eq!(parse("/act.Foo --x 1").unwrap().verb, Verb::Act(Some("foo".to_owned())));
        let tool = |name: &str, action: Option<&str>| Verb::Tool {
            name: name.to_owned(),
            action: action.map(str::to_owned),
        };
        assert_eq!(parse("/tool:greet").unwrap().verb, tool("greet", None));
        assert_eq!(parse("/tool:greet.bye x").unwrap().verb, tool("greet", Some("bye")));
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in ["", "/", "//", "hello", "/ open", "open /x"] {
            assert_eq!(parse(text), Err(CommandError::NotACommand), "{text:?}");
        }
        for word in ["read", "Topics", "act.", "act.a.b", "tool:", "tool:a.", "sessionx", "/x"] {
            assert_eq!(
                parse(&format!("/{word} x")),
                Err(CommandError::Unknown(word.trim_start_matches('/').to_owned()))
            );
        }
    }
}
