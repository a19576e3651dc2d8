//! Tests of the decisions before anything is changed on the machine.

use super::binary::{check, is_dynamic};
use super::config::{ConfigChange, change};
use super::machine::Machine;

fn machine() -> Machine {
    let said = "Welcome!\nrex system Linux\nrex processor x86_64\nrex home /home/me\n\
                rex config_home /home/me/.config\nrex may_write_system yes\nrex end yes\n";
    Machine::parse(said).unwrap()
}

#[test]
fn rexd_is_installed_in_a_directory_that_is_searched() {
    let root = machine();
    let user = Machine { may_write_system: false, ..machine() };
    let shadowed = Machine { has_system_rexd: true, ..user.clone() };
    assert_eq!(root.install_dir(None).unwrap(), "/usr/local/bin");
    assert_eq!(user.install_dir(None).unwrap(), "/home/me/.local/bin");
    assert_eq!(user.install_dir(Some("~/tools/")).unwrap(), "/home/me/tools");
    assert!(user.install_dir(Some("tools")).is_err() && user.install_dir(Some("/a\nb")).is_err());
    assert!(root.is_searched("/usr/local/bin") && user.is_searched("/home/me/.local/bin"));
    assert!(!user.is_searched("/opt/rex"));
    assert!(!shadowed.is_searched("/home/me/.local/bin"), "the system directory is searched first");
}

#[test]
fn a_login_without_a_shell_is_an_error() {
    for said in [
        "",
        "This account is not available.\n",
        "rex system Linux\n",
        "rex system \nrex home /h\nrex end yes",
    ] {
        assert!(Machine::parse(said).is_err(), "{said:?}");
    }
}

#[test]
fn a_binary_for_another_processor_is_refused() {
    let ours = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let here = Machine { processor: std::env::consts::ARCH.to_owned(), ..machine() };
    assert_eq!(check(&ours, &here), Ok(()));
    let mut other = ours.clone();
    other[18] = if ours[18] == 183 { 62 } else { 183 };
    let problem = check(&other, &here).unwrap_err();
    assert!(problem.contains("it is a binary for") && problem.contains(&here.processor), "{problem}");
    assert!(check(b"#!/bin/sh\n", &here).unwrap_err().contains("not a Linux binary"));
    assert!(check(b"\x7fELF", &here).unwrap_err().contains("truncated"));
    assert!(check(&ours, &Machine { system: "Darwin".to_owned(), ..here }).is_err());
}

#[test]
fn a_dynamically_linked_binary_is_recognised() {
    let shell = std::fs::read("/bin/sh").unwrap();
    assert!(is_dynamic(&shell));
    assert!(!is_dynamic(&shell[..40]) && !is_dynamic(b"text"), "a truncated file has no interpreter");
    let mut none = shell;
    none[56..58].copy_from_slice(&[0, 0]);
    assert!(!is_dynamic(&none), "no program headers, no loader");
}

#[test]
fn a_new_config_allows_the_roots_and_sets_no_time_or_output_limit() {
    let roots = ["/srv/app".to_owned(), "/srv/it's \"odd\" \\ here".to_owned()];
    let ConfigChange::Write(text) = change(None, &roots, "f").unwrap() else { panic!("a new file") };
    let table: toml::Table = text.parse().unwrap();
    for key in ["default_timeout_ms", "hard_timeout_ms", "max_output_bytes", "hard_output_bytes"] {
        assert_eq!(table["limits"][key].as_integer(), Some(0), "{key}");
    }
    for key in ["max_processes_per_session", "max_concurrent_sessions"] {
        assert_eq!(table["limits"][key].as_integer(), Some(1024), "{key}");
    }
    let written: Vec<_> = table["security"]["allowed_roots"].as_array().unwrap().iter().collect();
    assert_eq!(written.iter().map(|root| root["path"].as_str().unwrap()).collect::<Vec<_>>(), roots);
    assert!(change(None, &[], "f").unwrap_err().hint.unwrap().contains("--root DIR"));
}

#[test]
fn an_existing_config_is_extended_only_by_the_missing_roots() {
    let present = "# mine\n[[security.allowed_roots]]\npath = \"/a\" # first";
    let roots = ["/a".to_owned(), "/b".to_owned()];
    let ConfigChange::Add { lines, whole } = change(Some(present), &roots, "f").unwrap() else {
        panic!("lines")
    };
    assert_eq!(lines, "\n[[security.allowed_roots]]\npath = \"/b\"\n");
    assert_eq!(whole, format!("{present}\n{lines}"));
    assert_eq!(change(Some(present), &roots[..1], "f").unwrap(), ConfigChange::Nothing);
    assert_eq!(change(Some(present), &[], "f").unwrap(), ConfigChange::Nothing);
}

#[test]
fn an_unsupported_config_is_left_unchanged() {
    let roots = ["/b".to_owned()];
    for (present, words) in [
        ("[limits]\nmax = \n", "line 2"),
        ("security = { allowed_roots = [{ path = \"/a\" }] }", "are not [[security.allowed_roots]] tables"),
        ("security.allowed_roots = [{ path = \"/a\" }]", "are not [[security.allowed_roots]] tables"),
        ("[security]\nallowed_roots = 7", "not a list"),
    ] {
        let failure = change(Some(present), &roots, "/h/config.toml").unwrap_err();
        assert!(failure.message.contains(words) && failure.hint.is_some(), "{present:?}: {failure}");
    }
}
