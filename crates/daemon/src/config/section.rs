//! Reads a TOML table key by key, and reports errors with line and column.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::suggest::nearest;

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file does not exist or cannot be read.
    #[error("{}: {}", file.display(), engine::error::errno_text(source))]
    Unreadable {
        /// The path of the file.
        file: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A syntax error, or a value that is not allowed.
    #[error("{}:{line}:{column}: {reason}", file.display())]
    Invalid {
        /// The path of the file.
        file: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The number of the character in the line, from 1.
        column: usize,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// A client CA is configured, but no TLS.
    #[error(
        "a client CA requires TLS; set tls_cert and tls_key in [server], or pass --tls-cert and --tls-key"
    )]
    ClientCaWithoutTls,
    /// A `--root` that is not a directory.
    #[error("--root {}: {reason}", root.display())]
    Root {
        /// The value of the flag.
        root: PathBuf,
        /// Why it cannot be a root.
        reason: String,
    },
}

/// The file that is being parsed.
#[derive(Debug)]
pub(super) struct Document<'t> {
    pub(super) file: &'t Path,
    pub(super) text: &'t str,
    pub(super) warnings: RefCell<Vec<String>>,
}

impl Document<'_> {
    /// An error at a position in the file.
    pub(super) fn error(&self, span: Range<usize>, reason: impl Into<String>) -> ConfigError {
        let (line, column) = self.position(span.start);
        ConfigError::Invalid { file: self.file.to_owned(), line, column, reason: reason.into() }
    }

    /// Adds a warning for a position in the file.
    pub(super) fn warn(&self, span: Range<usize>, text: impl std::fmt::Display) {
        let (line, column) = self.position(span.start);
        self.warnings.borrow_mut().push(format!("{}:{line}:{column}: {text}", self.file.display()));
    }

    /// The line and column of an offset, both from 1.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// One table of the file. Every key that is read counts as known; [`Section::finish`] warns about the others.
#[derive(Debug)]
pub(super) struct Section<'d, 't> {
    pub(super) document: &'d Document<'t>,
    path: String,
    table: Option<&'d DeTable<'t>>,
    span: Range<usize>,
    known: RefCell<Vec<&'static str>>,
}

type Found<T> = Result<Option<T>, ConfigError>;

impl<'d, 't> Section<'d, 't> {
    /// The section that is the whole file.
    pub(super) fn root(document: &'d Document<'t>, table: &'d DeTable<'t>) -> Self {
        Self { document, path: String::new(), table: Some(table), span: 0..0, known: RefCell::default() }
    }

