//! The installed files of `rexhub`: a valid systemd unit, manual pages and completions.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[test]
fn all_files_are_installed_and_the_unit_is_valid() {
    let directory = tempfile::tempdir().unwrap();
    let made = Command::new("make")
        .args(["--silent", "--no-print-directory", "install-files", "PREFIX=/opt/rexd"])
        .arg(format!("DESTDIR={}", directory.path().display()))
        .current_dir(project())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let prefix = directory.path().join("opt/rexd");
    for name in [
        "lib/sysusers.d/rexhub.conf",
        "share/man/man1/rexhub.1",
        "share/man/man1/rexhub-token-add.1",
        "share/bash-completion/completions/rexhub",
        "share/zsh/site-functions/_rexhub",
        "share/fish/vendor_completions.d/rexhub.fish",
    ] {
        assert!(prefix.join(name).is_file(), "{name}");
    }
    let unit = prefix.join("lib/systemd/system/rexhub.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains("\nExecStart=/opt/rexd/bin/rexhub serve\n"), "{text}");
    if is_there("systemd-analyze") {
        std::fs::write(&unit, text.replace("/opt/rexd/bin/rexhub", env!("CARGO_BIN_EXE_rexhub"))).unwrap();
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=one"])
            .arg(&unit)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success() && said.trim().is_empty(), "{said}");
    }
}
