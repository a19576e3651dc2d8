//! Tree: the text files of the repository, read once for all rules.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Directories and files without text of the project.
const SKIPPED: &[&str] = &["target", ".git", ".bench", "dist", "node_modules", "corpus", "artifacts"];

/// A text file as the rules read it.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Relative to the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files of the repository.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Reads the repository that contains this tool.
    pub(crate) fn read() -> Result<Tree> {
        let mut files = Vec::new();
        collect(&root(), "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// Rust sources whose path starts with `prefix`; all of them for `""`.
    pub(crate) fn rust<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.starts_with(prefix) && file.path.ends_with(".rs"))
    }

    /// Rust sources of the workspace without tests, the testkit, examples and generated code.
    pub(crate) fn product_code(&self) -> impl Iterator<Item = &File> {
        let others = ["fuzz/", "crates/testkit/", "/examples/", "/generated.rs"];
        self.rust("")
            .filter(move |file| !file.is_test() && !others.iter().any(|part| file.path.contains(part)))
    }

    /// The manifest of each member of the workspace.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/"))
    }

    /// The file with exactly this path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether the path is a file or a directory.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let is_below = |file: &File| file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        self.files.iter().any(|file| file.path == path || is_below(file))
    }
}

impl File {
    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Lines of code before the first inline test module, without comments.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.before_tests().filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Lines before the tests; `#[cfg(test)]` above `mod tests;` does not end the code.
    pub(crate) fn before_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let declares_module = |number: usize| {
            let next = self.text.lines().skip(number).find(|line| !line.starts_with("#["));
            next.is_some_and(|line| line.starts_with("mod ") && line.ends_with(';'))
        };
        self.lines()
            .take_while(move |(number, line)| !line.starts_with("#[cfg(test)]") || declares_module(*number))
    }

    /// Whether the whole file is a test.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.contains("/tests/")
            || name == "tests.rs"
            || name.starts_with("tests_")
            || name.ends_with("_tests.rs")
    }
}

/// The directory of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn collect(directory: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        // `.git` is a file in a worktree.
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            // A picture has no text, but a document may link to it.
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            files.push(File { path, text });
        }
    }
    Ok(())
}
