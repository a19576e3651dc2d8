//! Resolves the paths of a profile. Symbolic links that a command could have created are not followed out of the
//! writable paths.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::real;

/// The maximal number of links followed for one path; more of them form a cycle.
const MAX_LINKS: usize = 40;

/// Resolves each of `paths`. A parent must come before its children.
pub(super) fn all(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut resolve: Vec<PathBuf> = Vec::with_capacity(paths.len());
    for path in paths {
        resolve.push(one(path, &resolve));
    }
    resolve
}

/// Resolves the existing part of a path. Below a path that commands can write, links are followed only if they stay
/// below such a path; otherwise the path is left as it is, and the kernel refuses it.
pub(super) fn one(path: &Path, changeable: &[PathBuf]) -> PathBuf {
    let is_changeable = |path: &Path| changeable.iter().any(|held| path.starts_with(held));
    let mut at = PathBuf::from("/");
    let mut ahead = reversed(path);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if is_changeable(&at) {
            let unresolved = ahead.iter().rev().fold(at.join(name), |path, name| path.join(name));
            let found = real(&unresolved);
            return if is_changeable(&found) { found } else { unresolved };
        }
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(name);
        if let (Ok(target), true) = (at.read_link(), links < MAX_LINKS) {
            links += 1;
            at.pop();
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            ahead.extend(reversed(&target));
        }
    }
    at
}

/// The components of a path, the last one first.
fn reversed(path: &Path) -> Vec<OsString> {
    let named = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(named).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on says so and ends")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_is_followed_unless_a_command_could_have_made_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["ws/sub", "ws/real", "out"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        symlink(at("ws"), at("alias")).unwrap();
        symlink("../out", at("ws/door")).unwrap();
        symlink("real", at("ws/within")).unwrap();
        symlink(at("ws/door"), at("around")).unwrap();
        symlink("circle", at("circle")).unwrap();
        let held = all(&[at("alias"), at("ws/door")]);
        assert_eq!(held, [at("ws"), at("ws/door")]);
        let held = &held[..1];
        assert_eq!(one(&at("alias/sub/new"), held), at("ws/sub/new"));
        assert_eq!(one(&at("alias/within/new"), held), at("ws/real/new"));
        assert_eq!(one(&at("ws/door"), held), at("ws/door"));
        assert_eq!(one(&at("around"), held), at("ws/door"));
        assert_eq!(one(&at("ws/door"), &[]), at("out"));
        assert_eq!(one(&at("out/../alias/sub"), &[]), at("ws/sub"));
        assert_eq!(one(&at("missing/new"), held), at("missing/new"));
        assert_eq!(one(&at("circle"), held), at("circle"));
    }
}
