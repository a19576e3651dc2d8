//! `rex` as a whole program, with its own registry and home directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use serde_json::json;

use super::sshd::Sshd;
use crate::stats::timed;
use crate::world::World;

/// rex, its home, and the configuration of the rexd it starts.
#[derive(Debug)]
pub(crate) struct Rex {
    program: PathBuf,
    rexd: PathBuf,
    /// The only root: where commands of the target `local` start.
    directory: PathBuf,
    home: PathBuf,
    config: PathBuf,
}

impl Rex {
    /// A rex with the targets `far`, on its own connection to the sshd, and `mux`, on the master connection.
    pub(crate) fn new(world: &World, sshd: Option<&Sshd>) -> Result<Self> {
        ensure!(world.rex.is_file(), "{} is not a file: build rex first", world.rex.display());
        let home = world.directory.join("rex-home");
        fs::create_dir_all(home.join("config/rexd"))?;
        let config = world.setup().configured()?;
        if let Some(sshd) = sshd {
            let command = [&world.rexd, Path::new("--stdio"), Path::new("--config"), &config];
            let target = |more: &[String]| {
                let options = [&sshd.options(), more].concat();
                json!({ "transport": "ssh", "host": "127.0.0.1", "sshOptions": options, "command": command })
            };
            let control = ["-S".to_owned(), sshd.control().display().to_string()];
            let targets = json!({ "targets": { "far": target(&[]), "mux": target(&control) } });
            fs::write(home.join("config/rexd/targets.json"), targets.to_string())?;
        }
        Ok(Self {
            program: world.rex.clone(),
            rexd: world.rexd.clone(),
            directory: world.directory.clone(),
            home,
            config,
        })
    }

    /// The command `rex` with these arguments; its output is discarded.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", self.home.join("config"))
            .env("XDG_STATE_HOME", self.home.join("state"))
            .env("XDG_DATA_HOME", self.home.join("data"))
            .env("REX_REXD", &self.rexd)
            .env("REXD_CONFIG", &self.config)
            .env_remove("REX_TARGET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }
}

/// Runs a command that must succeed and returns its time in seconds.
pub(crate) fn whole(command: &mut Command) -> Result<f64> {
    let (seconds, output) = timed(|| Ok(command.output()?))?;
    ensure!(
        output.status.success(),
        "{:?} ended with {}: {}",
        command.get_program(),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(seconds)
}
