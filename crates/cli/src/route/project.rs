//! Project file: `.rex.toml` says where the work of a directory tree is done.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::route::near;

/// The name of the file.
pub const NAME: &str = ".rex.toml";
/// No project file is larger.
const SIZE_LIMIT: u64 = 64 * 1024;
const KEYS: [&str; 2] = ["target", "cwd"];

/// What a project file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The file.
    pub file: PathBuf,
    /// An alias or a target.
    pub target: Option<String>,
    /// Where commands start there.
    pub cwd: Option<String>,
}

/// The nearest project file, from a directory upwards.
pub fn find(from: &Path) -> Result<Option<Project>, Failure> {
    for folder in from.ancestors() {
        let file = folder.join(NAME);
        match open(&file) {
            Ok(opened) => return refuse_foreign(&file).and_then(|()| read(opened, &file)).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(refuse(&file, &error.to_string(), "name the target with -t")),
        }
    }
    Ok(None)
}

/// Opens without waiting for whoever is at the other end of something that is no file.
fn open(file: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(file)
}

/// Whoever made the name could have made it a link to any file of ours.
fn refuse_foreign(file: &Path) -> Result<(), Failure> {
    refuse_owner(std::fs::symlink_metadata(file)?.uid(), file)
}

fn refuse_owner(owner: u32, file: &Path) -> Result<(), Failure> {
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let problem = format!("it belongs to user {owner}, who could send your commands anywhere");
    Err(refuse(file, &problem, "look at it, then take it over with chown; -t goes past it"))
}

fn read(mut opened: File, file: &Path) -> Result<Project, Failure> {
    let about = opened.metadata()?;
    if !about.is_file() || about.len() > SIZE_LIMIT {
        return Err(refuse(file, "it is no small file", "name the target with -t"));
    }
    refuse_owner(about.uid(), file)?;
    if about.mode() & 0o002 != 0 {
        let problem = "everybody may change it, and so send your commands anywhere";
        return Err(refuse(file, problem, &format!("chmod o-w {}", file.display())));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(|error| refuse(file, &error.to_string(), "mend it"))?;
    parse(&text, file)
}

/// Reads the text of a project file.
pub fn parse(text: &str, file: &Path) -> Result<Project, Failure> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let (line, column) = place(text, error.span().map_or(0, |span| span.start));
        let problem = format!("line {line}, column {column}: {}", error.message());
        refuse(file, &problem, "mend it there; -t goes past it")
    })?;
    let known = "known are `target` and `cwd`";
    let mut project = Project { file: file.to_owned(), target: None, cwd: None };
    for (key, value) in &table {
        let slot = match key.as_str() {
            "target" => &mut project.target,
            "cwd" => &mut project.cwd,
            other => {
                let hint = match near::nearest(other, KEYS) {
                    Some(meant) => format!("did you mean `{meant}`? {known}"),
                    None => known.to_owned(),
                };
                return Err(refuse(file, &format!("it has the unknown key `{other}`"), &hint));
            }
        };
        match value.as_str().filter(|text| !text.is_empty()) {
            Some(text) => *slot = Some(text.to_owned()),
            None => return Err(refuse(file, &format!("`{key}` must be a text"), "mend it; -t goes past it")),
        }
    }
    match (&project.target, &project.cwd) {
        (None, Some(_)) => {
            Err(refuse(file, "`cwd` says nothing without `target`", "add target = \"ALIAS\" to it"))
        }
        _ => Ok(project),
    }
}

fn refuse(file: &Path, problem: &str, hint: &str) -> Failure {
    Failure::new(format!("the project file {} does not count: {problem}", file.display())).hint(hint)
}

/// Line and column of a byte, counted from one.
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
    fn what_makes_no_sense_is_refused_with_its_place() {
        for (text, words) in [
            ("target = \n", "line 1, column"),
            ("\ntarget = \"web\"\ncwd = [", "line 3, column"),
            ("tagret = \"web\"", "unknown key `tagret`"),
            ("target = 7", "`target` must be a text"),
            ("target = \"\"", "`target` must be a text"),
            ("cwd = \"/srv\"", "without `target`"),
        ] {
            let failure = parse(text, Path::new("/p/.rex.toml")).unwrap_err();
            assert!(failure.message.contains(words), "{text:?}: {failure}");
            assert!(failure.message.contains("/p/.rex.toml") && failure.hint.is_some(), "{failure:?}");
        }
        assert_eq!(parse("", Path::new("f")).unwrap().target, None, "an empty file says nothing");
    }

    #[test]
    fn a_slip_in_a_key_is_recognised() {
        let hint = parse("tagret = \"web\"", Path::new("f")).unwrap_err().hint.unwrap();
        assert!(hint.contains("did you mean `target`?"), "{hint}");
    }
}
