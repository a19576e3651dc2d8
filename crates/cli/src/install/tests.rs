//! Tests of what is decided before anything is changed on another machine.

use super::config::{Change, change};
use super::machine::Machine;
use super::program::{check, is_dynamic};

fn machine() -> Machine {
    let said = "Welcome!\nrex system Linux\nrex processor x86_64\nrex home /home/me\n\
                rex config_home /home/me/.config\nrex may_write_system yes\nrex end yes\n";
    Machine::parse(said).unwrap()
}

#[test]
fn the_program_goes_where_it_is_found_without_being_told() {
    let root = machine();
    let user = Machine { may_write_system: false, ..machine() };
    let shadowed = Machine { has_system_rexd: true, ..user.clone() };
    assert_eq!(root.folder(None).unwrap(), "/usr/local/bin");
    assert_eq!(user.folder(None).unwrap(), "/home/me/.local/bin");
    assert_eq!(user.folder(Some("~/tools/")).unwrap(), "/home/me/tools");
    assert!(user.folder(Some("tools")).is_err() && user.folder(Some("/a\nb")).is_err());
    assert!(root.is_looked_into("/usr/local/bin") && user.is_looked_into("/home/me/.local/bin"));
    assert!(!user.is_looked_into("/opt/rex"));
    assert!(!shadowed.is_looked_into("/home/me/.local/bin"), "the other one comes first");
}

#[test]
fn a_login_that_leads_to_no_shell_is_told() {
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
fn a_program_for_another_processor_is_refused() {
    let ours = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let here = Machine { processor: std::env::consts::ARCH.to_owned(), ..machine() };
    assert_eq!(check(&ours, &here), Ok(()));
    let mut other = ours.clone();
    other[18] = if ours[18] == 183 { 62 } else { 183 };
    let problem = check(&other, &here).unwrap_err();
    assert!(problem.contains("it is a program for") && problem.contains(&here.processor), "{problem}");
    assert!(check(b"#!/bin/sh\n", &here).unwrap_err().contains("no program for Linux"));
    assert!(check(b"\x7fELF", &here).unwrap_err().contains("cut off"));
    assert!(check(&ours, &Machine { system: "Darwin".to_owned(), ..here }).is_err());
}

#[test]
fn a_program_that_needs_libraries_is_recognised() {
    let shell = std::fs::read("/bin/sh").unwrap();
    assert!(is_dynamic(&shell));
    assert!(!is_dynamic(&shell[..40]) && !is_dynamic(b"text"), "what is cut off needs nothing");
    let mut none = shell;
    none[56..58].copy_from_slice(&[0, 0]);
    assert!(!is_dynamic(&none), "no program headers, no loader");
}

#[test]
fn a_new_config_allows_the_roots_and_switches_ceilings_off() {
    let roots = ["/srv/app".to_owned(), "/srv/it's \"odd\" \\ here".to_owned()];
    let Change::Write(text) = change(None, &roots, "f").unwrap() else { panic!("a new file") };
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
fn a_config_that_is_there_only_gains_what_is_missing() {
    let present = "# mine\n[[security.allowed_roots]]\npath = \"/a\" # first";
    let roots = ["/a".to_owned(), "/b".to_owned()];
    let Change::Add { lines, whole } = change(Some(present), &roots, "f").unwrap() else { panic!("lines") };
    assert_eq!(lines, "\n[[security.allowed_roots]]\npath = \"/b\"\n");
    assert_eq!(whole, format!("{present}\n{lines}"));
    assert_eq!(change(Some(present), &roots[..1], "f").unwrap(), Change::Nothing);
    assert_eq!(change(Some(present), &[], "f").unwrap(), Change::Nothing);
}

#[test]
fn a_config_that_cannot_be_understood_is_left_alone() {
    let roots = ["/b".to_owned()];
    for (present, words) in [
        ("[limits]\nmax = \n", "line 2"),
        ("security = { allowed_roots = [{ path = \"/a\" }] }", "in another way"),
        ("security.allowed_roots = [{ path = \"/a\" }]", "in another way"),
        ("[security]\nallowed_roots = 7", "no list"),
    ] {
        let failure = change(Some(present), &roots, "/h/config.toml").unwrap_err();
        assert!(failure.message.contains(words) && failure.hint.is_some(), "{present:?}: {failure}");
    }
}
