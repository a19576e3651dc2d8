//! Clients that do everything wrong, paths that want out, and endings nobody announced.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::daemon::Rexd;
use testkit::proc;
use testkit::sandbox::Sandbox;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const MIB: usize = 1024 * 1024;
const CONTAINMENTS: [Option<&str>; 2] = [None, Some("marks")];

/// The daemon still works: asked something, it answers.
fn still_serves(rexd: &mut Rexd) {
    assert!(rexd.call("server.ping", json!({}))["time"].is_string());
}

#[test]
fn a_line_over_the_limit_is_refused_and_the_next_one_works() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let before = proc::resident_bytes(rexd.pid());
    rexd.send_bytes(
        br#"{"jsonrpc":"2.0","id":77,"method":"fs.write","params":{"session_id":"x","path":"y","content":""#,
    );
    let chunk = vec![b'a'; MIB];
    for _ in 0..70 {
        rexd.send_bytes(&chunk);
    }
    rexd.send_bytes(b"\"}}\n");
    let refusal = rexd.receive().unwrap();
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(null), &json!(-32008)), "{refusal}");
    assert_eq!(refusal["error"]["data"]["limit"], 64 * MIB, "{refusal}");
    still_serves(&mut rexd);
    let grown = proc::resident_bytes(rexd.pid()).saturating_sub(before);
    assert!(grown < 16 * MIB as u64, "{grown} bytes are kept of a line that was refused");
    let read = rexd.call("fs.stat", json!({ "session_id": session, "path": "y" }));
    assert_eq!(read["exists"], false);
}

#[test]
fn a_large_line_below_the_limit_is_taken() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let content = "0123456789abcdef".repeat(2 * MIB);
    let written = rexd.call("fs.write", json!({ "session_id": session, "path": "big", "content": content }));
    assert_eq!(written["bytes_written"], 32 * MIB);
    assert_eq!(std::fs::read(sandbox.root().join("big")).unwrap(), content.as_bytes());
}

#[test]
fn deep_nesting_costs_no_stack() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let depth = 1_000_000;
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    for (line, codes) in [
        (format!("{open}{close}"), [-32600, -32700]),
        (open.clone(), [-32700, -32700]),
        (
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server.ping","params":{open}{close}}}"#),
            [-32602, -32700],
        ),
        (format!(r#"{{"a":{open}{close},"jsonrpc":"2.0","id":1,"method":"nope"}}"#), [-32601, -32700]),
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"fs.stat","params":{{"session_id":"{session}","path":{open}{close}}}}}"#
            ),
            [-32602, -32700],
        ),
    ] {
        rexd.send(&line);
        let mut answer = rexd.receive().unwrap();
        if let Some(parts) = answer.as_array_mut() {
            answer = parts.remove(0);
        }
        let code = answer["error"]["code"].as_i64().unwrap_or_default();
        assert!(codes.contains(&code), "{codes:?} expected: {answer}");
        still_serves(&mut rexd);
    }
    // What nobody reads may be as deep as it likes.
    rexd.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"fs.stat","params":{{"session_id":"{session}","path":"x","odd":{}}}}}"#,
        "[".repeat(100) + &"]".repeat(100)
    ));
    assert_eq!(rexd.receive().unwrap()["result"]["exists"], false);
}

#[test]
fn text_that_is_no_text_is_refused_and_the_connection_lives() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    rexd.open();
    for line in [
        b"\xff\xfe\x00\n".as_slice(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fs.read\",\"params\":{\"path\":\"\xc3\"}}\n",
        b"\0\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1\n",
        b"\xef\xbb\xbf{}\n",
        b"{\"a\":1}{\"b\":2}\n",
        b"NaN\n",
        b"{'jsonrpc':'2.0'}\n",
    ] {
        rexd.send_bytes(line);
        let answer = rexd.receive().unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(null), &json!(-32700)),
            "{line:?}: {answer}"
        );
        still_serves(&mut rexd);
    }
}

