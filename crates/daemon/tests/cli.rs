//! The command line: versions, help, configuration checks, doctor, exit statuses.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use serde_json::Value;
use testkit::daemon::run;
use testkit::sandbox::Sandbox;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");

#[test]
fn the_version_is_printed_in_each_spelling() {
    let sandbox = Sandbox::new();
    for arguments in [["version"], ["--version"], ["-version"], ["-V"]] {
        let ran = run(&sandbox, REXD, &arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.contains(env!("CARGO_PKG_VERSION")), "{arguments:?}: {:?}", ran.stdout);
        assert_eq!(ran.stdout.lines().count(), 1, "{arguments:?}: {:?}", ran.stdout);
    }
}

#[test]
fn help_exits_with_zero_because_installers_call_it() {
    let sandbox = Sandbox::new();
    for arguments in [["-h"], ["--help"], ["-help"], ["help"]] {
        let ran = run(&sandbox, REXD, &arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        let text = ran.stdout + &ran.stderr;
        for word in ["--stdio", "--config", "--root", "doctor", "audit verify"] {
            assert!(text.contains(word), "{arguments:?} does not mention {word}: {text}");
        }
    }
}

#[test]
fn an_unknown_flag_exits_with_two_and_suggests_the_nearest() {
    let sandbox = Sandbox::new();
    let ran = run(&sandbox, REXD, &["--confg", "x"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stdout, "", "errors go to stderr");
    assert!(ran.stderr.contains("--confg") && ran.stderr.contains("--config"), "{}", ran.stderr);
    assert_eq!(run(&sandbox, REXD, &["frobnicate"]).code, Some(2));
}

#[test]
fn a_root_on_the_command_line_has_to_be_a_directory_for_every_face() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("file", "");
    let socket = sandbox.path("s.sock");
    for face in [&["--stdio"][..], &["serve", "--unix", socket.to_str().unwrap()], &["exec-server"]] {
        for (root, reason) in
            [("no-such-place", "no such directory"), (file.to_str().unwrap(), "not a directory")]
        {
            let ran = run(&sandbox, REXD, &[face, &["--root", root]].concat());
            assert_eq!(ran.code, Some(1), "{face:?} {root}: {}", ran.stderr);
            assert!(ran.stderr.contains(root) && ran.stderr.contains(reason), "{face:?}: {}", ran.stderr);
            assert_eq!(ran.stdout, "", "{face:?}");
        }
    }
}

#[test]
fn a_good_configuration_is_accepted_and_shown() {
    let sandbox = Sandbox::with_config("[limits]\ndefault_timeout_ms = 1234\n");
    let file = sandbox.config();
    let ran = run(&sandbox, REXD, &["check-config", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for part in ["1234", sandbox.root().to_str().unwrap(), "audit.log"] {
        assert!(ran.stdout.contains(part), "{part} is missing in {}", ran.stdout);
    }
}

#[test]
fn a_bad_configuration_is_refused_with_its_place() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("bad.toml", "[limits]\ndefault_timeout_ms = \"soon\"\n");
    let ran = run(&sandbox, REXD, &["check-config", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let text = ran.stdout + &ran.stderr;
    let place = format!("{}:2:22", file.display());
    assert!(text.contains(&place), "{place} is missing in {text}");
    assert!(text.contains("default_timeout_ms"), "{text}");
}

#[test]
fn a_daemon_with_an_invalid_configuration_does_not_start_and_prints_the_error() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("bad.toml", "[limits\n");
    let ran = run(&sandbox, REXD, &["--stdio", "--config", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stdout, "", "stdout carries the protocol");
    assert!(ran.stderr.contains("bad.toml:1:"), "{}", ran.stderr);
}

#[test]
fn a_named_configuration_that_is_missing_stops_the_start() {
    let sandbox = Sandbox::new();
    let ran = run(&sandbox, REXD, &["--stdio", "--config", "/nowhere/config.toml"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("/nowhere/config.toml"), "{}", ran.stderr);
    assert!(ran.stderr.contains("no such file"), "{}", ran.stderr);
}

#[test]
fn a_configured_audit_file_that_cannot_be_written_prevents_the_start() {
    let sandbox = Sandbox::with_config("[audit]\npath = \"/proc/nowhere/audit.log\"\n");
    let file = sandbox.config();
    let ran = run(&sandbox, REXD, &["--stdio", "--config", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("/proc/nowhere/audit.log"), "{}", ran.stderr);
}

#[test]
fn doctor_lists_its_checks() {
    let sandbox = Sandbox::new();
    let file = sandbox.config();
    let ran = run(&sandbox, REXD, &["doctor", "--config", file.to_str().unwrap()]);
    assert!(matches!(ran.code, Some(0 | 1)), "{:?}: {}", ran.code, ran.stderr);
    for word in ["cgroup", "root ", "audit", "openat2"] {
        assert!(ran.stdout.to_lowercase().contains(word), "{word} is missing in {}", ran.stdout);
    }
}

#[test]
fn doctor_prints_json() {
    let sandbox = Sandbox::new();
    let file = sandbox.config();
    let ran = run(&sandbox, REXD, &["doctor", "--json", "--config", file.to_str().unwrap()]);
    assert!(matches!(ran.code, Some(0 | 1)), "{:?}: {}", ran.code, ran.stderr);
    let report: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout));
    assert!(report.as_object().is_some_and(|report| !report.is_empty()), "{report}");
}

#[test]
fn the_configuration_is_found_in_the_documented_order() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "home/config/rexd/config.toml",
        sandbox.expand("[[security.allowed_roots]]\npath = \"$DIR/user\"\n"),
    );
    let named =
        sandbox.write("named.toml", sandbox.expand("[[security.allowed_roots]]\npath = \"$DIR/named\"\n"));
    let shown = |arguments: &[&str], variable: Option<&str>| {
        let mut command = sandbox.command(REXD);
        command.args(arguments).envs(variable.map(|value| ("REXD_CONFIG", value)));
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let flag = sandbox.config();
    let flag = flag.to_str().unwrap();
    let variable = named.to_str();
    assert!(
        shown(&["check-config", "--config", flag], variable).contains("/root"),
        "the flag takes precedence"
    );
    assert!(shown(&["check-config"], variable).contains("/named"), "then the variable");
    if !std::path::Path::new("/etc/rexd/config.toml").exists() {
        assert!(shown(&["check-config"], None).contains("/user"), "then the user's file");
    }
}

#[test]
fn errors_in_a_policy_or_an_audit_file_go_to_stderr() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.toml", "[policy]\ndefault = 3\n");
    sandbox.write("no-audit", "hello\nworld\n");
    let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let (bad, text) = (path("bad.toml"), path("no-audit"));
    let config = sandbox.config().to_str().unwrap().to_owned();
    let cases: [(&[&str], i32, &str); 4] = [
        (&["policy", "test", "--json", "--config", &bad, "--", "ls"], 78, "bad.toml:2:11"),
        (&["policy", "replay", "--config", &config, &text], 78, "not an audit file"),
        (&["audit", "show", &text], 1, "not an audit file"),
        (&["audit", "show", "/nowhere"], 1, "/nowhere"),
    ];
    for (arguments, status, words) in cases {
        let ran = run(&sandbox, REXD, arguments);
        assert_eq!(ran.code, Some(status), "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(words) && ran.stdout.is_empty(),
            "{arguments:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
    }
}
