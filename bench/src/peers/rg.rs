//! ripgrep over the tree of files, as a process of its own: what the native search is held against.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Commands;
use super::floor::Floor;

/// Runs `rg` with these arguments on the folder and counts the lines it prints.
pub(crate) fn lines(arguments: &[&str], folder: &Path) -> Result<usize> {
    let folder = folder.to_str().context("a folder that is not text")?;
    let argv: Vec<&str> = ["rg"].into_iter().chain(arguments.iter().copied()).chain([folder]).collect();
    let mut count = 0;
    let code = Floor::default().run(&argv, &mut |bytes| {
        count += memchr::memchr_iter(b'\n', bytes).count();
        Ok(())
    });
    anyhow::ensure!(code.context("rg did not run: run bench/setup.sh")? == 0, "rg found nothing");
    Ok(count)
}

/// The first line of `rg --version`.
pub(crate) fn version() -> Result<String> {
    let output =
        Command::new("rg").arg("--version").output().context("rg did not run: run bench/setup.sh")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}
