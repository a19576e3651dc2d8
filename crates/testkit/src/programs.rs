//! Where the programs under test lie, for crates that do not build them themselves.

use std::path::PathBuf;

/// A program of this workspace, beside the directory that tests run from.
pub fn program(name: &str) -> String {
    let ours = std::env::current_exe().expect("our own path");
    let folder = ours.parent().and_then(|deps| deps.parent()).map(PathBuf::from).expect("target/debug");
    let path = folder.join(name);
    assert!(path.exists(), "no {}: run `cargo build` first", path.display());
    path.into_os_string().into_string().expect("a UTF-8 path")
}
