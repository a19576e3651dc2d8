//! Registry: the targets with aliases, in the file that `rex` shares with agent plugins.
//!
//! The file is kept as raw JSON values in their order: fields that this program does not use survive a rewrite
//! unchanged.

mod entry;
mod file;
mod raw_object;

use std::path::{Path, PathBuf};

use crate::failure::Failure;
pub use entry::{Prefix, TargetEntry, TokenSource};
pub(crate) use file::{lock_file, write_atomically, write_private};
pub(crate) use raw_object::{RawObject, one_line};

/// The version of the file format.
const VERSION: &str = "1";

/// The keys of the file.
const KEYS: [&str; 2] = ["version", "targets"];

/// The targets with aliases.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    path: PathBuf,
    document: RawObject,
    targets: RawObject,
}

impl Registry {
    /// Loads the file; a missing file is an empty registry.
    pub fn load(path: &Path) -> Result<Registry, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Registry::parse(&text, path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Registry { path: path.to_owned(), ..Registry::default() })
            }
            Err(error) => Err(Failure::new(format!("cannot read the registry {}: {error}", path.display()))
                .hint("make it readable, or set REXD_TARGETS_FILE to another file")),
        }
    }

    /// Parses the registry; `path` is used in error messages.
    pub fn parse(text: &str, path: &Path) -> Result<Registry, Failure> {
        let document: RawObject = serde_json::from_str(text).map_err(|error| {
            let place = format!("{}:{}:{}", path.display(), error.line(), error.column());
            Failure::new(format!("invalid registry {place}: {error}")).hint(format!(
                "fix {}, or move it away and add the targets again; rex does not change it",
                path.display()
            ))
        })?;
        let targets = match document.get("targets") {
            None => RawObject::default(),
            Some(text) => serde_json::from_str(text.get()).map_err(|_| {
                let what = "`targets` must be an object with one target per alias";
                Failure::new(format!("invalid registry {}: {what}", path.display()))
                    .hint("docs/targets.md shows the format; rex does not change the file")
            })?,
        };
        Ok(Registry { path: path.to_owned(), document, targets })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The aliases, in the order of the file.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        self.targets.keys()
    }

    /// The target of an alias, if it is registered.
    pub fn entry(&self, alias: &str) -> Option<Result<TargetEntry, Failure>> {
        let text = self.targets.get(alias)?.get();
        Some(TargetEntry::parse(text).map_err(|problem| self.invalid_entry(alias, &problem)))
    }

    /// One warning for each key or field that is probably misspelt. Other unknown ones belong to the plugins.
    pub fn warnings(&self) -> Vec<String> {
        let keys = entry::misspelt(&self.document, &KEYS).into_iter().map(|(key, meant)| {
            format!("unknown key `{key}` in {}: did you mean `{meant}`?", self.path.display())
        });
        let fields = self.aliases().flat_map(|alias| match self.entry(alias) {
            Some(Ok(entry)) => entry.warnings(alias),
            // An invalid entry is reported as an error.
            Some(Err(_)) | None => Vec::new(),
        });
        keys.chain(fields).collect()
    }

    fn invalid_entry(&self, alias: &str, problem: &str) -> Failure {
        let file = self.path.display();
        Failure::new(format!("invalid target `{alias}` in {file}: {problem}"))
            .hint("fix the entry; docs/targets.md lists the fields")
    }

    /// Whether the alias is registered, even with an invalid entry.
    pub fn has(&self, alias: &str) -> bool {
        self.targets.get(alias).is_some()
    }

    /// All path prefixes, each with its alias.
    pub fn prefixes(&self) -> Result<Vec<(&str, Prefix)>, Failure> {
        let mut found = Vec::new();
        for (alias, text) in self.targets.iter() {
            // Most targets have no prefixes and need not be parsed.
            if !text.get().contains(entry::PREFIXES) {
                continue;
            }
            let prefixes = TargetEntry::prefixes_of(text.get())
                .map_err(|problem| self.invalid_entry(alias, &problem))?;
            found.extend(prefixes.into_iter().map(|prefix| (alias, prefix)));
        }
        Ok(found)
    }

    /// The whole file on one line.
    pub fn to_line(&self) -> String {
        match self.document.is_empty() {
            true => format!("{{\"version\":{VERSION},\"targets\":{{}}}}"),
            false => one_line(&self.document.to_text(None)),
        }
    }

    /// Changes the file: locks it, loads it, applies `change` and replaces it atomically, so that concurrent changes are
    /// not lost.
    pub fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Registry) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        file::locked(path, |path| {
            let mut registry = Registry::load(path)?;
            registry.refuse_other_versions()?;
            let done = change(&mut registry)?;
            file::replace(path, &registry.to_text())?;
            Ok(done)
        })
    }

    /// Sets the entry of an alias; `value` is a JSON object.
    pub(crate) fn set(&mut self, alias: &str, value: &RawObject) {
        self.targets.set(alias, &value.to_text(Some(2)));
    }

    /// The raw fields of a target.
    pub(crate) fn fields(&self, alias: &str) -> Option<RawObject> {
        self.targets.get(alias).and_then(|text| serde_json::from_str(text.get()).ok())
    }

    /// Removes an alias; returns whether it was registered.
    pub fn remove(&mut self, alias: &str) -> bool {
        self.targets.remove(alias)
    }

    fn to_text(&self) -> String {
        let mut document = self.document.clone();
        if document.get("version").is_none() {
            document.set("version", VERSION);
        }
        document.set("targets", &self.targets.to_text(Some(1)));
        document.to_text(Some(0)) + "\n"
    }

    fn refuse_other_versions(&self) -> Result<(), Failure> {
        match self.document.get("version").map(|version| version.get()) {
            None | Some(VERSION) => Ok(()),
            Some(other) => {
                let what = format!("unsupported registry {}: version {other}", self.path.display());
                Err(Failure::new(format!("{what}; this rex supports version {VERSION}")).hint("update rex"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
