//! Words of a command as far as they are known before it runs.

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Known to the letter.
    Literal(String),
    /// Known only when it runs, but for how it begins: it may become no word, one, or many.
    Dynamic(String),
}

impl Word {
    /// The text, if it is known.
    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Dynamic(_) => None,
        }
    }

    /// A word of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self::Dynamic(String::new())
    }

    /// What is known of the word from its start, and whether that is all of it.
    pub(super) fn beginning(&self) -> (&str, bool) {
        match self {
            Self::Literal(text) => (text, true),
            Self::Dynamic(text) => (text, false),
        }
    }
}

/// A program and its arguments, with no operator between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// The program, then its arguments. Never empty.
    pub(super) words: Vec<Word>,
    /// Whether a redirection lets it write to a file.
    pub(super) writes: bool,
}

/// The last part of a path; the whole of it when it ends with a slash.
pub(super) fn base_name(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, "")) | None => path,
        Some((_, name)) => name,
    }
}