#[test]
fn lone_surrogates_are_refused_where_they_would_become_text() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    for half in [r"\ud800", r"\udc00x", r"\udc00\ud800"] {
        rexd.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"fs.write","params":{{"session_id":"{session}","path":"a","content":"{half}"}}}}"#
        ));
        let answer = rexd.receive().unwrap();
        let code = answer["error"]["code"].as_i64().unwrap_or_default();
        assert!(matches!(code, -32602 | -32700), "{half}: {answer}");
        rexd.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{half}"}}"#));
        let answer = rexd.receive().unwrap();
        assert!(answer["error"]["code"].is_i64(), "{half}: {answer}");
        // An id is echoed as it was written; nobody reads it here.
        rexd.send(&format!(r#"{{"jsonrpc":"2.0","id":"{half}","method":"server.ping"}}"#));
        let line = rexd.line().unwrap();
        let echoes = line.contains(&format!(r#""id":"{half}""#)) && line.contains("\"result\"");
        assert!(echoes || line.contains("-32600"), "{half}: {line}");
        still_serves(&mut rexd);
    }
    let stat = rexd.call("fs.stat", json!({ "session_id": session, "path": "a" }));
    assert_eq!(stat["exists"], false, "nothing was written");
}

#[test]
fn ids_of_every_type_come_back_or_are_refused() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let long = format!("{:?}", "x".repeat(2_000));
    for (id, comes_back) in [
        ("0", true),
        ("-7", true),
        ("1.25", true),
        ("1e3", true),
        ("18446744073709551615", true),
        ("123456789012345678901234567890", true),
        ("\"\"", true),
        ("\"\\u0000\\\"\\\\\"", true),
        ("{}", false),
        ("[1]", false),
        ("true", false),
        ("false", false),
        (long.as_str(), false),
    ] {
        rexd.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server.ping"}}"#));
        let line = rexd.line().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        match comes_back {
            true => {
                assert!(answer["result"]["time"].is_string(), "{id}: {line}");
                assert!(line.contains(&format!("\"id\":{id}")), "{id} is not what came back: {line}");
            }
            false => {
                assert_eq!(
                    (&answer["id"], &answer["error"]["code"]),
                    (&json!(null), &json!(-32600)),
                    "{id}: {line}"
                );
            }
        }
    }
}

#[test]
fn two_thousand_requests_at_once_are_all_answered() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let process = rexd.begin(json!({ "session_id": session, "argv": ["cat"] }));
    let waits: Vec<u64> = (0..2_000)
        .map(|_| rexd.request("exec.wait", json!({ "session_id": session, "process_id": process })))
        .collect();
    // Quick requests of another kind get through or are refused at once; they never hang.
    let ping = rexd.request("server.ping", json!({}));
    let answer = rexd.response(ping);
    assert!(answer["error"]["code"] == -32008 || answer["result"].is_object(), "{answer}");
    rexd.send(
        r#"{"jsonrpc":"2.0","method":"exec.input","params":{"session_id":"x","process_id":"y","eof":true}}"#,
    );
    let mut refused = 0;
    let mut answered = 0;
    let mut has_cancelled = false;
    for id in waits {
        // The first ones run; what was over the limit was refused at once, so the rest is there already.
        if !has_cancelled {
            has_cancelled = true;
            rexd.send(&json!({ "jsonrpc": "2.0", "method": "$/cancel", "params": { "id": id } }).to_string());
            let cancelled = rexd.response(id);
            assert_eq!(cancelled["error"]["code"], -32800, "{cancelled}");
            let kill = rexd.request("exec.kill", json!({ "session_id": session, "process_id": process }));
            let killed = rexd.response(kill);
            assert_eq!(killed["result"]["ok"], true, "{killed}");
            continue;
        }
        let answer = rexd.response(id);
        match answer["error"]["code"].as_i64() {
            Some(-32008) => refused += 1,
            None => {
                assert_eq!(answer["result"]["status"], "killed", "{answer}");
                answered += 1;
            }
            Some(code) => panic!("{code}: {answer}"),
        }
    }
    assert_eq!(refused + answered, 1_999);
    assert!(answered >= 1_000, "only {answered} were taken at once");
    assert!(refused > 0, "there is a bound");
    still_serves(&mut rexd);
}

