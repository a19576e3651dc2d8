//! What `[auth]`, `[server]` and the flags come to together.

use super::tests::{paths, read, refusal};
use super::*;
use crate::cli::args::{CliCommand, ServeArgs};
use crate::net::auth::{Scopes, TokenDigest};

const HEX: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn tokens(rest: &str) -> String {
    format!("[security]\nallowed_roots = [\"/srv/app\"]\n[[auth.tokens]]\nname = \"ci\"\n{rest}\n")
}

#[test]
fn tokens_have_a_name_a_source_scopes_and_roots() {
    let text = tokens(&format!(
        "sha256 = \"{HEX}\"\nscopes = [\"read\"]\nroots = [\"/srv/app/sub\"]\n\
         [[auth.tokens]]\nname = \"me\"\nfile = \"~/token\"\n\
         [[auth.certificates]]\nname = \"laptop.example.org\"\nscopes = [\"admin\"]"
    ));
    let config = read(&text).unwrap();
    assert_eq!(config.warnings, Vec::<String>::new());
    let ci = &config.auth.tokens[0];
    assert_eq!(ci.source, TokenSource::Sha256(TokenDigest::of("test")));
    assert_eq!(ci.scopes, Scopes { read: true, ..Scopes::default() });
    assert_eq!(ci.roots, Some(vec!["/srv/app/sub".into()]));
    let me = &config.auth.tokens[1];
    assert_eq!(me.source, TokenSource::File("/home/u/token".into()));
    assert_eq!((me.scopes, &me.roots), (Scopes::DEFAULT, &None));
    assert_eq!(config.auth.certificates[0].name, "laptop.example.org");
}

#[test]
fn what_is_wrong_with_a_token_is_refused_with_its_place() {
    let source = format!("sha256 = \"{HEX}\"");
    let table = [
        ("", "c.toml:4:8: the token \"ci\" needs sha256 or file"),
        ("sha256 = \"hunter2\"", "c.toml:5:10: auth.tokens[0].sha256 must be 64 hexadecimal digits"),
        ("file = \"token\"", "c.toml:5:8: auth.tokens[0].file must be absolute, not \"token\""),
        ("SOURCE\nfile = \"/t\"", "c.toml:6:8: the token \"ci\" has both sha256 and file; use one"),
        (
            "SOURCE\nscopes = [\"write\"]",
            "c.toml:6:11: auth.tokens[0].scopes must contain only \"read\", \"exec\" and \"admin\"",
        ),
        ("SOURCE\nscopes = \"read\"", "c.toml:6:10: auth.tokens[0].scopes must be an array"),
        ("SOURCE\nroots = [\"/etc\"]", "c.toml:6:10: the root \"/etc\" is not below security.allowed_roots"),
        ("SOURCE\nroots = [\"/srv/application\"]", "c.toml:6:10: the root \"/srv/application\" is not below"),
        (
            "SOURCE\nroots = [\"/srv/app/../x\"]",
            "c.toml:6:10: a root must be an absolute path without \"..\"",
        ),
        ("SOURCE\nroots = [\"sub\"]", "c.toml:6:10: a root must be an absolute path"),
        ("SOURCE\n[[auth.tokens]]\nname = \"ci\"", "c.toml:7:8: duplicate token name \"ci\""),
        ("SOURCE\n[[auth.tokens]]\nname = \"env\"", "c.toml:7:8: invalid token name \"env\""),
        ("SOURCE\n[[auth.tokens]]\nname = \"a b\"", "c.toml:7:8: invalid token name \"a b\""),
        ("SOURCE\n[[auth.tokens]]\n", "c.toml:6:1: a token needs a name"),
        ("SOURCE\n[[auth.certificates]]\n", "c.toml:6:1: a certificate needs a name"),
    ];
    for (text, expected) in table {
        let found = refusal(&tokens(&text.replace("SOURCE", &source)));
        assert!(found.starts_with(expected), "{text:?}\n  gave     {found}\n  expected {expected}");
        assert!(!found.contains("hunter2"), "a token written in the wrong place is not repeated: {found}");
    }
}

