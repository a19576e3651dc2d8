//! Parsing of configurations, and errors in invalid ones.

use super::*;
use engine::limits::OnOutputLimit;
use std::time::Duration;

pub(super) fn paths() -> Paths {
    Paths {
        user: Some("/home/u/.config/rexd/config.toml".into()),
        state: Some("/home/u/.local/state/rexd".into()),
        home: Some("/home/u".into()),
        current: "/here".into(),
        ..Paths::default()
    }
}

pub(super) fn read(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("c.toml"), &ConfigArgs::default(), &paths())
}

pub(super) fn refusal(text: &str) -> String {
    read(text).map(drop).unwrap_err().to_string()
}

const SEED: &str = r#"
[server]
stdio = true
log_level = "info"

[limits]
default_timeout_ms = 30000
hard_timeout_ms = 300000
max_output_bytes = 1048576
max_file_read_bytes = 1048576
max_processes_per_session = 8
max_concurrent_sessions = 16

[security]
allow_shell = true

[[security.allowed_roots]]
path = "/srv/myapp"

[[security.allowed_roots]]
path = "/home/deploy/projects"

[audit]
enabled = true
path = "/var/log/rexd/audit.log"
"#;

#[test]
fn the_documented_example_is_parsed_without_warnings() {
    let config = read(SEED).unwrap();
    assert_eq!(config.warnings, Vec::<String>::new());
    assert_eq!(config.roots, [PathBuf::from("/srv/myapp"), PathBuf::from("/home/deploy/projects")]);
    assert_eq!(config.limits, Limits::seed());
    assert_eq!(
        config.audit,
        AuditConfig { enabled: true, path: Some("/var/log/rexd/audit.log".into()), configured: true }
    );
    assert!(config.server.stdio);
    assert_eq!(config.no_roots_message(), None);
}

#[test]
fn an_empty_configuration_serves_nothing_and_gives_a_hint() {
    let config = Config::parse("", Path::new(""), &ConfigArgs::default(), &paths()).unwrap();
    assert_eq!(config.limits, Limits::seed());
    assert_eq!(config.audit.path, Some("/home/u/.local/state/rexd/audit.log".into()));
    assert!(config.audit.enabled && !config.audit.configured);
    assert!(config.no_roots_message().unwrap().contains("/home/u/.config/rexd/config.toml"));
    assert!(
        read("").unwrap().no_roots_message().unwrap().contains("c.toml"),
        "an existing file is the one to change"
    );
}

#[test]
fn configurations_of_other_clients_are_accepted() {
    let config =
        read("[server]\nhttp_listen = \"\"\nhttp_path = \"/rpc\"\n[audit]\nenabled = false\npath = \"\"\n")
            .unwrap();
    assert_eq!(config.server.http_listen, None);
    assert!(!config.audit.enabled);
}

#[test]
fn zero_means_none_where_none_is_possible() {
    let config =
        read("[limits]\nhard_timeout_ms = 0\nhard_output_bytes = 0\non_output_limit = \"truncate\"").unwrap();
    assert_eq!((config.limits.hard_timeout, config.limits.hard_output_bytes), (None, None));
    assert_eq!(config.limits.on_output_limit, OnOutputLimit::Truncate);
}

#[test]
fn a_root_flag_replaces_the_roots_and_removes_limits_that_are_not_configured() {
    let args = ConfigArgs { file: None, roots: vec![".".into(), "/abs/".into(), "sub".into()] };
    let text = format!("{}\n", SEED.replace("default_timeout_ms = 30000", ""));
    let config = Config::parse(&text, Path::new("c.toml"), &args, &paths()).unwrap();
    assert_eq!(config.roots, ["/here", "/abs", "/here/sub"].map(PathBuf::from));
    assert_eq!(config.limits.hard_timeout, Some(Duration::from_secs(300)), "set in the file");
    assert_eq!(config.limits.default_timeout, None, "not set in the file");
    let config = Config::parse("", Path::new(""), &args, &paths()).unwrap();
    assert_eq!(config.limits, Limits::open());
}

#[test]
fn unknown_keys_get_a_warning_with_position_and_suggestion() {
    let config = read(
        "[limits]\ndefualt_timeout_ms = 1\n[serve]\n[[security.allowed_roots]]\npath = \"/a\"\nmode = 1\n",
    )
    .unwrap();
    assert_eq!(
        config.warnings,
        [
            "c.toml:6:1: unknown key security.allowed_roots[0].mode is ignored",
            "c.toml:2:1: unknown key limits.defualt_timeout_ms is ignored; did you mean default_timeout_ms?",
            "c.toml:3:2: unknown key serve is ignored; did you mean server?",
        ]
    );
}

#[test]
fn the_sandbox_can_be_off() {
    let config = read("[sandbox]\nprofile = \"off\"\n").unwrap();
    assert_eq!(config.warnings.len(), 1, "only the missing roots: {:?}", config.warnings);
    assert_eq!(config.sandbox.profile, None);
}