#[test]
fn a_scan_holds_up_nobody_and_can_be_withdrawn() {
    let sandbox = Sandbox::with_config("[[security.allowed_roots]]\npath = \"/\"\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    // The whole machine takes far longer than the few requests behind it.
    for (method, params) in [
        ("fs.glob", json!({ "session_id": session, "pattern": "/**/no-such-name-anywhere" })),
        (
            "fs.grep",
            json!({ "session_id": session, "pattern": "no such text anywhere[0-9]", "path": "/", "hidden": true, "no_ignore": true }),
        ),
        ("fs.list", json!({ "session_id": session, "path": "/", "recursive": true })),
    ] {
        let scan = rexd.request(method, params);
        let path = sandbox.root().join("note.txt");
        let write = rexd.request("fs.write", json!({ "session_id": session, "path": path, "content": "x" }));
        let ping = rexd.request("server.ping", json!({}));
        for id in [ping, write] {
            let answer = rexd.response(id);
            assert!(answer["result"].is_object(), "{method}: {answer}");
        }
        rexd.send(&json!({ "jsonrpc": "2.0", "method": "$/cancel", "params": { "id": scan } }).to_string());
        let withdrawn = rexd.response(scan);
        assert_eq!(withdrawn["error"]["code"], -32800, "{method}: {withdrawn}");
    }
}

#[test]
fn a_batch_that_is_too_long_is_refused_whole() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let calls: Vec<Value> =
        (0..1_025).map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "server.ping" })).collect();
    rexd.send(&Value::Array(calls.clone()).to_string());
    let answer = rexd.receive().unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(null), &json!(-32008)), "{answer}");
    rexd.send(&Value::Array(calls[..1_000].to_vec()).to_string());
    assert_eq!(rexd.receive().unwrap().as_array().map(Vec::len), Some(1_000));
}

/// Every way for a method to be given a path, with the path in place of the hole.
fn uses_of(session: &str, path: &str) -> Vec<(&'static str, Value)> {
    let patch = |hunk: &str| format!("*** Begin Patch\n*** {hunk}\n*** End Patch\n").replace('@', path);
    vec![
        ("fs.read", json!({ "session_id": session, "path": path })),
        ("fs.write", json!({ "session_id": session, "path": path, "content": "x" })),
        ("fs.write", json!({ "session_id": session, "path": path, "content": "x", "atomic": false })),
        ("fs.write", json!({ "session_id": session, "path": path, "content": "x", "mode": "append" })),
        ("fs.edit", json!({ "session_id": session, "path": path, "old_string": "n", "new_string": "y" })),
        ("fs.patch", json!({ "session_id": session, "patch_text": patch("Add File: @\n+x") })),
        ("fs.patch", json!({ "session_id": session, "patch_text": patch("Delete File: @") })),
        ("fs.copy", json!({ "session_id": session, "from": path, "to": "copy", "overwrite": true })),
        ("fs.copy", json!({ "session_id": session, "from": "inside.txt", "to": path, "overwrite": true })),
    ]
}

/// Uses of a directory.
fn directory_uses_of(session: &str, path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("fs.list", json!({ "session_id": session, "path": path })),
        ("fs.list", json!({ "session_id": session, "path": path, "recursive": true })),
        ("fs.glob", json!({ "session_id": session, "pattern": "*", "cwd": path })),
        ("fs.grep", json!({ "session_id": session, "pattern": "yours", "path": path })),
        ("fs.watch", json!({ "session_id": session, "path": path })),
        (
            "fs.patch",
            json!({ "session_id": session, "patch_text": "*** Begin Patch\n*** Add File: p\n+x\n*** End Patch\n", "cwd": path }),
        ),
        ("exec.start", json!({ "session_id": session, "argv": ["pwd"], "cwd": path })),
        ("pty.open", json!({ "session_id": session, "argv": ["pwd"], "cwd": path })),
        ("session.set_cwd", json!({ "session_id": session, "path": path })),
        ("fs.mkdir", json!({ "session_id": session, "path": format!("{path}/made") })),
        ("fs.remove", json!({ "session_id": session, "path": format!("{path}/secret.txt") })),
        ("fs.stat", json!({ "session_id": session, "path": format!("{path}/secret.txt") })),
        ("fs.rename", json!({ "session_id": session, "from": format!("{path}/secret.txt"), "to": "moved" })),
        ("fs.rename", json!({ "session_id": session, "from": "inside.txt", "to": format!("{path}/moved") })),
        ("fs.copy", json!({ "session_id": session, "from": path, "to": "copied", "recursive": true })),
    ]
}

