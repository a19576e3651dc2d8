//! Names: joins and splits paths, and names partial files.

use super::hash::HashKind;

/// The suffix of a partial file.
const SUFFIX: &str = ".rex-part";
/// The maximum length of a file name.
const MAX_NAME_BYTES: usize = 255;

/// Joins two paths; either may be empty.
pub(super) fn join(base: &str, below: &str) -> String {
    match (base, below) {
        ("", below) => below.to_owned(),
        (base, "") => base.to_owned(),
        (base, below) => format!("{}/{below}", base.trim_end_matches('/')),
    }
}

/// The last component of a path, unless it is `.` or `..`.
pub(super) fn last(path: &str) -> Option<&str> {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !matches!(*name, "" | "." | ".."))
}

/// The parent directory of a path; empty for a relative name.
pub(super) fn parent(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
        None => "",
    }
}

/// The path of the partial file of a file.
pub(super) fn part(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let part = match name.len() + SUFFIX.len() < MAX_NAME_BYTES {
        true => format!(".{name}{SUFFIX}"),
        false => format!(".{}{SUFFIX}", HashKind::Sha256.of(name.as_bytes())),
    };
    format!("{}{part}", path.strip_suffix(name).unwrap_or_default())
}

/// The path that a symbolic link points to.
pub(super) fn lead(link: &str, text: &str) -> String {
    match text.starts_with('/') {
        true => text.to_owned(),
        false => join(parent(link), text),
    }
}

/// Removes `.`, `..` and repeated slashes, without file access.
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

/// Whether a path is inside another or the same, without file access.
pub(super) fn is_within(path: &str, top: &str) -> bool {
    let (path, top) = (clean(path), clean(top));
    top.is_empty()
        || path.strip_prefix(&top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || top == "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_split() {
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
    fn a_partial_file_is_next_to_its_final_name() {
        assert_eq!(part("/srv/app"), "/srv/.app.rex-part");
        assert_eq!(part("app"), ".app.rex-part");
        let long = format!("d/{}", "n".repeat(255));
        let part = part(&long);
        assert!(part.starts_with("d/.") && part.ends_with(".rex-part") && part.len() < 100);
    }
}
