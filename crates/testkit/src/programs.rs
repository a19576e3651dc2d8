//! Paths of the programs under test, for crates that do not build them.

use std::path::PathBuf;

/// A program of this workspace, in the parent of the directory of the test.
pub fn program(name: &str) -> String {
    let ours = std::env::current_exe().expect("our own path");
    let directory = ours.parent().and_then(|deps| deps.parent()).map(PathBuf::from).expect("target/debug");
    let path = directory.join(name);
    assert!(path.exists(), "no {}: run `cargo build` first", path.display());
    path.into_os_string().into_string().expect("a UTF-8 path")
}