/// Links that lead out of the root, and their names.
fn make_links(sandbox: &Sandbox) -> [&'static str; 5] {
    sandbox.link("root/file-link", sandbox.outside().join("secret.txt"));
    sandbox.link("root/dir-link", sandbox.outside());
    sandbox.link("root/relative-link", "../outside");
    sandbox.link("root/hop", "dir-link");
    sandbox.link("root/slash", "/");
    ["file-link", "dir-link", "relative-link", "hop", "slash"]
}

/// Whether a use is about the name of a link and not about what it points to.
fn names_a_link(method: &str, params: &Value, links: &[&str]) -> bool {
    let is_link = |value: &Value| value.as_str().is_some_and(|path| links.contains(&path));
    let deletes = params["patch_text"].as_str().and_then(|text| text.split("Delete File: ").nth(1));
    match method {
        "fs.copy" => is_link(&params["from"]) || is_link(&params["to"]),
        "fs.patch" => {
            deletes.is_some_and(|rest| links.iter().any(|link| rest.starts_with(&format!("{link}\n"))))
        }
        _ => false,
    }
}

#[test]
fn no_link_and_no_dots_lead_out_of_the_roots_through_any_method() {
    let sandbox = Sandbox::new();
    sandbox.write("root/inside.txt", "inside\n");
    let links = make_links(&sandbox);
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let outside = sandbox.outside();
    let absolute = outside.join("secret.txt");
    let files = [
        absolute.to_str().unwrap().to_owned(),
        "../outside/secret.txt".to_owned(),
        "file-link".to_owned(),
        "dir-link/secret.txt".to_owned(),
        "relative-link/secret.txt".to_owned(),
        "hop/secret.txt".to_owned(),
        format!("slash{}", absolute.display()),
        format!("/proc/self/root{}", absolute.display()),
    ];
    let directories = [
        outside.to_str().unwrap().to_owned(),
        "..".to_owned(),
        "dir-link".to_owned(),
        "relative-link".to_owned(),
        "hop/../../outside".to_owned(),
        "slash".to_owned(),
        "/proc/self/root".to_owned(),
        "/proc/self/cwd".to_owned(),
    ];
    let uses = files.iter().flat_map(|path| uses_of(&session, path));
    let uses = uses.chain(directories.iter().flat_map(|path| directory_uses_of(&session, path)));
    for (method, params) in uses {
        let id = rexd.request(method, params.clone());
        let answer = rexd.response(id);
        let error = &answer["error"];
        if names_a_link(method, &params, &links) {
            // The link itself is inside: it may be copied, replaced and removed like any name, and is put back here.
            assert!(answer["result"].is_object() || error["code"] == -32002, "{method} {params}: {answer}");
            for name in links.iter().chain(&["copy", "copied"]) {
                std::fs::remove_file(sandbox.root().join(name)).ok();
            }
            make_links(&sandbox);
            continue;
        }
        assert_eq!(error["code"], -32002, "{method} {params}: {answer}");
        assert_eq!(error["data"]["allowed_roots"], json!([sandbox.root()]), "{method} {params}: {answer}");
    }
    assert_eq!(sandbox.read("outside/secret.txt"), "not yours\n");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "nothing was made outside");
    assert_eq!(sandbox.read("root/inside.txt"), "inside\n");
    // What walks by itself does not follow either.
    for (method, params, found) in [
        ("fs.glob", json!({ "session_id": session, "pattern": "**/secret.txt" }), "matches"),
        ("fs.glob", json!({ "session_id": session, "pattern": "*/secret.txt" }), "matches"),
        ("fs.glob", json!({ "session_id": session, "pattern": "dir-link/*" }), "matches"),
        ("fs.glob", json!({ "session_id": session, "pattern": "../outside/*" }), "matches"),
        (
            "fs.grep",
            json!({ "session_id": session, "pattern": "yours", "hidden": true, "no_ignore": true }),
            "matches",
        ),
    ] {
        let id = rexd.request(method, params.clone());
        let answer = rexd.response(id);
        let refused = answer["error"]["code"] == -32002;
        assert!(refused || answer["result"][found] == json!([]), "{method} {params}: {answer}");
    }
    let listed = rexd.call("fs.list", json!({ "session_id": session, "path": ".", "recursive": true }));
    assert!(!listed.to_string().contains("secret.txt\""), "{listed}");
}

