//! Project file: `.rex.toml` sets the target of a directory tree.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::route::suggest;

/// The name of the project file.
pub const NAME: &str = ".rex.toml";
/// The maximum size of a project file.
const SIZE_LIMIT: u64 = 64 * 1024;
const KEYS: [&str; 2] = ["target", "cwd"];

/// The contents of a project file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The path of the file.
    pub file: PathBuf,
    /// An alias or a target.
    pub target: Option<String>,
    /// The working directory on the target.
    pub cwd: Option<String>,
}

/// Finds the nearest project file, from a directory upwards.
pub fn find(from: &Path) -> Result<Option<Project>, Failure> {
    for dir in from.ancestors() {
        let file = dir.join(NAME);
        match open(&file) {
            Ok(opened) => return refuse_foreign(&file).and_then(|()| read(opened, &file)).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(refuse(&file, &error.to_string(), "choose the target with -t")),
        }
    }
    Ok(None)
}

/// Opens the file without blocking if it is a FIFO or a device.
fn open(file: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(file)
}

/// Checks the owner of the name itself: a symbolic link of another user could point to any file of this user.
fn refuse_foreign(file: &Path) -> Result<(), Failure> {
    refuse_owner(std::fs::symlink_metadata(file)?.uid(), file)
}

fn refuse_owner(owner: u32, file: &Path) -> Result<(), Failure> {
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let problem = format!("it belongs to user {owner}, who could redirect your commands");
    Err(refuse(file, &problem, "check its contents, then `chown` it; -t overrides it"))
}

fn read(mut opened: File, file: &Path) -> Result<Project, Failure> {
    let about = opened.metadata()?;
    if !about.is_file() || about.len() > SIZE_LIMIT {
        return Err(refuse(file, "not a regular file below 64 KiB", "choose the target with -t"));
    }
    refuse_owner(about.uid(), file)?;
    if about.mode() & 0o002 != 0 {
        let problem = "it is world-writable, so other users could redirect your commands";
        return Err(refuse(file, problem, &format!("chmod o-w {}", file.display())));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(|error| refuse(file, &error.to_string(), "fix the file"))?;
    parse(&text, file)
}

/// Parses the text of a project file.
pub fn parse(text: &str, file: &Path) -> Result<Project, Failure> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let (line, column) = place(text, error.span().map_or(0, |span| span.start));
        let problem = format!("line {line}, column {column}: {}", error.message());
        refuse(file, &problem, "fix the file; -t overrides it")
    })?;
    let known = "the keys are `target` and `cwd`";
    let mut project = Project { file: file.to_owned(), target: None, cwd: None };
    for (key, value) in &table {
        let slot = match key.as_str() {
            "target" => &mut project.target,
            "cwd" => &mut project.cwd,
            other => {
                let hint = match suggest::nearest(other, KEYS) {
                    Some(meant) => format!("did you mean `{meant}`? {known}"),
                    None => known.to_owned(),
                };
                return Err(refuse(file, &format!("unknown key `{other}`"), &hint));
            }
        };
        match value.as_str().filter(|text| !text.is_empty()) {
            Some(text) => *slot = Some(text.to_owned()),
            None => {
                return Err(refuse(
                    file,
                    &format!("`{key}` must be a non-empty string"),
                    "fix the file; -t overrides it",
                ));
            }
        }
    }
    match (&project.target, &project.cwd) {
        (None, Some(_)) => {
            Err(refuse(file, "`cwd` without `target` has no effect", "add target = \"ALIAS\""))
        }
        _ => Ok(project),
    }
}

fn refuse(file: &Path, problem: &str, hint: &str) -> Failure {
    Failure::new(format!("cannot use the project file {}: {problem}", file.display())).hint(hint)
}

/// Line and column of a byte offset, from 1.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_file_is_refused_with_its_path_and_the_reason() {
        for (text, words) in [
            ("target = \n", "line 1, column"),
            ("\ntarget = \"web\"\ncwd = [", "line 3, column"),
            ("tagret = \"web\"", "unknown key `tagret`"),
            ("target = 7", "`target` must be a non-empty string"),
            ("target = \"\"", "`target` must be a non-empty string"),
            ("cwd = \"/srv\"", "without `target`"),
        ] {
            let failure = parse(text, Path::new("/p/.rex.toml")).unwrap_err();
            assert!(failure.message.contains(words), "{text:?}: {failure}");
            assert!(failure.message.contains("/p/.rex.toml") && failure.hint.is_some(), "{failure:?}");
        }
        assert_eq!(parse("", Path::new("f")).unwrap().target, None, "an empty file sets no target");
    }

    #[test]
    fn a_misspelt_key_is_corrected_in_the_hint() {
        let hint = parse("tagret = \"web\"", Path::new("f")).unwrap_err().hint.unwrap();
        assert!(hint.contains("did you mean `target`?"), "{hint}");
    }
}