#[test]
fn roots_of_a_token_never_reach_beyond_the_root_flags() {
    let text = tokens(&format!("sha256 = \"{HEX}\"\nroots = [\"/srv/app/sub\"]"));
    for (flag, expected) in [
        ("/other", &[][..]),
        ("/srv", &["/srv/app/sub"][..]),
        ("/srv/app/sub/deep", &["/srv/app/sub/deep"][..]),
    ] {
        let args = ConfigArgs { file: None, roots: vec![flag.into()] };
        let config = Config::parse(&text, Path::new("c.toml"), &args, &paths()).unwrap();
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(config.auth.tokens[0].roots, Some(expected), "{flag}");
    }
}

#[test]
fn the_server_section_is_read_into_exact_types() {
    let config = read(
        "[server]\nunix = \"~/rexd.sock\"\npublic_names = [\"rex.example.org\", \"10.0.0.1\"]\n\
         public_url = \"https://rex.example.org/\"\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]\n\
         tls_cert = \"/c\"\ntls_key = \"/k\"\nclient_ca = \"/ca\"\nping_ms = 5\nmax_connections = 7\n\
         [telemetry]\notlp_endpoint = \"http://127.0.0.1:4318\"\nmetrics = false\n",
    )
    .unwrap();
    assert_eq!(config.server.unix, Some("/home/u/rexd.sock".into()));
    assert_eq!(config.server.public_url.as_deref(), Some("https://rex.example.org"));
    assert_eq!(config.server.trusted_proxies[1].to_string(), "::1/128");
    assert_eq!(config.server.tls, Some(TlsFiles { certificate: "/c".into(), key: "/k".into() }));
    assert_eq!((config.server.ping.as_millis(), config.server.max_connections), (5, 7));
    assert_eq!(config.server.resume_bytes, 8 * 1024 * 1024);
    assert_eq!(config.telemetry.otlp_endpoint.as_deref(), Some("http://127.0.0.1:4318"));
    assert!(!config.telemetry.metrics && read("").unwrap().telemetry.metrics);
}

#[test]
fn an_invalid_server_section_is_refused_with_line_and_column() {
    let table = [
        ("unix = \"a.sock\"", "c.toml:2:8: server.unix must be absolute"),
        ("public_names = [\"a b\"]", "c.toml:2:17: a public name must be a host"),
        ("public_names = [\"a:80\"]", "c.toml:2:17: a public name must be a host"),
        ("public_url = \"rex.example.org\"", "c.toml:2:14: server.public_url must be http(s)://HOST[:PORT]"),
        ("trusted_proxies = [\"10.0.0.0/33\"]", "c.toml:2:20: invalid trusted proxy \"10.0.0.0/33\""),
        ("tls_cert = \"/c\"", "c.toml:2:12: server.tls_cert requires server.tls_key"),
        ("ping_ms = 0", "c.toml:2:11: server.ping_ms must be at least 1"),
        ("drain_ms = \"3s\"", "c.toml:2:12: server.drain_ms must be a whole number"),
    ];
    for (text, expected) in table {
        let found = refusal(&format!("[server]\n{text}\n"));
        assert!(found.starts_with(expected), "{text:?}\n  gave     {found}\n  expected {expected}");
    }
}

fn listeners(line: &str, file: &str) -> Listeners {
    let words = line.split_whitespace().map(Into::into);
    let Ok(CliCommand::Serve(flags)) = crate::cli::args::parse(words) else { panic!("{line}") };
    let file = read(&format!("[server]\n{file}\n")).unwrap();
    Listeners::new(&flags, &file).unwrap()
}

/// Standard streams, HTTP, unix socket.
type Expected<'t> = (bool, Option<&'t str>, Option<&'t str>);

