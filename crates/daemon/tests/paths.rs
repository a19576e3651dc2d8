//! Paths that lead out of the roots, and special files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::os::unix::fs::FileTypeExt;

use serde_json::{Value, json};
use testkit::daemon::Rexd;
use testkit::sandbox::Sandbox;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");

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
    assert!(rexd.call("server.ping", json!({}))["time"].is_string());
}

#[test]
fn devices_neither_hang_nor_are_read() {
    let sandbox = Sandbox::with_config("[[security.allowed_roots]]\npath = \"/\"\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
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
    let read = rexd.call("fs.read", json!({ "session_id": session, "path": "/proc/meminfo" }));
    assert!(read["content"].as_str().is_some_and(|text| text.starts_with("MemTotal:")), "{read}");
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
