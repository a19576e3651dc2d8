//! What is installed beside `rex`: manual pages and completions, as the program itself prints them and as shells and groff
//! take them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{rex, text};
use testkit::sandbox::Sandbox;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn packaged(name: &str) -> PathBuf {
    project().join("packaging").join(name)
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Runs to a good end in silence.
fn runs_in_silence(command: &mut Command) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(status.success() && said.trim().is_empty(), "{command:?}: {status}\n{said}");
}

/// The names of the manual pages of rex in a directory.
fn pages(dir: &Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name == "rex.1" || name.starts_with("rex-")).collect()
}

#[test]
fn the_manual_pages_are_those_that_rex_writes() {
    let sandbox = Sandbox::new();
    let written = sandbox.path("man");
    assert!(rex(&sandbox, &["man", written.to_str().unwrap()]).status().unwrap().success());
    let names = pages(&written);
    assert!(names.len() > 35 && names == pages(&packaged("man")), "run `make generate`: {names:?}");
    for name in names {
        let ours = std::fs::read_to_string(packaged("man").join(&name)).unwrap();
        assert!(ours == sandbox.read(&format!("man/{name}")), "{name} is stale: run `make generate`");
    }
}

#[test]
fn the_completions_are_those_that_rex_prints_and_shells_take_them() {
    let sandbox = Sandbox::new();
    for (shell, name) in [("bash", "rex.bash"), ("zsh", "_rex"), ("fish", "rex.fish")] {
        let file = packaged("completions").join(name);
        let printed = text(&sandbox, &["completions", shell]);
        assert!(std::fs::read_to_string(&file).unwrap() == printed, "{name} is stale: run `make generate`");
        if is_there(shell) {
            runs_in_silence(Command::new(shell).arg("-n").arg(file));
        }
    }
}

#[test]
fn groff_takes_every_page() {
    if is_there("groff") {
        for name in pages(&packaged("man")) {
            let file = packaged("man").join(name);
            runs_in_silence(Command::new("groff").args(["-man", "-ww", "-Kutf8", "-Tutf8", "-z"]).arg(file));
        }
    }
}

#[test]
fn bash_completes_commands_and_flags() {
    let completed = |words: &[&str]| -> BTreeSet<String> {
        let script = r#"source "$1"; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; _rex rex "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s\n' "${COMPREPLY[@]}""#;
        let file = packaged("completions/rex.bash");
        let programs = Path::new(env!("CARGO_BIN_EXE_rex")).parent().unwrap();
        let output = Command::new("bash")
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .env("REX_COMPLETE_MS", "60000")
            .args(["-c", script, "bash"])
            .arg(file)
            .args(words)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    let of = |words: &[&str]| -> BTreeSet<String> { words.iter().map(|word| word.to_string()).collect() };
    assert_eq!(completed(&["rex", "ex"]), of(&["exec"]));
    assert_eq!(completed(&["rex", "target", "ins"]), of(&["install"]));
    assert_eq!(completed(&["rex", "exec", "--de"]), of(&["--detach"]));
    assert_eq!(completed(&["rex", "mcp", "install", "cl"]), of(&["claude"]));
}

#[test]
fn pages_and_completions_are_installed_where_they_are_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("make")
        .args(["--silent", "--no-print-directory", "install-files", "PREFIX=/opt/rexd"])
        .arg(format!("DESTDIR={}", dir.path().display()))
        .current_dir(project())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let installed = dir.path().join("opt/rexd/share");
    assert_eq!(pages(&installed.join("man/man1")), pages(&packaged("man")));
    for name in
        ["bash-completion/completions/rex", "zsh/site-functions/_rex", "fish/vendor_completions.d/rex.fish"]
    {
        assert!(installed.join(name).is_file(), "{name}");
    }
}