#[test]
fn flags_win_over_the_file_and_stdio_alone_opens_no_port() {
    let both = "http_listen = \"127.0.0.1:1\"\nunix = \"/s\"";
    let quiet = "stdio = false\nhttp_listen = \"127.0.0.1:1\"";
    let table: &[(&str, &str, Expected<'_>)] = &[
        ("", "", (true, None, None)),
        ("", both, (true, None, None)),
        ("", quiet, (false, Some("127.0.0.1:1"), None)),
        ("--stdio", both, (true, None, None)),
        ("--stdio", quiet, (true, None, None)),
        ("--http :2", "", (false, Some(":2"), None)),
        ("--http :2", both, (false, Some(":2"), Some("/s"))),
        ("--stdio --http :2", "", (true, Some(":2"), None)),
        ("serve", "", (true, None, None)),
        ("serve", both, (false, Some("127.0.0.1:1"), Some("/s"))),
        ("serve", "http_listen = \"\"", (true, None, None)),
        ("serve --unix /t", "", (false, None, Some("/t"))),
        ("serve --stdio --unix /t", "", (true, None, Some("/t"))),
        ("serve", "stdio = false", (false, None, None)),
    ];
    for (line, file, (stdio, http, unix)) in table {
        let found = listeners(line, file);
        let expected = (*stdio, http.map(str::to_owned), unix.map(PathBuf::from));
        assert_eq!(
            (found.stdio, found.http.clone(), found.unix.clone()),
            expected,
            "rexd {line} with {file}"
        );
        assert_eq!(found.is_empty(), !stdio && http.is_none() && unix.is_none());
    }
}

#[test]
fn the_exec_server_section_applies_unless_stdio_is_the_only_listener() {
    let text = "[exec_server]\nlisten = \"ws://127.0.0.1:7\"\nws_token_file = \"~/t\"\nremote = \"https://hub\"\n\
                executor_id = \"box\"\nremote_token_file = \"/e\"\n";
    let config = read(text).unwrap();
    let exec_server = &config.exec_server;
    assert_eq!(exec_server.ws_auth.file, Some("/home/u/t".into()));
    assert_eq!(exec_server.ws_auth.mode.as_deref(), Some("capability-token"));
    assert_eq!(exec_server.remote.as_ref().map(|remote| remote.executor_id.as_str()), Some("box"));
    let found = |line: &str| {
        let words = line.split_whitespace().map(Into::into);
        let Ok(CliCommand::Serve(flags)) = crate::cli::args::parse(words) else { panic!("{line}") };
        let found = Listeners::new(&flags, &config).unwrap();
        (found.stdio, found.exec_server.map(|address| address.port()), found.registers)
    };
    assert_eq!(found("serve"), (false, Some(7), true));
    assert_eq!(found("serve --exec-server ws://127.0.0.1:8"), (false, Some(8), true));
    assert_eq!(found("--stdio"), (true, None, false));
    assert_eq!(found(""), (true, None, false));
    for (line, expected) in [
        ("listen = \"stdio\"", "c.toml:2:10: exec_server.listen must be ws://IP:PORT"),
        ("remote = \"https://hub\"", "c.toml:2:10: exec_server.remote requires exec_server.executor_id"),
        ("executor_id = \"box\"", "c.toml:2:15: exec_server.executor_id requires exec_server.remote"),
        (
            "remote_token_file = \"/t\"",
            "c.toml:2:21: exec_server.remote_token_file requires exec_server.remote",
        ),
        ("ws_token_file = \"t\"", "c.toml:2:17: exec_server.ws_token_file must be absolute"),
    ] {
        let refused = refusal(&format!("[exec_server]\n{line}\n"));
        assert!(refused.starts_with(expected), "{line}: {refused}");
    }
    assert!(!read("[exec_server]\nlisen = \"\"\n").unwrap().warnings.is_empty(), "an unknown key");
}

#[test]
fn a_client_ca_without_tls_is_refused_and_flags_may_bring_the_tls() {
    let file = read("[server]\nclient_ca = \"/ca\"\nhttp_listen = \"127.0.0.1:1\"").unwrap();
    let refused = Listeners::new(&ServeArgs::default(), &file).unwrap_err().to_string();
    assert!(refused.contains("requires TLS"), "{refused}");
    let flags = ServeArgs { tls: Some(("/c".into(), "/k".into())), ..ServeArgs::default() };
    let found = Listeners::new(&flags, &file).unwrap();
    assert_eq!(found.client_ca, Some("/ca".into()));
    assert!(found.tls.is_some());
}

#[test]
fn an_address_that_other_machines_reach_without_tls_is_exposed() {
    for (address, exposed) in [
        ("127.0.0.1:1", false),
        ("localhost:1", false),
        ("[::1]:1", false),
        (":8080", true),
        ("0.0.0.0:1", true),
        ("[::]:1", true),
        ("rex.example.org:1", true),
    ] {
        let listeners = Listeners { http: Some(address.to_owned()), ..Listeners::default() };
        assert_eq!(listeners.is_exposed(), exposed, "{address}");
        let tls = Some(TlsFiles { certificate: "/c".into(), key: "/k".into() });
        assert!(!Listeners { tls, ..listeners }.is_exposed(), "{address} with TLS");
    }
}