    /// Its position in the file.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Whether the table is in the file.
    pub(super) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the table has the key.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// The position of a key's value; the table's own position if the key is absent.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.table.and_then(|table| table.get(key)).map_or_else(|| self.span(), Spanned::span)
    }

    /// The value of a key, of any type.
    pub(super) fn value(&self, key: &'static str) -> Option<&'d Spanned<DeValue<'t>>> {
        self.known.borrow_mut().push(key);
        self.table?.get(key)
    }

    /// A table in this one; an absent table reads as empty.
    pub(super) fn section(&self, key: &'static str) -> Result<Self, ConfigError> {
        let value = self.value(key);
        let table = value.map(|value| self.as_table(key, value)).transpose()?;
        Ok(self.below(self.path_of(key), table, value.map_or(0..0, Spanned::span)))
    }

    /// The elements of an array of tables.
    pub(super) fn sections(&self, key: &'static str) -> Result<Vec<Self>, ConfigError> {
        let mut sections = Vec::new();
        for (at, item) in self.items(key)?.into_iter().enumerate() {
            let path = format!("{}[{at}]", self.path_of(key));
            sections.push(self.below(path, Some(self.as_table(key, item)?), item.span()));
        }
        Ok(sections)
    }

    /// The elements of an array; none when it is absent.
    pub(super) fn items(&self, key: &'static str) -> Result<Vec<&'d Spanned<DeValue<'t>>>, ConfigError> {
        match self.value(key) {
            None => Ok(Vec::new()),
            Some(value) => match value.get_ref().as_array() {
                Some(array) => Ok(array.iter().collect()),
                None => Err(self.wrong_type(key, value, "an array")),
            },
        }
    }

    pub(super) fn boolean(&self, key: &'static str) -> Found<bool> {
        let convert = |value: &'d Spanned<DeValue<'t>>| {
            value.get_ref().as_bool().ok_or_else(|| self.wrong_type(key, value, "true or false"))
        };
        self.value(key).map(convert).transpose()
    }

    pub(super) fn number(&self, key: &'static str) -> Found<u64> {
        let convert = |value: &'d Spanned<DeValue<'t>>| {
            let integer =
                value.get_ref().as_integer().ok_or_else(|| self.wrong_type(key, value, "a whole number"))?;
            u64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| {
                let reason = format!("{} must be a whole number, at least 0", self.path_of(key));
                self.document.error(value.span(), reason)
            })
        };
        self.value(key).map(convert).transpose()
    }

    /// A number that is at least 1.
    pub(super) fn positive(&self, key: &'static str) -> Found<u64> {
        match self.number(key)? {
            Some(0) => Err(self.error(key, "must be at least 1")),
            number => Ok(number),
        }
    }

    /// An error at the value of a key; the message is the path of the key and `problem`.
    pub(super) fn error(&self, key: &str, problem: impl std::fmt::Display) -> ConfigError {
        self.document.error(self.span_of(key), format!("{} {problem}", self.path_of(key)))
    }

    /// The error for a key that another key requires.
    pub(super) fn requires(&self, key: &str, other: &str) -> ConfigError {
        self.error(key, format_args!("requires {}", self.path_of(other)))
    }

    pub(super) fn text(&self, key: &'static str) -> Found<String> {
        self.value(key).map(|value| self.as_text(key, value)).transpose()
    }

    pub(super) fn texts(&self, key: &'static str) -> Result<Vec<String>, ConfigError> {
        self.items(key)?.into_iter().map(|item| self.as_text(key, item)).collect()
    }

    /// A table of strings.
    pub(super) fn text_map(&self, key: &'static str) -> Result<BTreeMap<String, String>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(BTreeMap::new()) };
        let entries = self.as_table(key, value)?.iter();
        entries.map(|(name, value)| Ok((name.get_ref().to_string(), self.as_text(key, value)?))).collect()
    }

    /// The value that belongs to one of several names.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Found<T> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
                Err(self.error(key, format_args!("must be one of {}, not {text:?}", names.join(", "))))
            }
        }
    }

    pub(super) fn as_text(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, ConfigError> {
        value.get_ref().as_str().map(str::to_owned).ok_or_else(|| self.wrong_type(key, value, "a string"))
    }

    pub(super) fn as_table(
        &self,
        key: &str,
        value: &'d Spanned<DeValue<'t>>,
    ) -> Result<&'d DeTable<'t>, ConfigError> {
        value.get_ref().as_table().ok_or_else(|| self.wrong_type(key, value, "a table"))
    }

    pub(super) fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> ConfigError {
        let found = value.get_ref().type_str();
        self.document.error(value.span(), format!("{} must be {expected}, not {found}", self.path_of(key)))
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn below(&self, path: String, table: Option<&'d DeTable<'t>>, span: Range<usize>) -> Self {
        Self { document: self.document, path, table, span, known: RefCell::default() }
    }

    /// Warns about every key that was not read.
    pub(super) fn finish(self) {
        let known = self.known.borrow();
        for (key, _) in self.table.into_iter().flat_map(|table| table.iter()) {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let hint = nearest(name, known.iter().copied());
            let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            self.document
                .warn(key.span(), format_args!("unknown key {} is ignored{hint}", self.path_of(name)));
        }
    }
}
