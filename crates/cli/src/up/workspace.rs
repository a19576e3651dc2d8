//! The workspace of the demonstration: the user's directory, or a temporary sample.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::failure::Failure;

/// The served directory, and a temporary directory for the daemon's own files.
#[derive(Debug)]
pub(super) struct Workspace {
    temporary: TempDir,
    named: Option<PathBuf>,
}

impl Workspace {
    /// Uses the given directory, or creates a sample.
    pub(super) fn prepare(named: Option<&Path>) -> Result<Workspace, Failure> {
        let temporary = tempfile::Builder::new().prefix("rex-up-").tempdir()?;
        let named = match named {
            Some(path) => Some(path.canonicalize().map_err(|error| {
                Failure::new(format!("cannot open {}: {error}", path.display()))
                    .hint("pass an existing directory")
            })?),
            None => {
                sample(temporary.path())?;
                None
            }
        };
        Ok(Workspace { temporary, named })
    }

    pub(super) fn is_sample(&self) -> bool {
        self.named.is_none()
    }

    /// The directory that is served.
    pub(super) fn root(&self) -> PathBuf {
        self.named.clone().unwrap_or_else(|| self.temporary.path().join("workspace"))
    }

    /// A path in the temporary directory.
    pub(super) fn own(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }
}

fn sample(temporary: &Path) -> Result<(), Failure> {
    let workspace = temporary.join("workspace");
    fs::create_dir_all(workspace.join("fruit"))?;
    fs::write(workspace.join("fruit/list.txt"), "apples\npears\n")?;
    fs::write(workspace.join("count.sh"), "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done\n")?;
    fs::write(workspace.join("deploy.sh"), "echo deployed to production\n")?;
    fs::write(temporary.join("secret.txt"), "not for the agent\n")?;
    if commit(&workspace) {
        fs::write(workspace.join("fruit/list.txt"), "apples\npears\nplums\n")?;
    }
    Ok(())
}

/// Makes the directory a git repository with one commit; returns false where git is missing or fails.
fn commit(workspace: &Path) -> bool {
    let settings = ["user.name=rex up", "user.email=rex-up@localhost", "init.defaultBranch=main"];
    let steps: [&[&str]; 3] = [&["init", "-q"], &["add", "."], &["commit", "-q", "-m", "Add the sample"]];
    steps.iter().all(|step| {
        let mut git = Command::new("git");
        git.args(settings.iter().flat_map(|setting| ["-c", setting])).args(*step).current_dir(workspace);
        git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Neither the settings of the user, such as signed commits, nor the repository of a hook that runs this apply here.
        git.env_clear()
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        git.status().is_ok_and(|status| status.success())
    })
}
