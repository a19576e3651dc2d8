//! Valid command lines, and the errors of invalid ones.

use super::*;
use crate::cli::policy::TestedOperation;
use engine::policy::Access;

fn parsed(line: &str) -> Result<CliCommand, UsageError> {
    parse(line.split_whitespace().map(OsString::from))
}

fn serve(line: &str) -> ServeArgs {
    match parsed(line) {
        Ok(CliCommand::Serve(serve)) => *serve,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn without_a_listener_it_serves_stdin_and_stdout() {
    for line in ["", "--stdio", "-stdio", "--config f --stdio", "--root ."] {
        assert!(serve(line).stdio, "{line}");
    }
    for line in ["--http :8080", "serve", "serve --unix s", "-http=:1"] {
        assert!(!serve(line).stdio, "{line}");
    }
    assert!(serve("--http :8080 --stdio").stdio);
}

#[test]
fn flags_may_have_one_dash_or_two_and_an_equals_sign_or_none() {
    for line in ["--config a/b", "-config a/b", "--config=a/b", "-config=a/b"] {
        assert_eq!(serve(line).config.file, Some(PathBuf::from("a/b")), "{line}");
    }
    assert_eq!(serve("-root a --root=b").config.roots, [PathBuf::from("a"), PathBuf::from("b")]);
}

#[test]
fn serve_accepts_the_flags_of_every_face() {
    let expected = ServeArgs {
        bare: false,
        config: ConfigArgs { file: Some("c".into()), roots: vec!["r".into()] },
        stdio: false,
        http: Some("127.0.0.1:0".to_owned()),
        unix: Some("s".into()),
        exec_server: Some("127.0.0.1:0".parse().unwrap()),
        ws_auth: Default::default(),
        stringd: Some(3100),
        hubs: vec!["http://h".to_owned(), "wss://i".to_owned()],
        host_id: Some("me".to_owned()),
        join: Some("code".to_owned()),
        tls: Some(("c.pem".into(), "k.pem".into())),
        client_ca: Some("ca.pem".into()),
    };
    let line = "serve --config c --root r --http 127.0.0.1:0 --unix s --exec-server ws://127.0.0.1:0 --stringd 3100 \
                --hub http://h --hub wss://i --host-id me --join code --tls-cert c.pem --tls-key k.pem --client-ca ca.pem";
    assert_eq!(serve(line), expected);
    assert_eq!(serve(&line.replace("serve --config", "--config")), expected);
}

#[test]
fn the_other_commands_are_parsed() {
    let table = [
        ("doctor", CliCommand::Doctor { json: false, config: ConfigArgs::default() }),
        ("doctor --json", CliCommand::Doctor { json: true, config: ConfigArgs::default() }),
        ("check-config", CliCommand::CheckConfig(ConfigArgs::default())),
        ("check-config f", CliCommand::CheckConfig(ConfigArgs { file: Some("f".into()), roots: vec![] })),
        ("--check-config", CliCommand::CheckConfig(ConfigArgs::default())),
        (
            "--check-config -config f",
            CliCommand::CheckConfig(ConfigArgs { file: Some("f".into()), roots: vec![] }),
        ),
        ("audit verify f", CliCommand::AuditVerify("f".into())),
        (
            "run --tool codex -- ls -l",
            CliCommand::Run(Box::new(RunArgs {
                tool: "codex".to_owned(),
                command: vec!["ls".to_owned(), "-l".to_owned()],
                ..RunArgs::default()
            })),
        ),
        ("version", CliCommand::Version),
        ("--version", CliCommand::Version),
        ("-V", CliCommand::Version),
        ("-h", CliCommand::Help),
        ("-help", CliCommand::Help),
        ("help", CliCommand::Help),
        ("serve --help", CliCommand::Help),
    ];
    for (line, expected) in table {
        assert_eq!(parsed(line), Ok(expected), "{line}");
    }
}

#[test]
fn an_invalid_command_line_gets_one_line_and_a_hint() {
    let table = [
        ("--htpp :1", "rexd: unknown flag --htpp\nhint: did you mean --http?"),
        ("--colour", "rexd: unknown flag --colour\nhint: run `rexd --help` for the flags"),
        ("-x", "rexd: unknown flag -x\nhint: run `rexd --help` for the flags"),
        ("docter", "rexd: unknown command \"docter\"\nhint: did you mean `rexd doctor`?"),
        (
            "doctor --http :1",
            "rexd: unexpected flag --http for `rexd doctor`\nhint: run `rexd --help` for the flags of `rexd doctor`",
        ),
        ("serve x", "rexd: unexpected argument \"x\"\nhint: run `rexd --help` for the commands"),
        ("--stringd x", "rexd: invalid port \"x\"\nhint: --stringd expects 0 to 65535"),
        ("--tls-cert x", "rexd: --tls-cert requires --tls-key\nhint: pass both files"),
        (
            "audit",
            "rexd: missing or unknown subcommand of `rexd audit`\nhint: use `rexd audit verify FILE` or `rexd audit show [FILE] [FLAGS]`",
        ),
        ("check-config a b", "rexd: unexpected file \"b\"\nhint: pass one configuration file"),
        (
            "run",
            "rexd: missing command of `rexd run`\nhint: use `rexd run -- COMMAND...` or `rexd run --tool NAME`",
        ),
        (
            "--config",
            "rexd: missing argument for option '--config'\nhint: run `rexd --help` for the flags and their values",
        ),
    ];
    for (line, expected) in table {
        assert_eq!(parsed(line).unwrap_err().to_string(), expected, "{line}");
    }
}

#[test]
fn stringd_is_started_under_each_of_its_names() {
    let args = |port, log| CliCommand::Stringd(Box::new(StringdArgs { port, log, ..StringdArgs::default() }));
    let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
    let named = |name: &str, line: &str| parse_as(name.as_ref(), words(line)).unwrap();
    assert_eq!(named("rexd", "stringd"), args(None, false));
    assert_eq!(named("rexd", "stringd 3111 --log"), args(Some(3111), true));
    assert_eq!(named("/usr/bin/stringd", "3111"), args(Some(3111), false));
    assert_eq!(named("stringd", "--daemon foreground 3111 --log"), args(Some(3111), true));
    assert_eq!(named("rexd", "--daemon foreground 3111"), args(Some(3111), false));
    for word in ["start", "stop", "status"] {
        let error = parse_as("stringd".as_ref(), words(&format!("--daemon {word}"))).unwrap_err().to_string();
        assert!(error.starts_with(&format!("rexd: `--daemon {word}` is not supported\nhint: ")), "{error}");
    }
    let error = parsed("stringd x").unwrap_err().to_string();
    assert_eq!(error, "rexd: invalid port \"x\"\nhint: `rexd stringd` expects 0 to 65535");
}

#[test]
fn the_flags_of_codex_are_accepted_or_refused_with_a_reason() {
    // Everything in `codex exec-server --help` of 0.166.0.
    let accepted = "--concurrent-requests 4 --listen stdio --ws-auth capability-token --ws-token-file f";
    assert!(parsed(&format!("exec-server {accepted}")).is_ok());
    for flag in [
        "-c a=b",
        "--enable x",
        "--disable x",
        "--strict-config",
        "--linux-sandbox-pid-namespace inherit",
        "--proxy-private-ips-via-upstream",
        "--ws-shared-secret-file f",
        "--ws-issuer i",
        "--ws-audience a",
        "--ws-max-clock-skew-seconds 1",
        "--remote-transport direct",
        "--environment-id e",
        "--use-agent-identity-auth",
        "--executor-credential-stdin",
        "--aws-sigv4",
        "--aws-profile p",
        "--aws-region r",
        "--aws-service s",
        "--exit-on-stdin-close",
        "forward --connect ws://h:1",
    ] {
        let error = parsed(&format!("exec-server {flag}")).unwrap_err();
        let name = flag.split(' ').next().unwrap();
        assert!(error.message.contains("does not support") && error.message.contains(name), "{error}");
    }
    for bad in ["0", "x", "-1"] {
        assert!(parsed(&format!("exec-server --concurrent-requests={bad}")).is_err(), "{bad}");
    }
    assert!(parsed("serve --enable x").unwrap_err().message.starts_with("unknown flag"));
}

#[test]
fn exec_server_listens_or_registers() {
    let face = |line: &str| match parsed(line) {
        Ok(CliCommand::ExecServer(face)) => *face,
        other => panic!("{line}: {other:?}"),
    };
    let default = face("exec-server");
    assert_eq!(default.transport, "ws://127.0.0.1:0".parse().unwrap());
    assert_eq!(face("exec-server --listen stdio://").transport, "stdio".parse().unwrap());
    let remote = face("exec-server --remote https://hub --executor-id e1 --name box").remote.unwrap();
    assert_eq!((remote.url.as_str(), remote.executor_id.as_str()), ("https://hub", "e1"));
    let named = parse_as("/usr/bin/codex-exec-server".as_ref(), std::iter::empty()).unwrap();
    assert!(matches!(named, CliCommand::ExecServer(face) if face.transport == "stdio".parse().unwrap()));
    for bad in [
        "exec-server --listen ws://localhost:1",
        "exec-server --listen stdio --remote u --executor-id e",
        "exec-server --remote u",
        "exec-server --executor-id e",
        "exec-server --http :1",
        "serve --exec-server stdio",
        "doctor --listen stdio",
    ] {
        assert!(parsed(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_help_lists_every_flag_and_every_command() {
    for flag in all_flag_names().filter(|flag| *flag != "check-config") {
        assert!(HELP.contains(&format!("--{flag}")), "{flag}");
    }
    for command in SUBCOMMANDS.iter().filter(|command| **command != "help") {
        assert!(HELP.contains(&format!("rexd {command}")), "{command}");
    }
    assert!(HELP.lines().all(|line| line.len() <= 120));
    assert!(HELP.contains("/etc/rexd/config.toml"));
}

#[test]
fn policy_test_accepts_a_command_a_shell_text_or_files() {
    let operation = |line: &[&str]| {
        let command = parse(line.iter().map(OsString::from)).unwrap();
        let CliCommand::Policy(command) = command else { panic!("{command:?}") };
        let (PolicyCommand::Test(test) | PolicyCommand::Explain(test)) = *command else { panic!() };
        test.operation
    };
    let words = |words: &[&str]| TestedOperation::Argv(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(operation(&["policy", "test", "--", "git", "-config", "x"]), words(&["git", "-config", "x"]));
    assert_eq!(operation(&["policy", "explain", "ls"]), words(&["ls"]));
    assert_eq!(operation(&["policy", "test", "ls | wc"]), TestedOperation::Shell("ls | wc".to_owned()));
    assert_eq!(operation(&["policy", "test", "--shell", "ls"]), TestedOperation::Shell("ls".to_owned()));
    let files = TestedOperation::Files(vec![(Access::Write, "a".into()), (Access::Remove, "b".into())]);
    assert_eq!(operation(&["policy", "test", "--write", "a", "--remove", "b"]), files);
}

#[test]
fn an_invalid_policy_command_has_its_own_exit_status() {
    for line in [
        "policy",
        "policy test",
        "policy tset -- ls",
        "policy replay",
        "policy test --read a ls",
        "policy test --bad",
    ] {
        assert_eq!(parsed(line).unwrap_err().exit_code, 64, "{line}");
    }
    assert_eq!(parsed("doctor --bad").unwrap_err().exit_code, 2);
}

#[test]
fn the_filters_of_audit_show_are_parsed() {
    let show = |line: &str| match parsed(line) {
        Ok(CliCommand::AuditShow { show, .. }) => *show,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(show("audit show"), ShowArgs::default());
    assert_eq!(show("audit show f --limit 3 --failed").limit, Some(3));
    assert_eq!(
        show("audit show --since 2026-11-15").since.as_deref(),
        Some("2026-11-15T00:00:00.000000000Z")
    );
    assert_eq!(
        show("audit show --until 2026-11-15T08:00:00+02:00").until.as_deref(),
        Some("2026-11-15T06:00:00.000000000Z")
    );
    assert!(show("audit show --since 1d12h").since < show("audit show --since 2h").since);
    for line in [
        "audit show --since soon",
        "audit show --since 2",
        "audit show --since 9223372036854775807w",
        "audit show --decision perhaps",
        "audit show --limit many",
        "audit show a b",
        "audit verify f --failed",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
}