#[test]
fn a_link_that_is_exchanged_while_it_is_used_never_leads_out() {
    let sandbox = Sandbox::new();
    sandbox.write("root/real/secret.txt", "inside\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let (root, outside) = (sandbox.root(), sandbox.outside());
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stops_on_panic = Stop(&stop);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for target in [root.join("real"), outside.clone()] {
                    std::os::unix::fs::symlink(target, root.join("new")).unwrap();
                    std::fs::rename(root.join("new"), root.join("door")).unwrap();
                }
            }
        });
        let _stops = Stop(&stop);
        let (mut inside, mut refused) = (0, 0);
        for _ in 0..3_000 {
            let id = rexd.request("fs.read", json!({ "session_id": session, "path": "door/secret.txt" }));
            let answer = rexd.response(id);
            match answer["error"]["code"].as_i64() {
                None => {
                    assert_eq!(answer["result"]["content"], "inside\n", "{answer}");
                    inside += 1;
                }
                Some(_) => refused += 1,
            }
        }
        assert!(inside > 0 && refused > 0, "both happened: {inside} inside, {refused} refused");
    });
}

/// Ends a thread when the test does, also by a panic.
struct Stop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_nul_in_a_path_is_refused_through_every_method() {
    let sandbox = Sandbox::new();
    sandbox.write("root/inside.txt", "inside\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let path = "inside.txt\0.png";
    let mut uses = uses_of(&session, path);
    uses.extend(directory_uses_of(&session, path));
    uses.push(("exec.start", json!({ "session_id": session, "argv": ["printf", "a\0b"] })));
    uses.push(("exec.start", json!({ "session_id": session, "argv": ["true"], "env": { "A": "x\0y" } })));
    for (method, params) in uses {
        let error = rexd.refused(method, params.clone());
        assert_eq!(error["code"], -32602, "{method} {params}: {error}");
    }
    assert_eq!(sandbox.read("root/inside.txt"), "inside\n");
}

#[test]
fn fifos_and_sockets_neither_hang_nor_are_read() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    sandbox.write("root/inside.txt", "inside\n");
    sandbox.link("root/fifo-link", "fifo");
    let mut rexd = Rexd::start(REXD, &sandbox);
    rexd.patience = Duration::from_secs(5);
    let session = rexd.open();
    for path in ["fifo", "fifo-link", "socket"] {
        for (method, params) in uses_of(&session, path) {
            // Some of these rightly replace or remove what is there, so it is made anew for each.
            for name in ["fifo", "socket"] {
                std::fs::remove_file(root.join(name)).ok();
            }
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
            assert!(std::fs::metadata(root.join("fifo")).unwrap().file_type().is_fifo());
            let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
            let id = rexd.request(method, params.clone());
            let answer = rexd.response(id);
            let reads = match method {
                "fs.read" | "fs.edit" => true,
                // A link is copied as a link.
                "fs.copy" => params["from"] == path && path != "fifo-link",
                "fs.write" => params["mode"] == "append" || params["atomic"] == false,
                _ => false,
            };
            if reads {
                assert_eq!(answer["error"]["code"], -32602, "{method} {params}: {answer}");
            }
        }
        let found = rexd.call("fs.grep", json!({ "session_id": session, "pattern": "x", "path": "." }));
        assert_eq!(found["matches"], json!([]));
    }
    still_serves(&mut rexd);
}

