//! Names: how paths are put together, and what a file is called while it is incomplete.

use super::hash;

/// Behind the name of a file that is being copied.
const SUFFIX: &str = ".rex-part";
/// The longest name a directory takes.
const MAX_NAME_BYTES: usize = 255;

/// In a tree that is being copied for the first time; its content is what the source is called.
pub(super) const UNFINISHED: &str = ".rex-part";

/// A path below another; either may be empty.
pub(super) fn join(base: &str, below: &str) -> String {
    match (base, below) {
        ("", below) => below.to_owned(),
        (base, "") => base.to_owned(),
        (base, below) => format!("{}/{below}", base.trim_end_matches('/')),
    }
}

/// The last part of a path, if it names something: `.` and `..` do not.
pub(super) fn last(path: &str) -> Option<&str> {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !matches!(*name, "" | "." | ".."))
}

/// The directory a path lies in; empty for where relative paths start.
pub(super) fn parent(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
        None => "",
    }
}

/// Where a file is put together before it takes its name.
pub(super) fn part(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let part = match name.len() + SUFFIX.len() < MAX_NAME_BYTES {
        true => format!(".{name}{SUFFIX}"),
        false => format!(".{}{SUFFIX}", hash::of(name.as_bytes())),
    };
    format!("{}{part}", path.strip_suffix(name).unwrap_or_default())
}

/// Where a link leads by its text.
pub(super) fn lead(link: &str, text: &str) -> String {
    match text.starts_with('/') {
        true => text.to_owned(),
        false => join(parent(link), text),
    }
}

/// A path without `.`, `..` and doubled slashes, by its text.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let start = if path.starts_with('/') { "/" } else { "" };
    format!("{start}{}", parts.join("/"))
}

/// Whether one path lies in another or is the same, by their text.
pub(super) fn is_within(path: &str, top: &str) -> bool {
    let (path, top) = (clean(path), clean(top));
    top.is_empty()
        || path.strip_prefix(&top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || top == "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together_and_taken_apart() {
        assert_eq!(join("a/", "b"), "a/b");
        assert_eq!(join("/", "b"), "/b");
        assert_eq!(join("", "b"), "b");
        assert_eq!(join("a", ""), "a");
        for (path, name) in
            [("a/b", Some("b")), ("a/b//", Some("b")), ("..", None), ("/", None), ("a/.", None)]
        {
            assert_eq!(last(path), name, "{path}");
        }
        assert_eq!((parent("/a"), parent("a"), parent("a/b/")), ("/", "", "a"));
        assert_eq!(lead("a/link", "../b"), "a/../b");
        assert_eq!(lead("/a/link", "/b"), "/b");
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/"));
        assert!(is_within("a/b", "a/./c/..") && is_within("a", "."));
        assert!(!is_within("/ab", "/a") && !is_within("a", "../b"));
    }

    #[test]
    fn an_incomplete_file_lies_beside_its_name() {
        assert_eq!(part("/srv/app"), "/srv/.app.rex-part");
        assert_eq!(part("app"), ".app.rex-part");
        let long = format!("d/{}", "n".repeat(255));
        let part = part(&long);
        assert!(part.starts_with("d/.") && part.ends_with(".rex-part") && part.len() < 100);
    }
}
