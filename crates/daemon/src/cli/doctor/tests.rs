//! The checks of `rexd doctor` for several configurations.

use super::*;
use std::path::Path;

fn doctor(directory: &Path, config: &str) -> Doctor {
    let file = directory.join("config.toml");
    std::fs::write(&file, config).unwrap();
    Doctor {
        config: ConfigArgs { file: Some(file), roots: vec![] },
        paths: Paths {
            state: Some(directory.join("state")),
            current: directory.to_owned(),
            ..Paths::default()
        },
        program_path: Some("/usr/bin:/bin".into()),
        json: false,
        colours: false,
    }
}

fn run(doctor: &Doctor) -> (u8, String) {
    let mut out = Vec::new();
    let status = doctor.run(&mut out).unwrap();
    (status, String::from_utf8(out).unwrap())
}

#[test]
fn a_machine_with_a_root_is_usable() {
    let directory = tempfile::tempdir().unwrap();
    let root = format!("[[security.allowed_roots]]\npath = {:?}\n", directory.path());
    let (status, text) = run(&doctor(directory.path(), &root));
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("ok    root"), "{text}");
    assert!(text.contains("rexd is "), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    let (_, coloured) = run(&Doctor { colours: true, ..doctor(directory.path(), &root) });
    assert!(coloured.contains("\x1b[32mok  \x1b[0m  root"), "{coloured}");
}

#[test]
fn without_roots_it_is_not_usable_and_gives_advice() {
    let directory = tempfile::tempdir().unwrap();
    let (status, text) = run(&doctor(directory.path(), ""));
    assert_eq!(status, 1);
    assert!(text.contains("fail  roots") && text.contains("-> no roots are configured"), "{text}");
    assert!(text.ends_with("rexd is not usable; 1 errors.\n"), "{text}");
}

#[test]
fn an_invalid_configuration_is_shown_with_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let (status, text) = run(&doctor(directory.path(), "[limits]\nhard_timeout_ms = true\n"));
    assert_eq!(status, 1);
    assert!(text.contains("config.toml:2:19: limits.hard_timeout_ms"), "{text}");
}

#[test]
fn unusual_roots_get_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let config =
        "[[security.allowed_roots]]\npath = \"/\"\n[[security.allowed_roots]]\npath = \"/nowhere/x\"\n";
    let (status, text) = run(&doctor(directory.path(), config));
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("every file that this user can access is served"), "{text}");
    assert!(text.contains("/nowhere/x does not exist yet"), "{text}");
}

#[test]
fn listeners_and_tokens_are_shown_without_their_secrets() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let weak = directory.path().join("weak");
    std::fs::write(&weak, "do-not-show-me").unwrap();
    std::fs::set_permissions(&weak, std::fs::Permissions::from_mode(0o644)).unwrap();
    let config = format!(
        "[server]\nhttp_listen = \"0.0.0.0:8080\"\n[[security.allowed_roots]]\npath = {:?}\n\
         [[auth.tokens]]\nname = \"weak\"\nfile = {weak:?}\n[[auth.tokens]]\nname = \"gone\"\nfile = \"/nowhere/t\"\n",
        directory.path()
    );
    let (status, text) = run(&doctor(directory.path(), &config));
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("http 0.0.0.0:8080") && text.contains("without TLS"), "{text}");
    assert!(text.contains("weak: ") && text.contains("mode 644"), "{text}");
    assert!(text.contains("gone: /nowhere/t") && text.contains("-> no such file"), "{text}");
    assert!(!text.contains("do-not-show-me"), "{text}");
    let (_, text) = run(&doctor(directory.path(), ""));
    assert!(text.contains("default: none configured"), "{text}");
}

#[test]
fn json_output_is_one_object() {
    let directory = tempfile::tempdir().unwrap();
    let (_, text) = run(&Doctor { json: true, ..doctor(directory.path(), "") });
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["usable"], false);
    let names: Vec<&str> =
        object["checks"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    for name in [
        "version",
        "configuration",
        "roots",
        "audit",
        "kernel",
        "openat2",
        "pidfd",
        "cgroup v2",
        "O_TMPFILE",
        "landlock",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
}
