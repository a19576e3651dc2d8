//! Registry: the targets that have an alias, in the file that rex shares with the agents' plugins.
//!
//! The file is read as texts by name, in its own order: what this program does not know survives a rewrite as it was
//! written.

mod document;
mod entry;
mod file;

use std::path::{Path, PathBuf};

use crate::failure::Failure;
pub(crate) use document::{Ordered, one_line};
pub use entry::{Entry, Prefix, TokenSource};
pub(crate) use file::write_atomically;

/// The version of the file's layout that is written.
const VERSION: &str = "1";

/// The targets that have an alias.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    path: PathBuf,
    document: Ordered,
    targets: Ordered,
}

impl Registry {
    /// Reads the file; without one there are no targets. A file that makes no sense is told with its place.
    pub fn load(path: &Path) -> Result<Registry, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Registry::parse(&text, path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Registry { path: path.to_owned(), ..Registry::default() })
            }
            Err(error) => Err(Failure::new(format!("cannot read the registry {}: {error}", path.display()))
                .hint("it must be a JSON file that you may read; REXD_TARGETS_FILE names another one")),
        }
    }

    /// Reads a text; `path` is where it came from.
    pub fn parse(text: &str, path: &Path) -> Result<Registry, Failure> {
        let document: Ordered = serde_json::from_str(text).map_err(|error| {
            let place = format!("{}:{}:{}", path.display(), error.line(), error.column());
            Failure::new(format!("the registry of targets is no JSON object at {place}: {error}")).hint(
                format!(
                    "mend {} there, or move it away and add the targets again; rex leaves it as it is",
                    path.display()
                ),
            )
        })?;
        let targets = match document.get("targets") {
            None => Ordered::default(),
            Some(text) => serde_json::from_str(text.get()).map_err(|_| {
                let what = "`targets` must be an object of targets by alias";
                Failure::new(format!("the registry {} makes no sense: {what}", path.display()))
                    .hint("docs/targets.md shows how it looks; rex leaves it as it is")
            })?,
        };
        Ok(Registry { path: path.to_owned(), document, targets })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The aliases, in the order of the file.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        self.targets.keys()
    }

    /// What an alias stands for, if it is there.
    pub fn entry(&self, alias: &str) -> Option<Result<Entry, Failure>> {
        let text = self.targets.get(alias)?.get();
        Some(Entry::parse(text).map_err(|problem| self.odd(alias, &problem)))
    }

    fn odd(&self, alias: &str, problem: &str) -> Failure {
        let file = self.path.display();
        Failure::new(format!("the target `{alias}` in {file} makes no sense: {problem}"))
            .hint("mend it there; docs/targets.md lists what a target may have")
    }

    /// Whether the alias is there, whatever it stands for.
    pub fn has(&self, alias: &str) -> bool {
        self.targets.get(alias).is_some()
    }

    /// Every prefix of every target, with the alias.
    pub fn prefixes(&self) -> Result<Vec<(&str, Prefix)>, Failure> {
        let mut found = Vec::new();
        for (alias, text) in self.targets.iter() {
            // Most targets have none: those are not looked at any closer.
            if !text.get().contains(entry::PREFIXES) {
                continue;
            }
            let prefixes = Entry::prefixes_of(text.get()).map_err(|problem| self.odd(alias, &problem))?;
            found.extend(prefixes.into_iter().map(|prefix| (alias, prefix)));
        }
        Ok(found)
    }

    /// The whole file as one line.
    pub fn to_line(&self) -> String {
        match self.document.is_empty() {
            true => format!("{{\"version\":{VERSION},\"targets\":{{}}}}"),
            false => one_line(&self.document.to_text(None)),
        }
    }

    /// Changes the file: reads it, lets `change` do its work and puts it in its place in one step. Whoever else does
    /// so at the same time waits, so nothing is lost.
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

    /// Sets what an alias stands for; `value` is a JSON object.
    pub(crate) fn set(&mut self, alias: &str, value: &Ordered) {
        self.targets.set(alias, &value.to_text(Some(2)));
    }

    /// The fields of a target as they are written.
    pub(crate) fn fields(&self, alias: &str) -> Option<Ordered> {
        self.targets.get(alias).and_then(|text| serde_json::from_str(text.get()).ok())
    }

    /// Forgets an alias; whether it was there.
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
                let what = format!("the registry {} has version {other}", self.path.display());
                Err(Failure::new(format!("{what}, and this rex writes {VERSION}")).hint("update rex"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
