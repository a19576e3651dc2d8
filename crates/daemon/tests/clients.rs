//! Behaviour on which real clients depend: each test is a case that failed with one of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use testkit::daemon::{Rexd, data, run, run_with_input};
use testkit::sandbox::Sandbox;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");

/// Clients that close the connection when a line or their buffer passes 1 MiB.
const SMALL_FRAME_CLIENTS: [&str; 3] = ["opencode-rexd-target", "opencode-transit", "opencode-rexd"];
/// Clients that test `server_version` for equality.
const PINNED_CLIENTS: [&str; 2] = ["opencode-transit", "opencode-rexd"];
/// Clients that make room for a terminal's output only after they saw the answer to `pty.open`.
const SLOW_TERMINAL_CLIENTS: [&str; 4] =
    ["opencode-rexd-target", "claudecode-rexd-target", "opencode-transit", "opencode-rexd"];
const ONE_MIB: usize = 1_048_576;
/// Files whose paths together take more than a small frame.
const LONG_NAMES: usize = 2_500;
const LIMITS: [&str; 6] = [
    "default_timeout_ms",
    "hard_timeout_ms",
    "max_output_bytes",
    "max_file_read_bytes",
    "max_processes_per_session",
    "max_concurrent_sessions",
];

#[test]
fn a_piped_session_open_is_answered_and_the_daemon_exits_with_zero() {
    let sandbox = Sandbox::new();
    let config = sandbox.config();
    let config = config.to_str().unwrap();
    let open = r#"{"jsonrpc":"2.0","id":1,"method":"session.open","params":{"client_name":"probe"}}"#;
    for (arguments, input) in [
        (vec!["--stdio", "--config", config], format!("{open}\n")),
        (vec!["-stdio", "-config", config], open.to_owned()),
        (vec!["--config", config], format!("{open}\r\n")),
        (vec!["-config", config, "-stdio"], format!("\n{open}\n\n")),
    ] {
        let ran = run_with_input(&sandbox, REXD, &arguments, &input);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stdout.lines().count(), 1, "{arguments:?}: {:?}", ran.stdout);
        assert!(ran.stdout.contains("\"result\""), "{arguments:?}: {:?}", ran.stdout);
    }
}

