//! The bundle of the web application: built from `web/` into the hub's sources, and compared with them.
//!
//! `version.json` in the bundle is a hash of the sources, so that a check needs no Node. `cargo xtask web` builds again and
//! compares the files themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::tree::root;

/// The sources, from the root of the repository.
const SOURCES: &str = "web";
/// The bundle, from the root of the repository.
const BUNDLE: &str = "crates/hub/src/web/dist";
/// Entries of the sources that do not change the bundle.
const NOT_BUILT: &[&str] = &["node_modules", "tests", "test-results"];
/// The characters of a version.
const VERSION_CHARACTERS: usize = 16;

/// The path of a bundle that does not belong to the sources.
pub(crate) fn stale() -> Result<Option<String>> {
    match is_current()? {
        true => Ok(None),
        false => Ok(Some(BUNDLE.to_owned())),
    }
}

/// Builds the bundle if it does not belong to the sources.
pub(crate) fn generate() -> Result<()> {
    if is_current()? {
        return Ok(());
    }
    build(&root().join(BUNDLE))
}

/// Builds the bundle elsewhere and fails if its files differ from the present ones. Compressed files depend on the version of
/// Node and are not compared.
pub(crate) fn compare() -> Result<()> {
    if let Some(path) = stale()? {
        bail!("{path} is out of date\nhint: run `cargo xtask generate`");
    }
    if !has_sources() {
        return Ok(());
    }
    let directory = root().join("target/web-bundle");
    build(&directory)?;
    let (present, built) = (files(&root().join(BUNDLE), &is_plain)?, files(&directory, &is_plain)?);
    let names = present.keys().chain(built.keys());
    let differing: Vec<&String> = names.filter(|name| present.get(*name) != built.get(*name)).collect();
    match differing.is_empty() {
        true => Ok(()),
        false => bail!("{BUNDLE} differs from a new build: {differing:?}\nhint: run `cargo xtask generate`"),
    }
}

fn has_sources() -> bool {
    root().join(SOURCES).join("package.json").exists()
}

fn is_current() -> Result<bool> {
    if !has_sources() {
        return Ok(true);
    }
    let stored = fs::read_to_string(root().join(BUNDLE).join("version.json")).unwrap_or_default();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap_or_default();
    Ok(stored["version"] == version()?)
}

/// The hash of everything that the bundle is built from.
fn version() -> Result<String> {
    let is_source = |path: &str| {
        let is_hidden = path.split('/').any(|part| part.starts_with('.'));
        let first = path.split('/').next().unwrap_or_default();
        !is_hidden && !NOT_BUILT.contains(&first) && !path.ends_with(".md")
    };
    let mut hasher = Sha256::new();
    for (path, bytes) in files(&root().join(SOURCES), &is_source)? {
        for part in [path.as_bytes(), &bytes] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
    }
    Ok(hex::encode(hasher.finalize()).chars().take(VERSION_CHARACTERS).collect())
}

fn is_plain(path: &str) -> bool {
    !path.ends_with(".br") && !path.ends_with(".gz")
}

/// The wanted files below a directory by their relative paths.
fn files(directory: &Path, is_wanted: &impl Fn(&str) -> bool) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut left: Vec<(PathBuf, String)> = vec![(directory.to_owned(), String::new())];
    while let Some((directory, prefix)) = left.pop() {
        let entries = fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if !is_wanted(&path) {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => left.push((entry.path(), format!("{path}/"))),
                false => drop(found.insert(path, fs::read(entry.path())?)),
            }
        }
    }
    Ok(found)
}

fn build(to: &Path) -> Result<()> {
    let sources = root().join(SOURCES);
    let time = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let installed = time(&sources.join("node_modules/.package-lock.json"));
    if installed.is_none() || installed < time(&sources.join("package-lock.json")) {
        npm(&["install", "--ignore-scripts", "--no-save", "--no-audit", "--no-fund"], to)?;
    }
    npm(&["run", "build"], to)
}

fn npm(arguments: &[&str], to: &Path) -> Result<()> {
    let mut command = Command::new("npm");
    command.args(arguments).env("PATH", tools_path()?);
    command.env("REX_WEB_VERSION", version()?).env("REX_WEB_OUT", to);
    output_of(&mut command).map(drop)
}

/// The search path of the tools, with a Node that is new enough.
fn tools_path() -> Result<String> {
    let output = output_of(&mut Command::new(root().join(SOURCES).join("build/node.sh")))?;
    Ok(output.trim_end().to_owned())
}

fn output_of(command: &mut Command) -> Result<String> {
    let output = command.current_dir(root().join(SOURCES)).output();
    let name = format!("{:?}", command.get_program());
    let output = output
        .with_context(|| format!("cannot start {name}\nhint: run `make setup`, which installs Node"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(stdout),
        false => bail!("{name} failed: {stdout}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}
