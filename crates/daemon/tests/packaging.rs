//! The installed files: valid systemd units, and a manual page and completions that match the flags.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use daemon::cli::args::HELP;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const COMMANDS: [&str; 9] =
    ["serve", "stringd", "host", "run", "doctor", "check-config", "audit", "policy", "version"];

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn packaged(name: &str) -> String {
    std::fs::read_to_string(project().join("packaging").join(name)).unwrap()
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Runs to a good end in silence.
fn runs_in_silence(command: &mut Command) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(status.success() && said.trim().is_empty(), "{command:?}: {status}\n{said}");
}

/// Every long flag that the help names.
fn flags() -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words = HELP.split(|c: char| !is_part(c)).filter_map(|word| word.strip_prefix("--"));
    let flags: BTreeSet<String> = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
    assert!(flags.len() > 10, "{flags:?}");
    flags
}

/// Installs everything but the program below a directory.
fn installed() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let made = Command::new("make")
        .args(["--silent", "--no-print-directory", "install-files", "PREFIX=/opt/rexd"])
        .arg(format!("DESTDIR={}", directory.path().display()))
        .current_dir(project())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    directory
}

#[test]
fn the_units_are_clean() {
    if !is_there("systemd-analyze") {
        return;
    }
    let directory = installed();
    for (kind, more) in [("system", &[][..]), ("user", &["--user"])] {
        let units = directory.path().join("opt/rexd/lib/systemd").join(kind);
        let service = units.join("rexd.service");
        let text = std::fs::read_to_string(&service).unwrap();
        assert!(text.contains("ExecStart=/opt/rexd/bin/rexd serve\n"), "{text}");
        std::fs::write(&service, text.replace("/opt/rexd/bin/rexd", REXD)).unwrap();
        let files = std::fs::read_dir(&units).unwrap().map(|entry| entry.unwrap().path());
        // The hub's unit names a program that is tested where it is built.
        let files = files.filter(|file| !file.ends_with("rexhub.service"));
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no", "--recursive-errors=one"]).args(more).args(files);
        runs_in_silence(verify.env("XDG_RUNTIME_DIR", directory.path()));
    }
}

#[test]
fn a_restart_leaves_keepers_alone_and_commands_their_rights() {
    for unit in ["systemd/rexd.service", "systemd/user/rexd.service"] {
        let text = packaged(unit);
        let settings: BTreeSet<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        for wanted in ["KillMode=process", "Delegate=yes", "OOMPolicy=continue", "Type=notify"] {
            assert!(settings.contains(wanted), "{unit}: {wanted}");
        }
        for unwanted in
            ["NoNewPrivileges", "Protect", "Private", "Restrict", "SystemCall", "RuntimeDirectory"]
        {
            assert!(!settings.iter().any(|line| line.starts_with(unwanted)), "{unit}: {unwanted}");
        }
    }
}

#[test]
fn everything_is_installed_where_it_is_looked_for() {
    let directory = installed();
    for name in [
        "lib/systemd/system/rexd.service",
        "lib/systemd/system/rexd.socket",
        "lib/systemd/system/rexd-http.socket",
        "lib/systemd/user/rexd.service",
        "lib/systemd/user/rexd.socket",
        "lib/sysusers.d/rexd.conf",
        "share/man/man1/rexd.1",
        "share/bash-completion/completions/rexd",
        "share/zsh/site-functions/_rexd",
        "share/fish/vendor_completions.d/rexd.fish",
    ] {
        assert!(directory.path().join("opt/rexd").join(name).is_file(), "{name}");
    }
}

#[test]
fn the_manual_page_is_silent_and_names_every_flag_and_command() {
    let page = packaged("man/rexd.1").replace(r"\-", "-");
    for flag in flags() {
        assert!(page.contains(&format!("--{flag}")), "--{flag}");
    }
    assert!(COMMANDS.iter().all(|command| page.contains(command)));
    if is_there("groff") {
        let file = project().join("packaging/man/rexd.1");
        runs_in_silence(Command::new("groff").args(["-man", "-ww", "-Tutf8", "-z"]).arg(file));
    }
}

#[test]
fn every_completion_names_every_flag_and_command() {
    for name in ["rexd.bash", "_rexd", "rexd.fish"] {
        let text = packaged(&format!("completions/{name}"));
        // In fish a long flag is written `-l name`.
        let words: BTreeSet<&str> = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
        let is_fish = name.ends_with(".fish");
        for flag in flags() {
            let there = match is_fish {
                true => text.contains(&format!("-l {flag} ")),
                false => words.contains(format!("--{flag}").as_str()),
            };
            assert!(there, "{name}: --{flag}");
        }
        assert!(COMMANDS.iter().all(|command| words.contains(command)), "{name}");
    }
}

#[test]
fn shells_take_their_completions() {
    let file = |name: &str| project().join("packaging/completions").join(name);
    for (shell, name) in [("bash", "rexd.bash"), ("zsh", "_rexd"), ("fish", "rexd.fish")] {
        if is_there(shell) {
            runs_in_silence(Command::new(shell).arg("-n").arg(file(name)));
        }
    }
}

#[test]
fn bash_completes_what_fits_the_command() {
    let completed = |words: &[&str]| -> BTreeSet<String> {
        let script = r#"source "$1"; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rexd; printf '%s\n' "${COMPREPLY[@]}""#;
        let file = project().join("packaging/completions/rexd.bash");
        let output =
            Command::new("bash").args(["-c", script, "bash"]).arg(file).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    let of = |words: &[&str]| -> BTreeSet<String> { words.iter().map(|word| word.to_string()).collect() };
    assert_eq!(completed(&["rexd", "ser"]), of(&["serve"]));
    assert_eq!(completed(&["rexd", "serve", "--tls"]), of(&["--tls-cert", "--tls-key"]));
    assert_eq!(completed(&["rexd", "doctor", "--j"]), of(&["--json"]));
    assert_eq!(completed(&["rexd", "audit", "v"]), of(&["verify"]));
    assert_eq!(completed(&["rexd", "audit", "show", "--l"]), of(&["--limit"]));
    assert_eq!(completed(&["rexd", "policy", "ex"]), of(&["explain"]));
    assert_eq!(completed(&["rexd", "audit", "show", "--decision", "app"]), of(&["approved"]));
    assert!(completed(&["rexd", "--config", "/et"]).contains("/etc"));
}
