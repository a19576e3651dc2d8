//! Globs on paths, matched component by component on bytes, so that names that are not UTF-8 are matched too.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::pattern::{Glob, Match};

/// A glob on an absolute path: `**` any number of directories, `*`, `?` and `[a-z]` within one name. `dir/**` matches the
/// directory and everything below it. Without a leading slash it matches at any depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathGlob {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Any number of names, including none.
    Any,
    /// One name.
    Name(Glob),
}

/// A property that all paths matching a glob have, for an index.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GlobKey {
    /// They are this directory or below it.
    Directory(Vec<u8>),
    /// Their last name.
    Name(Vec<u8>),
    /// No such property.
    None,
}

impl PathGlob {
    /// `None` if the text is empty or contains `.` or `..`, which no resolved path has.
    pub fn new(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        if !text.starts_with('/') {
            parts.push(Part::Any);
        }
        for name in text.split('/').filter(|name| !name.is_empty()) {
            match name {
                "." | ".." => return None,
                "**" if parts.last() == Some(&Part::Any) => {}
                "**" => parts.push(Part::Any),
                name => parts.push(Part::Name(Glob::new(name))),
            }
        }
        (!text.is_empty()).then(|| Self { text: text.to_owned(), parts })
    }

    /// The text it was created from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the glob matches a path.
    pub fn matches(&self, path: &Path) -> bool {
        let path = clean(path);
        matches(&self.parts, &names(&path))
    }

    /// Whether it matches the path and everything below it, perhaps a part of that, or nothing.
    pub(super) fn matches_tree(&self, path: &Path) -> Match {
        let path = clean(path);
        let names = names(&path);
        if self.parts.last() == Some(&Part::Any) && matches(&self.parts, &names) {
            Match::Yes
        } else if could_match_below(&self.parts, &names) || matches(&self.parts, &names) {
            Match::Maybe
        } else {
            Match::No
        }
    }

    /// The property for an index.
    pub(super) fn key(&self) -> GlobKey {
        let mut directory = Vec::new();
        for part in &self.parts {
            match part {
                Part::Name(name) if name.is_literal() => {
                    directory.push(b'/');
                    directory.extend_from_slice(name.as_str().as_bytes());
                }
                _ => break,
            }
        }
        match self.parts.last() {
            _ if !directory.is_empty() => GlobKey::Directory(directory),
            Some(Part::Name(name)) if name.is_literal() => GlobKey::Name(name.as_str().as_bytes().to_vec()),
            _ => GlobKey::None,
        }
    }
}

/// The path without `.`, `..` and repeated slashes.
pub(super) fn clean(path: &Path) -> Cow<'_, Path> {
    let bytes = path.as_os_str().as_bytes();
    let tidy = bytes.starts_with(b"/")
        && !bytes.split(|&byte| byte == b'/').skip(1).any(|name| matches!(name, b"" | b"." | b".."));
    if tidy {
        return Cow::Borrowed(path);
    }
    let mut cleaned = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => cleaned.push(name),
            Component::ParentDir => {
                cleaned.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Cow::Owned(cleaned)
}

fn names(path: &Path) -> Vec<&OsStr> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect()
}

/// Backtracks only to the last `**`: earlier ones cannot change the result.
fn matches(parts: &[Part], names: &[&OsStr]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while let Some(name) = names.get(n) {
        match parts.get(p) {
            Some(Part::Any) => {
                back = Some((p, n));
                p += 1;
                continue;
            }
            Some(Part::Name(glob)) if glob.matches_bytes(name.as_bytes()) => {
                p += 1;
                n += 1;
                continue;
            }
            _ => {}
        }
        let Some((at, from)) = back else { return false };
        (p, n) = (at + 1, from + 1);
        back = Some((at, n));
    }
    parts.get(p..).unwrap_or_default().iter().all(|part| *part == Part::Any)
}

/// Whether a longer path that starts with these names could match.
fn could_match_below(parts: &[Part], names: &[&OsStr]) -> bool {
    let mut parts = parts.iter();
    for name in names {
        match parts.next() {
            None => return false,
            Some(Part::Any) => return true,
            Some(Part::Name(glob)) if glob.matches_bytes(name.as_bytes()) => {}
            Some(Part::Name(_)) => return false,
        }
    }
    parts.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> PathGlob {
        PathGlob::new(text).unwrap()
    }

    #[test]
    fn globs_match_paths_name_by_name() {
        let table: &[(&str, &str, bool)] = &[
            ("/srv/app/secrets/**", "/srv/app/secrets/a/b", true),
            ("/srv/app/secrets/**", "/srv/app/secrets", true),
            ("/srv/app/secrets/**", "/srv/app/secrets2", false),
            ("/srv/app/secrets/**", "/srv/app", false),
            ("**/.env", "/.env", true),
            ("**/.env", "/a/b/.env", true),
            (".env", "/a/b/.env", true),
            ("**/.env", "/a/.env/b", false),
            ("**/.env", "/a/b.env", false),
            ("**/.env*", "/a/.env.local", true),
            ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/b/b/c", false),
            ("/a/**/c", "/a/c", true),
            ("/a/**/c/**/d", "/a/x/c/y/z/d", true),
            ("/a/**/c/**/d", "/a/x/c/y/z/e", false),
            ("/", "/", true),
            ("/**", "/a/b", true),
            ("/a/b", "/a//b/", true),
            ("/a/b", "/a/c/../b/.", true),
            ("/a/*.pem", "/a/x.pem", true),
            ("/a/*.pem", "/a/x/y.pem", false),
        ];
        for (text, path, expected) in table {
            assert_eq!(glob(text).matches(Path::new(path)), *expected, "{text} on {path}");
        }
    }

    #[test]
    fn a_tree_is_matched_whole_or_perhaps_in_part() {
        let table: &[(&str, &str, Match)] = &[
            ("/srv/app/**", "/srv/app", Match::Yes),
            ("/srv/app/**", "/srv/app/x", Match::Yes),
            ("/srv/app/**", "/srv", Match::Maybe),
            ("/srv/app/**", "/", Match::Maybe),
            ("/srv/app/**", "/home", Match::No),
            ("/srv/*/key", "/srv/app", Match::Maybe),
            ("/srv/*/key", "/srv/app/key", Match::Maybe),
            ("/srv/*/key", "/srv/app/lock", Match::No),
            ("**/.env", "/anywhere", Match::Maybe),
        ];
        for (text, path, expected) in table {
            assert_eq!(glob(text).matches_tree(Path::new(path)), *expected, "{text} on {path}");
        }
    }

    #[test]
    fn names_that_are_no_text_are_matched_too() {
        let odd = PathBuf::from(OsStr::from_bytes(b"/srv/\xff\xfe/.env"));
        assert!(glob("**/.env").matches(&odd));
        assert!(glob("/srv/??/.env").matches(&odd));
    }

    #[test]
    fn a_glob_that_no_path_can_match_is_none() {
        assert!(PathGlob::new("/a/../b").is_none());
        assert!(PathGlob::new("").is_none());
    }

    #[test]
    fn keys_are_what_every_match_has() {
        assert_eq!(glob("/srv/app/**").key(), GlobKey::Directory(b"/srv/app".to_vec()));
        assert_eq!(glob("**/.env").key(), GlobKey::Name(b".env".to_vec()));
        assert_eq!(glob("**/*.pem").key(), GlobKey::None);
    }
}