#[test]
fn devices_neither_hang_nor_are_read() {
    let sandbox = Sandbox::with_config("[[security.allowed_roots]]\npath = \"/\"\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    rexd.patience = Duration::from_secs(5);
    let session = rexd.open();
    // Only looked at: with this root, anything else would reach the devices of the machine.
    for path in ["/dev/zero", "/dev/null", "/dev/tty", "/dev/ptmx"] {
        for encoding in ["utf8", "base64"] {
            let error =
                rexd.refused("fs.read", json!({ "session_id": session, "path": path, "encoding": encoding }));
            assert_eq!(error["code"], -32602, "{path}: {error}");
        }
        let id = rexd.request("fs.grep", json!({ "session_id": session, "pattern": "x", "path": path }));
        let answer = rexd.response(id);
        assert!(
            answer["error"]["code"] == -32602 || answer["result"]["matches"] == json!([]),
            "{path}: {answer}"
        );
        let stat = rexd.call("fs.stat", json!({ "session_id": session, "path": path }));
        assert_eq!(stat["type"], "other", "{path}: {stat}");
    }
    let error = rexd.refused("fs.read", json!({ "session_id": session, "path": "/proc/self/root/dev/zero" }));
    assert_eq!(error["code"], -32602, "{error}");
    // Files of /proc say that they are empty, and are not.
    let read = rexd.call("fs.read", json!({ "session_id": session, "path": "/proc/self/status" }));
    assert!(read["content"].as_str().is_some_and(|text| text.starts_with("Name:")), "{read}");
}

#[test]
fn a_name_that_no_variable_can_have_is_refused() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    for name in ["A=B", ""] {
        for method in ["exec.start", "pty.open"] {
            let error = rexd
                .refused(method, json!({ "session_id": session, "argv": ["true"], "env": { name: "x" } }));
            assert_eq!(error["code"], -32602, "{method} {name:?}: {error}");
        }
    }
}

/// Starts processes that never end by themselves, terminals among them, and returns all that belong to them.
fn start_crowd(rexd: &mut Rexd, session: &str, mark: &str) -> Vec<proc::Watched> {
    let (name, value) = mark.split_once('=').unwrap();
    let line = "trap '' TERM HUP INT; (setsid sh -c 'echo away $$ .; exec sleep 1000' &); \
                echo leader $$ .; exec sleep 1000";
    let mut started = Vec::new();
    for number in 0..20 {
        let params = json!({ "session_id": session, "argv": ["sh", "-c", line], "env": { name: value } });
        let method = if number % 5 == 0 { "pty.open" } else { "exec.start" };
        started.push(rexd.call(method, params)["process_id"].as_str().unwrap().to_owned());
    }
    let mut crowd = Vec::new();
    for process in &started {
        let mut said = String::new();
        while said.matches(" .").count() < 2 {
            said += &rexd.until(process, ".");
        }
        crowd.extend(said.split_whitespace().filter_map(|word| word.parse().ok()).map(proc::watch));
    }
    assert_eq!(crowd.len(), 40, "two of each");
    crowd
}

/// Starts a crowd, ends the daemon in some way, and expects exit status 0 and nobody left.
fn an_ending(containment: Option<&str>, name: &str, end: impl FnOnce(&mut Rexd)) {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--root").arg(sandbox.root());
    command.envs(containment.map(|value| ("REXD_CONTAINMENT", value)));
    let mut rexd = Rexd::spawn(command);
    let session = rexd.open();
    let mark = format!("REXD_CROWD={}", sandbox.root().display());
    let crowd = start_crowd(&mut rexd, &session, &mark);
    rexd.patience = Duration::from_secs(5);
    let began = Instant::now();
    end(&mut rexd);
    let status = rexd.wait();
    assert_eq!(status.code(), Some(0), "{name} ({containment:?}): {status}; {}", rexd.log());
    assert!(began.elapsed() < Duration::from_secs(3), "{name} ({containment:?}): {:?}", began.elapsed());
    let alive = proc::survivors(&crowd, Duration::ZERO);
    assert!(alive.is_empty(), "{name} ({containment:?}): {alive:?} outlived the daemon");
    assert_eq!(proc::marked(&mark), Vec::<i32>::new(), "{name} ({containment:?})");
}