#[test]
fn nothing_on_standard_input_is_no_error() {
    let sandbox = Sandbox::new();
    let config = sandbox.config();
    let ran = run(&sandbox, REXD, &["--stdio", "--config", config.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
}

#[test]
fn a_client_that_pins_the_version_sees_the_one_it_pins() {
    let sandbox = Sandbox::new();
    for client in PINNED_CLIENTS {
        let mut rexd = Rexd::start(REXD, &sandbox);
        let opened = rexd.open_with(json!({ "client_name": client }));
        assert_eq!(opened["server_version"], "0.1.5", "{client}");
        assert_eq!(opened["implementation_version"], env!("CARGO_PKG_VERSION"), "{client}");
        assert_eq!(opened["server_name"], "rexd", "{client}");
    }
    for client in ["opencode-rexd-target", "claudecode-rexd-target", "anything"] {
        let mut rexd = Rexd::start(REXD, &sandbox);
        let opened = rexd.open_with(json!({ "client_name": client }));
        assert_eq!(opened["server_version"], env!("CARGO_PKG_VERSION"), "{client}");
        assert_eq!(opened["implementation_version"], env!("CARGO_PKG_VERSION"), "{client}");
    }
}

#[test]
fn every_limit_is_a_positive_number() {
    let sandbox = Sandbox::new();
    for mut rexd in [Rexd::start(REXD, &sandbox), Rexd::start_open(REXD, &sandbox)] {
        let opened = rexd.open_with(json!({ "client_name": "opencode-transit" }));
        let info = rexd.call("session.info", json!({ "session_id": opened["session_id"] }));
        for limits in [&opened["limits"], &info["limits"]] {
            let limits = limits.as_object().unwrap();
            for (name, value) in limits {
                assert!(value.as_u64().is_some_and(|value| value > 0), "{name}: {value}");
                assert!(value.as_u64().unwrap() <= 9_007_199_254_740_991, "{name}: {value}");
            }
            for name in LIMITS {
                assert!(limits.contains_key(name), "{name} is missing in {limits:?}");
            }
        }
    }
}

#[test]
fn limits_that_are_switched_off_are_reported_as_the_largest_exact_integer() {
    let sandbox = Sandbox::with_config("[limits]\nhard_timeout_ms = 0\nhard_output_bytes = 0\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let limits = rexd.open_with(json!({}))["limits"].clone();
    assert_eq!(limits["hard_timeout_ms"], 9_007_199_254_740_991_u64);
    assert_eq!(limits["hard_output_bytes"], 9_007_199_254_740_991_u64);
    assert_eq!(limits["default_timeout_ms"], 30_000);
}

#[test]
fn the_seed_limits_hold_when_the_configuration_is_silent() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let limits = rexd.open_with(json!({}))["limits"].clone();
    let expected = [30_000, 300_000, 1_048_576, 1_048_576, 8, 16];
    for (name, expected) in LIMITS.iter().zip(expected) {
        assert_eq!(limits[name], expected, "{name}");
    }
}

#[test]
fn the_handshake_has_what_the_strictest_client_demands() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let staging = sandbox.root().join("staging/skills");
    let opened = rexd.open_with(json!({
        "client_name": "opencode-transit",
        "client_version": "1.0.0",
        "workspace_roots": [sandbox.root(), staging],
        "requested_capabilities": ["exec", "fs", "events", "pty", { "odd": true }],
    }));
    assert_eq!(opened["protocol"], "rexd/1");
    assert!(opened["session_id"].as_str().is_some_and(|id| id.starts_with("s_")), "{opened}");
    let capabilities = opened["capabilities"].as_array().unwrap();
    for wanted in ["exec", "fs", "events", "pty"] {
        assert!(capabilities.contains(&json!(wanted)), "{wanted} is missing in {capabilities:?}");
    }
    assert!(capabilities.iter().all(Value::is_string), "{capabilities:?}");
    assert_eq!(
        opened["workspace_roots"],
        json!([sandbox.root(), staging]),
        "echoed, missing directories too"
    );
}

#[test]
fn requested_roots_are_reported_and_do_not_restrict_access() {
    let sandbox = Sandbox::new();
    sandbox.write("root/deep/file.txt", "deep\n");
    sandbox.write("root/other.txt", "other\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let root = sandbox.root();
    let deep = root.join("deep");
    for (asked, reported) in [
        (json!([deep]), json!([deep])),
        (json!([format!("{}/./deep/../deep/", root.display())]), json!([deep])),
        (json!(["/"]), json!([root])),
        (json!([sandbox.path("")]), json!([root])),
        (json!(["/nowhere"]), json!([root])),
        (json!([]), json!([root])),
        (json!(null), json!([root])),
    ] {
        let opened = rexd.open_with(json!({ "client_name": "probe", "workspace_roots": asked }));
        assert_eq!(opened["workspace_roots"], reported, "asked for {asked}");
        let session = &opened["session_id"];
        let info = rexd.call("session.info", json!({ "session_id": session }));
        assert_eq!(info["cwd"], reported[0], "asked for {asked}");
        // Only the server's roots bind.
        let read = json!({ "session_id": session, "path": root.join("other.txt") });
        assert_eq!(rexd.call("fs.read", read)["content"], "other\n", "asked for {asked}");
        rexd.call("session.close", json!({ "session_id": session }));
    }
}

#[test]
fn a_root_of_slash_permits_everything() {
    let sandbox = Sandbox::with_config("[[security.allowed_roots]]\npath = \"/\"\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let opened = rexd.open_with(json!({ "client_name": "opencode-transit", "workspace_roots": ["/"] }));
    assert_eq!(opened["workspace_roots"], json!(["/"]));
    let session = &opened["session_id"];
    let read =
        rexd.call("fs.read", json!({ "session_id": session, "path": sandbox.outside().join("secret.txt") }));
    assert_eq!(read["content"], "not yours\n");
    let listed = rexd.call("fs.list", json!({ "session_id": session, "path": "/" }));
    assert!(listed["entries"].as_array().unwrap().iter().any(|entry| entry["name"] == "etc"), "{listed}");
    let ran = rexd.run(json!({ "session_id": session, "argv": ["pwd"], "cwd": "/usr" }));
    assert_eq!(ran.text(), "/usr\n");
}

#[test]
fn a_root_that_does_not_exist_yet_is_echoed_and_becomes_usable() {
    let sandbox = Sandbox::with_config("[[security.allowed_roots]]\npath = \"$DIR/later/root\"\n");
    let later = sandbox.path("later/root");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let opened = rexd.open_with(json!({ "client_name": "probe", "workspace_roots": [later] }));
    assert_eq!(opened["workspace_roots"], json!([later]));
    let session = &opened["session_id"];
    let stat = rexd.call("fs.stat", json!({ "session_id": session, "path": later.join("a/file.txt") }));
    assert_eq!(stat["exists"], false);
    let write = json!({ "session_id": session, "path": later.join("a/file.txt"), "content": "x", "mkdir_parents": true });
    assert_eq!(rexd.call("fs.write", write)["created"], true);
    let ran = rexd.run(json!({ "session_id": session, "argv": ["cat", "a/file.txt"] }));
    assert_eq!(ran.text(), "x");
}

#[test]
fn without_roots_nothing_is_served_and_the_error_contains_the_setting() {
    let sandbox = Sandbox::with_config("[security]\nallowed_roots = []\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    for (method, params) in [
        ("fs.read", json!({ "session_id": session, "path": "/etc/hostname" })),
        ("fs.list", json!({ "session_id": session, "path": "" })),
        ("fs.stat", json!({ "session_id": session, "path": "/" })),
        ("exec.start", json!({ "session_id": session, "argv": ["true"] })),
        ("pty.open", json!({ "session_id": session, "argv": ["true"] })),
    ] {
        let error = rexd.refused(method, params);
        assert_eq!(error["code"], -32002, "{method}: {error}");
        assert_eq!(error["data"]["allowed_roots"], json!([]), "{method}: {error}");
        let said = error.to_string() + &rexd.log();
        assert!(said.contains("config.toml"), "{method} does not say what to do: {error}");
    }
}

/// A daemon whose client dies at 1 MiB, with reads and output far above that.
fn with_small_frames(client: &str) -> (Sandbox, Rexd, String) {
    let sandbox = Sandbox::with_config(
        "[limits]\nmax_file_read_bytes = 16777216\nmax_output_bytes = 16777216\nhard_output_bytes = 16777216\n",
    );
    let mut rexd = Rexd::start(REXD, &sandbox);
    rexd.invariants.longest_line = Some(ONE_MIB);
    let session = rexd.open_as(client);
    (sandbox, rexd, session)
}

#[test]
fn no_read_passes_the_frame_of_a_client_that_dies_at_one_mib() {
    for client in SMALL_FRAME_CLIENTS {
        let (sandbox, mut rexd, session) = with_small_frames(client);
        let path = sandbox.write("root/big.txt", "é\u{1}\"x".repeat(700_000));
        for encoding in [json!("utf8"), json!("base64"), json!(null)] {
            let params = json!({ "session_id": session, "path": path, "encoding": encoding });
            let read = rexd.call("fs.read", params);
            assert_eq!(read["truncated"], true, "{client} {encoding}");
            assert_eq!(read["size"], 3_500_000, "{client} {encoding}");
            let content = read["content"].as_str().unwrap();
            assert!(!content.is_empty() && !content.contains('\u{fffd}'), "{client} {encoding}");
        }
        let exactly = sandbox.write("root/image.png", vec![7_u8; 900 * 1024]);
        rexd.call("fs.read", json!({ "session_id": session, "path": exactly, "encoding": "base64" }));
    }
}

#[test]
fn a_small_frame_holds_a_third_more_text_than_base64() {
    let (sandbox, mut rexd, session) = with_small_frames("opencode-transit");
    let (text_fits, base64_fits) = (941_808, 706_356);
    let mut nearly_text = vec![b'x'; text_fits];
    nearly_text[800_000] = 0xff;
    let mut binary = nearly_text.clone();
    binary[10] = 0xff;
    for (content, encoding, returned) in [
        (vec![b'x'; text_fits], "utf8", text_fits),
        (vec![b'x'; text_fits + 1], "utf8", text_fits),
        ("é".repeat(text_fits / 2).into_bytes(), "utf8", text_fits),
        (format!("x{}", "é".repeat(text_fits / 2)).into_bytes(), "utf8", text_fits - 1),
        (nearly_text, "utf8", base64_fits),
        (binary, "base64", base64_fits),
        (vec![0xff; base64_fits], "base64", base64_fits),
    ] {
        let path = sandbox.write("root/content", &content);
        let read = rexd.call("fs.read", json!({ "session_id": session, "path": path, "hash": "sha256" }));
        assert_eq!(read["encoding"], encoding, "{returned} of {}", content.len());
        assert_eq!(data(&json!({ "encoding": encoding, "data": read["content"] })), content[..returned]);
        assert_eq!(read["truncated"], returned < content.len());
    }
}

#[test]
fn ranged_reads_of_a_small_frame_client_add_up_to_the_file() {
    let (sandbox, mut rexd, session) = with_small_frames("opencode-transit");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let path = sandbox.write("root/big.bin", &bytes);
    let mut gathered = Vec::new();
    while gathered.len() < bytes.len() {
        let params = json!({ "session_id": session, "path": path, "encoding": "base64",
                             "offset": gathered.len(), "length": 2_000_000 });
        let read = rexd.call("fs.read", params);
        assert_eq!(read["size"], bytes.len());
        let piece = wire::base64::decode(read["content"].as_str().unwrap()).unwrap();
        assert!(!piece.is_empty() && piece.len() <= 2_000_000);
        gathered.extend(piece);
        assert_eq!(read["truncated"], gathered.len() < bytes.len());
    }
    assert!(gathered == bytes, "the pieces are not the file");
}

#[test]
fn no_listing_and_no_glob_passes_the_frame_of_a_client_that_dies_at_one_mib() {
    let (sandbox, mut rexd, session) = with_small_frames("opencode-transit");
    // Few files with long names fill a line as well as many.
    let directory = sandbox.root().join("d".repeat(200));
    std::fs::create_dir(&directory).unwrap();
    for number in 0..LONG_NAMES {
        std::fs::write(directory.join(format!("{}-{number:06}", "n".repeat(230))), "").unwrap();
    }
    for client in SMALL_FRAME_CLIENTS {
        let session = match client {
            "opencode-transit" => session.clone(),
            _ => rexd.open_as(client),
        };
        let params = json!({ "session_id": session, "path": sandbox.root(), "recursive": true, "max_entries": 100_000 });
        let listed = rexd.call("fs.list", params);
        assert_eq!(listed["truncated"], true, "{client}");
        assert!(listed["entries"].as_array().unwrap().len() > 500, "{client}");
        let params = json!({ "session_id": session, "pattern": "**/*", "max_matches": 100_000 });
        let globbed = rexd.call("fs.glob", params);
        assert_eq!(globbed["truncated"], true, "{client}");
        assert!(globbed["matches"].as_array().unwrap().len() > 500, "{client}");
    }
    rexd.invariants.longest_line = None;
    let other = rexd.open_as("some other client");
    let listed = rexd.call("fs.list", json!({ "session_id": other, "path": directory }));
    assert_eq!(listed["entries"].as_array().unwrap().len(), LONG_NAMES, "nobody else pays for it");
    assert_ne!(listed["truncated"], true);
}

#[test]
fn no_output_passes_the_frame_of_a_client_that_dies_at_one_mib() {
    for client in SMALL_FRAME_CLIENTS {
        let (_sandbox, mut rexd, session) = with_small_frames(client);
        // Control characters cost six bytes each in JSON, so that a careless split shows.
        let line = r"head -c 3000000 /dev/zero | tr '\0' '\001'";
        let ran = rexd.run(json!({ "session_id": session, "command": line, "shell": true, "stdin": "" }));
        assert_eq!(ran.stdout.len(), 3_000_000, "{client}");
        assert!(ran.stdout.iter().all(|byte| *byte == 1), "{client}");
        assert_eq!(ran.exit["bytes_stdout"], 3_000_000, "{client}");
    }
}

#[test]
fn a_client_may_ask_for_small_frames_whatever_its_name() {
    let sandbox = Sandbox::with_config("[limits]\nmax_file_read_bytes = 16777216\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let path = sandbox.write("root/big.txt", "x".repeat(200_000));
    let opened = rexd.open_with(json!({ "client_name": "t", "max_frame_bytes": 65_536 }));
    let session = &opened["session_id"];
    rexd.invariants.longest_line = Some(65_537);
    let read = rexd.call("fs.read", json!({ "session_id": session, "path": path }));
    assert_eq!(read["truncated"], true);
    let ran = rexd.run(json!({ "session_id": session, "argv": ["cat", path] }));
    assert_eq!(ran.stdout.len(), 200_000);
}

#[test]
fn lists_and_changes_fit_into_small_frames() {
    const FRAME: usize = 16_384;
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let opened = rexd.open_with(json!({ "client_name": "t", "max_frame_bytes": FRAME }));
    let session = &opened["session_id"];
    // With its newline.
    rexd.invariants.longest_line = Some(FRAME + 1);
    for number in 0..60 {
        rexd.run(json!({ "session_id": session, "argv": ["true", format!("{number:0>1000}")] }));
    }
    let list = rexd.call("exec.list", json!({ "session_id": session }));
    let listed = list["processes"].as_array().unwrap().len();
    assert!(
        list["truncated"] == true && (1..60).contains(&listed),
        "{listed} processes: {}",
        list["truncated"]
    );
    let watch = rexd.call("fs.watch", json!({ "session_id": session, "path": "." }))["watch_id"].clone();
    let mut missing: BTreeSet<String> = (0..400).map(|number| format!("{number:0>200}")).collect();
    for name in &missing {
        sandbox.write(&format!("root/{name}"), "");
    }
    while !missing.is_empty() {
        let event = rexd.take("fs.changed", |message| message["method"] == "fs.changed");
        let params = &event["params"];
        assert!(params["watch_id"] == watch && params["overflow"] != true, "{}", params["overflow"]);
        for change in params["changes"].as_array().unwrap() {
            let path = change["path"].as_str().unwrap();
            missing.remove(path.rsplit('/').next().unwrap());
        }
    }
}

#[test]
fn the_line_after_a_start_is_its_response_and_the_exit_is_near() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    for round in 0..100 {
        let id = rexd.request("exec.start", json!({ "session_id": session, "argv": ["echo", "hello"] }));
        let first = rexd.receive().unwrap();
        assert_eq!(first["id"], id, "round {round}: {first}");
        let process = first["result"]["process_id"].as_str().unwrap().to_owned();
        let mut output = Vec::new();
        let exit = (0..8).find_map(|_| {
            let message = rexd.receive().unwrap();
            assert_eq!(message["params"]["process_id"], process.as_str(), "round {round}: {message}");
            match message["method"].as_str() {
                Some("exec.stdout") => {
                    output.extend(data(&message["params"]));
                    None
                }
                _ => Some(message),
            }
        });
        let exit = exit.unwrap_or_else(|| panic!("round {round}: no exit within 8 events"));
        assert_eq!(exit["method"], "exec.exit", "round {round}");
        assert_eq!(output, b"hello\n", "round {round}");
    }
}

#[test]
fn terminal_output_is_delayed_until_its_client_is_ready() {
    for client in SLOW_TERMINAL_CLIENTS {
        let sandbox = Sandbox::new();
        let mut rexd = Rexd::start(REXD, &sandbox);
        let session = rexd.open_as(client);
        let mut is_alone = false;
        for round in 0..20 {
            let id = rexd.request("pty.open", json!({ "session_id": session, "argv": ["printf", "ready"] }));
            // One read takes everything that was written together. On a busy machine it may come after the delay.
            is_alone |= String::from_utf8(rexd.read_once()).unwrap().lines().count() == 1;
            let response = rexd.receive().unwrap();
            assert_eq!(response["id"], id, "{client}, round {round}: {response}");
            let process = response["result"]["process_id"].as_str().unwrap().to_owned();
            let finished = rexd.finish(&process);
            assert_eq!(finished.text(), "ready", "{client}, round {round}");
            assert_eq!(finished.exit["exit_code"], 0, "{client}, round {round}");
            if is_alone && round >= 4 {
                break;
            }
        }
        assert!(is_alone, "{client}: the response never comes before the output");
    }
}

#[test]
fn the_terminal_hold_back_is_long_enough_for_the_slowest_client() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open_as("opencode-rexd-target");
    // From the request on: the response may be read late on a busy machine.
    let asked = std::time::Instant::now();
    let opened = rexd.request("pty.open", json!({ "session_id": session, "argv": ["printf", "ready"] }));
    rexd.response(opened);
    let first = rexd.receive().unwrap();
    assert_eq!(first["method"], "pty.output", "{first}");
    // 20 ms were enough for every client that was measured.
    assert!(asked.elapsed().as_millis() >= 20, "{:?}", asked.elapsed());
}

#[test]
fn a_missing_file_is_recognised_by_its_text() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open_as("opencode-transit");
    let missing = sandbox.root().join("missing.txt");
    let moved = sandbox.root().join("moved.txt");
    for (method, params) in [
        ("fs.read", json!({ "session_id": session, "path": missing })),
        ("fs.list", json!({ "session_id": session, "path": missing })),
        ("fs.remove", json!({ "session_id": session, "path": missing })),
        ("fs.rename", json!({ "session_id": session, "from": missing, "to": moved })),
        ("fs.copy", json!({ "session_id": session, "from": missing, "to": moved })),
        ("fs.write", json!({ "session_id": session, "path": missing.join("below"), "content": "" })),
        ("fs.mkdir", json!({ "session_id": session, "path": missing.join("below") })),
        ("fs.watch", json!({ "session_id": session, "path": missing })),
        ("fs.grep", json!({ "session_id": session, "pattern": "x", "path": missing })),
        ("exec.start", json!({ "session_id": session, "argv": ["true"], "cwd": missing })),
        ("session.set_cwd", json!({ "session_id": session, "path": missing })),
    ] {
        let error = rexd.refused(method, params);
        assert_eq!(error["code"], -32602, "{method}: {error}");
        let text = error["message"].as_str().unwrap();
        assert!(text.contains("no such file"), "{method}: {error}");
        assert_eq!(error["data"]["errno"], 2, "{method}: {error}");
        assert!(error["data"]["path"].is_string(), "{method}: {error}");
    }
}

#[test]
fn a_delete_by_patch_works_as_one_client_does_it() {
    let sandbox = Sandbox::new();
    sandbox.write("root/dir/gone.txt", "x\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open_as("opencode-transit");
    let patch = "*** Begin Patch\n*** Delete File: gone.txt\n*** End Patch\n";
    let params = json!({ "session_id": session, "patch_text": patch, "cwd": sandbox.root().join("dir") });
    let patched = rexd.call("fs.patch", params);
    assert_eq!(patched["deleted"], json!([sandbox.root().join("dir/gone.txt")]));
    assert!(patched.get("moved").is_none(), "left out when empty: {patched}");
    assert!(!Path::new(&sandbox.root().join("dir/gone.txt")).exists());
}

#[test]
fn writes_in_chunks_as_one_client_makes_them_add_up() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open_as("opencode-transit");
    let chunk: Vec<u8> = (0..=255).cycle().take(256 * 1024).collect();
    let path = sandbox.root().join("skill.bin");
    for mode in ["create", "append", "append"] {
        let params = json!({ "session_id": session, "path": path, "mode": mode, "atomic": true,
                             "encoding": "base64", "content": wire::base64::encode(&chunk) });
        assert_eq!(rexd.call("fs.write", params)["bytes_written"], 256 * 1024);
    }
    assert_eq!(std::fs::read(&path).unwrap(), chunk.repeat(3));
}

#[test]
fn dozens_of_stats_in_one_go_are_all_answered() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open_as("opencode-transit");
    sandbox.link("root/out", "/etc/passwd");
    let ids: Vec<u64> =
        (0..64).map(|_| rexd.request("fs.stat", json!({ "session_id": session, "path": "out" }))).collect();
    for id in ids {
        let message = rexd.response(id);
        assert_eq!(message["result"]["type"], "symlink", "a link out of the roots can still be looked at");
        assert_eq!(message["result"]["symlink_target"], "/etc/passwd");
    }
}
