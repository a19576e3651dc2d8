//! ripgrep on the tree of files, as a separate process: the reference for the native search.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Commands;
use super::floor::Floor;

/// Runs `rg` with these arguments on the directory and counts the lines it prints.
pub(crate) fn lines(arguments: &[&str], directory: &Path) -> Result<usize> {
    let directory = directory.to_str().context("a directory that is not text")?;
    let argv: Vec<&str> = ["rg"].into_iter().chain(arguments.iter().copied()).chain([directory]).collect();
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