#[test]
fn an_invalid_value_is_refused_with_line_and_column() {
    let table = [
        ("[limits\n", "c.toml:1:8: "),
        (
            "\n[limits]\nhard_timeout_ms = \"x\"",
            "c.toml:3:19: limits.hard_timeout_ms must be a whole number, not string",
        ),
        (
            "[limits]\nhard_timeout_ms = -1",
            "c.toml:2:19: limits.hard_timeout_ms must be a whole number, at least 0",
        ),
        (
            "[limits]\nmax_processes_per_session = 0",
            "c.toml:2:29: limits.max_processes_per_session must be at least 1",
        ),
        ("limits = 3", "c.toml:1:10: limits must be a table, not integer"),
        (
            "[security]\nallow_shell = 1",
            "c.toml:2:15: security.allow_shell must be true or false, not integer",
        ),
        (
            "[[security.allowed_roots]]\npath = \"a\"",
            "c.toml:2:8: a root must be an absolute path, not \"a\"",
        ),
        ("[[security.allowed_roots]]\n", "c.toml:1:1: an allowed root needs a path"),
        ("[server]\nlog_level = \"loud\"", "c.toml:2:13: server.log_level must be one of "),
        ("[server]\nhttp_path = \"rpc\"", "c.toml:2:13: server.http_path must start with a slash"),
        (
            "[server]\nhttp_path = \"/a?b\"",
            "c.toml:2:13: server.http_path must be percent-encoded and have no query",
        ),
        ("[server]\nws_path = \"/events\"", "c.toml:2:11: server.ws_path must not be the path of another"),
        ("[server]\nws_path = \"/rpc\"", "c.toml:2:11: server.ws_path must differ from server.http_path"),
        ("[audit]\npath = \"a.log\"", "c.toml:2:8: audit.path must be absolute"),
        ("[environment]\nset = { A = 1 }", "c.toml:2:13: environment.set must be a string, not integer"),
    ];
    for (text, expected) in table {
        let found = refusal(text);
        assert!(found.starts_with(expected), "{text:?}\n  gave     {found}\n  expected {expected}");
    }
}

#[test]
fn a_root_of_slash_is_possible_and_gets_a_warning() {
    let config = read("[[security.allowed_roots]]\npath = \"/\"\n").unwrap();
    assert!(config.warnings[0].starts_with("a root is /"));
}

#[test]
fn the_first_default_file_is_read_and_a_named_file_must_exist() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, format!("[[security.allowed_roots]]\npath = \"/{name}\"\n")).unwrap();
        file
    };
    let mut paths = Paths {
        system: Some(directory.path().join("missing")),
        user: Some(file("user")),
        current: directory.path().to_owned(),
        ..Paths::default()
    };
    let root =
        |args: &ConfigArgs, paths: &Paths| Config::load(args, paths).map(|config| config.roots[0].clone());
    let none = ConfigArgs::default();
    assert_eq!(root(&none, &paths).unwrap(), Path::new("/user"));
    paths.system = Some(file("system"));
    assert_eq!(root(&none, &paths).unwrap(), Path::new("/system"));
    paths.named = Some(file("named"));
    assert_eq!(root(&none, &paths).unwrap(), Path::new("/named"));
    file("flag");
    let flag = ConfigArgs { file: Some("flag".into()), roots: vec![] };
    assert_eq!(root(&flag, &paths).unwrap(), Path::new("/flag"));
    paths.named = Some(directory.path().join("gone"));
    let error = root(&none, &paths).unwrap_err().to_string();
    assert!(error.ends_with("gone: no such file or directory"), "{error}");
}

#[test]
fn paths_follow_the_environment() {
    let variables = |name: &str| match name {
        "HOME" => Some("/h".into()),
        "XDG_STATE_HOME" => Some("/s".into()),
        "XDG_CONFIG_HOME" => Some("relative".into()),
        "REXD_CONFIG" => Some("c.toml".into()),
        _ => None,
    };
    let paths = Paths::from_variables(variables, "/cwd".into());
    assert_eq!(paths.named, Some("/cwd/c.toml".into()));
    assert_eq!(paths.user, Some("/h/.config/rexd/config.toml".into()));
    assert_eq!(paths.default_audit(), Some("/s/rexd/audit.log".into()));
}

#[test]
fn check_config_prints_the_effective_values_or_the_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut out = Vec::new();
        let args = ConfigArgs { file: Some(file.clone()), roots: vec![] };
        let status = check_config(&args, &paths(), &mut out).unwrap();
        (status, String::from_utf8(out).unwrap())
    };
    let (status, text) = check(SEED);
    assert_eq!(status, 0);
    assert!(text.contains("hard_timeout_ms             300000\n") && text.ends_with("ok\n"), "{text}");
    let (status, text) = check("[limits]\nhard_timeout_ms = true\n");
    assert_eq!(status, 1);
    assert!(text.contains("c.toml:2:19: limits.hard_timeout_ms must be"), "{text}");
}

#[test]
fn the_example_configuration_is_valid_and_has_no_unknown_key() {
    let text = include_str!("../../../../docs/config.example.toml");
    let config =
        Config::parse(text, Path::new("config.example.toml"), &ConfigArgs::default(), &paths()).unwrap();
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn traces_need_a_collector_with_plain_http() {
    let read = |text: &str| Config::parse(text, Path::new("c.toml"), &ConfigArgs::default(), &paths());
    assert_eq!(read("").unwrap().telemetry.otlp_endpoint, None);
    let config = read("[telemetry]\notlp_endpoint = \"http://127.0.0.1:4318\"\n").unwrap();
    assert_eq!(config.telemetry.otlp_endpoint.as_deref(), Some("http://127.0.0.1:4318"));
    let error = read("[telemetry]\notlp_endpoint = \"https://c\"\n").unwrap_err().to_string();
    assert!(error.starts_with("c.toml:2:17: cannot send traces to https://c"), "{error}");
}
