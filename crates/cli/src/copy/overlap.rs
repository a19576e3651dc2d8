//! Overlap: whether the two ends of a copy are on one machine and one path contains the other.

use std::fs;
use std::path::{Path, PathBuf};

use client::Target;

use super::endpoint::CopyEndpoint;
use super::error::CopyError;

/// Whether both paths are on one machine, and one is the other or inside it. Symbolic links are resolved.
pub(super) async fn overlaps(
    (source, from): (&CopyEndpoint, &str),
    (target, to): (&CopyEndpoint, &str),
) -> Result<bool, CopyError> {
    if other_machine(source) != other_machine(target) {
        return Ok(false);
    }
    let (from, to) = (resolve(source, from).await?, resolve(target, to).await?);
    Ok(from.starts_with(&to) || to.starts_with(&from))
}

/// The target of an end; `None` if its paths are those of this machine.
fn other_machine(end: &CopyEndpoint) -> Option<&Target> {
    match end {
        CopyEndpoint::Local => None,
        CopyEndpoint::Remote(remote) => Some(remote.session.target()).filter(|target| !is_local(target)),
    }
}

fn is_local(target: &Target) -> bool {
    matches!(target, Target::Local(_))
}

/// The absolute path without symbolic links; the end of it may not exist.
async fn resolve(end: &CopyEndpoint, path: &str) -> Result<PathBuf, CopyError> {
    match end {
        CopyEndpoint::Local => Ok(real_path(path)),
        CopyEndpoint::Remote(remote) if is_local(remote.session.target()) => {
            Ok(real_path(&remote.absolute(path).await?))
        }
        CopyEndpoint::Remote(remote) => remote.resolve(path).await.map(PathBuf::from),
    }
}

fn real_path(path: &str) -> PathBuf {
    let path = if path.is_empty() { "." } else { path };
    // It fails only if there is no current directory; then the path does not resolve either.
    let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    let real = |parent: &Path| Some(fs::canonicalize(parent).ok()?.join(path.strip_prefix(parent).ok()?));
    path.ancestors().find_map(real).unwrap_or_else(|| path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_in_a_path_whose_end_does_not_exist() {
        let directory = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir(top.join("real")).unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        for (path, real) in [("link", "real"), ("link/new/file", "real/new/file"), ("real/../link/.", "real")]
        {
            assert_eq!(real_path(top.join(path).to_str().unwrap()), top.join(real), "{path}");
        }
    }
}
