//! Words of a command, which may be unknown before it runs.

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// The whole text is known.
    Literal(String),
    /// Only this beginning is known before it runs; it may expand to no word, one or many.
    Dynamic(String),
}

impl Word {
    /// The text if all of it is known.
    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Dynamic(_) => None,
        }
    }

    /// A word without a known beginning.
    pub(super) fn unknown() -> Self {
        Self::Dynamic(String::new())
    }

    /// The known beginning, and whether it is the whole word.
    pub(super) fn beginning(&self) -> (&str, bool) {
        match self {
            Self::Literal(text) => (text, true),
            Self::Dynamic(text) => (text, false),
        }
    }
}

/// A variable that a command line sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// The value, if it is known before the command runs.
    pub(super) value: Option<String>,
    /// Whether programs get the variable: `NAME=value command`, `export`, `env`, the request. Other variables stay in the
    /// shell, unless its environment has one of that name.
    pub(super) is_exported: bool,
}

impl Assignment {
    /// A variable of the shell with a value that is only known at run time.
    pub(super) fn in_shell(name: impl Into<String>) -> Self {
        Self { name: name.into(), value: None, is_exported: false }
    }

    /// A variable that programs get.
    pub(super) fn exported(name: impl Into<String>, value: Option<String>) -> Self {
        Self { name: name.into(), value, is_exported: true }
    }
}

/// A program and its arguments without operators, as in the grammar of POSIX shells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// The program, then its arguments. Never empty.
    pub(super) words: Vec<Word>,
    /// Whether its output is redirected to a file.
    pub(super) writes: bool,
}

/// The last component of a path; the whole path if it ends with a slash.
pub(super) fn base_name(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, "")) | None => path,
        Some((_, name)) => name,
    }
}
