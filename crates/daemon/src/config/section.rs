//! Reads a TOML table key by key, and reports errors with line and column.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::policy::Glob;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::paths::Paths;
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
        /// The problem, and the expected value.
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
    pub(super) paths: &'t Paths,
    pub(super) warnings: RefCell<Vec<String>>,
}

impl Document<'_> {
    /// An error at a position in the file.
    pub(super) fn error(&self, span: Range<usize>, reason: impl Into<String>) -> ConfigError {
        let (line, column) = self.position(span.start);
        ConfigError::Invalid { file: self.file.to_owned(), line, column, reason: reason.into() }
    }

    /// Adds a warning for a position in the file.
    pub(super) fn warn(&self, span: Range<usize>, text: impl Display) {
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

/// A value with its position in the file.
pub(super) type TomlValue<'t> = Spanned<DeValue<'t>>;

/// One table of the file. Every key that is read counts as known; dropping the section warns about the others.
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

    /// The value of a key, of any type.
    pub(super) fn value(&self, key: &'static str) -> Option<&'d TomlValue<'t>> {
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
    pub(super) fn items(&self, key: &'static str) -> Result<Vec<&'d TomlValue<'t>>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let array = value.get_ref().as_array().ok_or_else(|| self.wrong_type(key, value, "an array"))?;
        Ok(array.iter().collect())
    }

    /// Converts every string of an array. The reason of a failure is reported at its element.
    pub(super) fn each<T>(
        &self,
        key: &'static str,
        mut convert: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError> {
        let convert = |item: &TomlValue<'_>| {
            convert(&self.as_text(key, item)?).map_err(|reason| self.document.error(item.span(), reason))
        };
        self.items(key)?.into_iter().map(convert).collect()
    }

    pub(super) fn boolean(&self, key: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(default) };
        value.get_ref().as_bool().ok_or_else(|| self.wrong_type(key, value, "true or false"))
    }

    pub(super) fn number(&self, key: &'static str) -> Found<u64> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let integer = value.get_ref().as_integer();
        let integer = integer.ok_or_else(|| self.wrong_type(key, value, "a whole number"))?;
        let number = u64::from_str_radix(integer.as_str(), integer.radix());
        number.map(Some).map_err(|_| self.error(key, "must be a whole number, at least 0"))
    }

    /// A number that is at least 1.
    pub(super) fn positive(&self, key: &'static str, default: u64) -> Result<u64, ConfigError> {
        match self.number(key)? {
            Some(0) => Err(self.error(key, "must be at least 1")),
            number => Ok(number.unwrap_or(default)),
        }
    }

    /// A count that is at least 1.
    pub(super) fn count(&self, key: &'static str, default: usize) -> Result<usize, ConfigError> {
        Ok(usize::try_from(self.positive(key, default as u64)?).unwrap_or(usize::MAX))
    }

    /// A number of milliseconds that is at least 1.
    pub(super) fn time(&self, key: &'static str, default: Duration) -> Result<Duration, ConfigError> {
        let default = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
        self.positive(key, default).map(Duration::from_millis)
    }

    pub(super) fn text(&self, key: &'static str) -> Found<String> {
        self.value(key).map(|value| self.as_text(key, value)).transpose()
    }

    /// A trimmed string; `None` if it is absent or empty.
    pub(super) fn filled_text(&self, key: &'static str) -> Found<String> {
        let text = self.text(key)?.map(|text| text.trim().to_owned());
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// The `name` of an element of an array; `kind` is the kind of the element.
    pub(super) fn name(&self, kind: &str) -> Result<String, ConfigError> {
        let name = self.text("name")?.filter(|name| !name.is_empty());
        name.ok_or_else(|| self.document.error(self.span(), format!("a {kind} needs a name")))
    }

    /// An absolute path; `None` if it is absent or empty.
    pub(super) fn file(&self, key: &'static str) -> Found<PathBuf> {
        let Some(text) = self.text(key)?.filter(|text| !text.is_empty()) else { return Ok(None) };
        let path = self.document.paths.expand(&text);
        match path.is_absolute() && !text.contains('\0') {
            true => Ok(Some(path)),
            false => Err(self.error(key, format_args!("must be absolute, not {text:?}"))),
        }
    }

    pub(super) fn texts(&self, key: &'static str) -> Result<Vec<String>, ConfigError> {
        self.each(key, |text| Ok(text.to_owned()))
    }

    pub(super) fn globs(&self, key: &'static str) -> Result<Vec<Glob>, ConfigError> {
        self.each(key, |text| Ok(Glob::new(text)))
    }

    /// A table of strings.
    pub(super) fn text_map(&self, key: &'static str) -> Result<BTreeMap<String, String>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(BTreeMap::new()) };
        let entries = self.as_table(key, value)?.iter();
        entries.map(|(name, value)| Ok((name.get_ref().to_string(), self.as_text(key, value)?))).collect()
    }

    /// The value that belongs to one of several names.
    pub(super) fn choice<T: Clone>(&self, key: &'static str, choices: &[(&str, T)]) -> Found<T> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(Some(choice.clone()));
        }
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
        Err(self.error(key, format_args!("must be one of {}, not {text:?}", names.join(", "))))
    }

    pub(super) fn as_text(&self, key: &str, value: &TomlValue<'_>) -> Result<String, ConfigError> {
        value.get_ref().as_str().map(str::to_owned).ok_or_else(|| self.wrong_type(key, value, "a string"))
    }

    fn as_table(&self, key: &str, value: &'d TomlValue<'t>) -> Result<&'d DeTable<'t>, ConfigError> {
        value.get_ref().as_table().ok_or_else(|| self.wrong_type(key, value, "a table"))
    }

    pub(super) fn wrong_type(&self, key: &str, value: &TomlValue<'_>, expected: &str) -> ConfigError {
        let found = value.get_ref().type_str();
        self.document.error(value.span(), format!("{} must be {expected}, not {found}", self.path_of(key)))
    }

    /// An error at the value of a key; the message is the path of the key and `problem`.
    pub(super) fn error(&self, key: &str, problem: impl Display) -> ConfigError {
        self.error_at(key, format!("{} {problem}", self.path_of(key)))
    }

    /// An error at the value of a key, or at the table if the key is absent.
    pub(super) fn error_at(&self, key: &str, reason: impl Into<String>) -> ConfigError {
        self.document.error(self.span_of(key), reason)
    }

    /// The error for a key that another key requires.
    pub(super) fn requires(&self, key: &str, other: &str) -> ConfigError {
        self.error(key, format_args!("requires {}", self.path_of(other)))
    }

    /// Adds a warning at the value of a key.
    pub(super) fn warn(&self, key: &str, text: impl Display) {
        self.document.warn(self.span_of(key), text);
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.table.and_then(|table| table.get(key)).map_or_else(|| self.span(), Spanned::span)
    }

    fn below(&self, path: String, table: Option<&'d DeTable<'t>>, span: Range<usize>) -> Self {
        Self { document: self.document, path, table, span, known: RefCell::default() }
    }
}

impl Drop for Section<'_, '_> {
    fn drop(&mut self) {
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