#[test]
fn a_client_that_closes_its_end_takes_every_tree_along() {
    for containment in CONTAINMENTS {
        an_ending(containment, "end of input", Rexd::close_input);
    }
}

#[test]
fn a_client_that_stops_listening_takes_every_tree_along() {
    for containment in CONTAINMENTS {
        an_ending(containment, "closed output", |rexd| {
            rexd.close_output();
            // The daemon learns of it when it says something.
            rexd.send(r#"{"jsonrpc":"2.0","id":"last","method":"server.ping"}"#);
        });
    }
}

#[test]
fn a_client_that_stops_listening_is_noticed_before_there_is_anything_to_say() {
    an_ending(None, "closed output, in silence", Rexd::close_output);
}

#[test]
fn signals_end_the_daemon_well_and_take_every_tree_along() {
    for containment in CONTAINMENTS {
        for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
            an_ending(containment, &format!("{signal:?}"), |rexd| rexd.signal(signal));
        }
    }
}

#[test]
fn a_daemon_that_is_killed_leaves_at_most_what_its_successor_cleans_up() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let mark = format!("REXD_CROWD={}", sandbox.root().display());
    let (name, value) = mark.split_once('=').unwrap();
    let params = json!({ "session_id": session, "argv": ["sh", "-c", "echo up; exec sleep 1000"], "env": { name: value } });
    let process = rexd.begin(params);
    rexd.until(&process, "up");
    let crowd = proc::watch_marked(&mark);
    assert_eq!(crowd.len(), 1);
    rexd.signal(Signal::KILL);
    rexd.wait();
    let alive = proc::survivors(&crowd, Duration::from_secs(1));
    assert!(alive.is_empty(), "{alive:?} outlived a daemon that was killed");
}

#[test]
fn a_client_that_never_reads_and_leaves_is_no_reason_to_hang() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let flood = rexd.begin(json!({ "session_id": session, "shell": true, "command": "echo $$ > pid; touch pid.ready; exec yes" }));
    sandbox.appears("root/pid.ready", Instant::now() + Duration::from_secs(10));
    let leader = proc::watch(sandbox.read("root/pid").trim().parse().unwrap());
    rexd.close_input();
    rexd.close_output();
    assert_eq!(rexd.wait().code(), Some(0), "{flood}");
    assert!(leader.has_ended());
}

#[test]
fn a_signal_ends_every_tree_even_when_nobody_reads_and_the_rest_can_still_be_read() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let process = rexd.begin(json!({ "session_id": session, "shell": true, "command": "echo $$ > pid; touch pid.ready; exec yes" }));
    sandbox.appears("root/pid.ready", Instant::now() + Duration::from_secs(10));
    let leader = proc::watch(sandbox.read("root/pid").trim().parse().unwrap());
    rexd.signal(Signal::TERM);
    assert!(leader.ends_before(Instant::now() + Duration::from_secs(1)), "it does not wait for a reader");
    let ended = rexd.finish(&process);
    assert_eq!(ended.exit["bytes_stdout"], ended.stdout.len());
    assert!(ended.stdout.chunks(2).all(|line| line == b"y\n"));
    assert_eq!(rexd.wait().code(), Some(0));
}

#[test]
fn a_peer_that_never_reads_cannot_keep_a_signalled_daemon_alive() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    rexd.begin(json!({ "session_id": session, "shell": true, "command": "touch ready; exec yes" }));
    sandbox.appears("root/ready", Instant::now() + Duration::from_secs(10));
    rexd.patience = Duration::from_secs(10);
    rexd.signal(Signal::TERM);
    assert_eq!(rexd.wait().code(), Some(0));
}
