//! The workspace that is served: the one that was named, or a sample made for the occasion.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::Failure;

/// Where the daemon works and where it keeps what is its own. A sample goes when this does.
#[derive(Debug)]
pub(super) struct Workspace {
    place: TempDir,
    named: Option<PathBuf>,
}

impl Workspace {
    /// The named workspace, or a sample.
    pub(super) fn prepare(named: Option<&Path>) -> Result<Workspace, Failure> {
        let place = tempfile::Builder::new().prefix("rex-up-").tempdir()?;
        let named = match named {
            Some(path) => Some(path.canonicalize().map_err(|error| {
                Failure::new(format!("{}: {error}", path.display())).hint("name a directory that exists")
            })?),
            None => {
                sample(place.path())?;
                None
            }
        };
        Ok(Workspace { place, named })
    }

    pub(super) fn is_sample(&self) -> bool {
        self.named.is_none()
    }

    /// What is served.
    pub(super) fn root(&self) -> PathBuf {
        self.named.clone().unwrap_or_else(|| self.place.path().join("workspace"))
    }

    /// A place for what is the daemon's own.
    pub(super) fn own(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

fn sample(place: &Path) -> Result<(), Failure> {
    let workspace = place.join("workspace");
    fs::create_dir_all(workspace.join("fruit"))?;
    fs::write(workspace.join("fruit/list.txt"), "apples\npears\n")?;
    fs::write(workspace.join("count.sh"), "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done\n")?;
    fs::write(place.join("secret.txt"), "not for the agent\n")?;
    Ok(())
}
