//! Files through exec-server: error codes, blocks, trees and sandboxes.

mod exec_server;

use std::os::unix::fs::FileExt as _;

use exec_server::{Codex, ServedDaemon, base64, bytes, start};
use serde_json::{Value, json};
use testkit::sandbox::Sandbox;

fn served(sandbox: &Sandbox) -> (ServedDaemon, Codex) {
    let served = ServedDaemon::start(sandbox, &[]);
    let codex = served.client();
    (served, codex)
}

#[test]
fn missing_files_and_wrong_kinds_have_the_codes_that_clients_expect() {
    let sandbox = Sandbox::new();
    let (_served, mut codex) = served(&sandbox);
    let path = |name: &str| sandbox.path(format!("root/{name}"));
    assert_eq!(codex.refused("fs/getMetadata", json!({"path": path("none")})), -32004);
    assert_eq!(codex.refused("fs/readFile", json!({"path": path("none")})), -32004);
    assert_eq!(codex.refused("fs/readFile", json!({"path": sandbox.root()})), -32600);
    let deep = json!({"path": path("a/b/c"), "dataBase64": base64("x")});
    assert_eq!(codex.refused("fs/writeFile", deep.clone()), -32004);
    codex.call("fs/createDirectory", json!({"path": path("a/b")}));
    assert_eq!(codex.refused("fs/createDirectory", json!({"path": path("a"), "recursive": false})), -32603);
    assert_eq!(codex.call("fs/writeFile", deep), json!({}));
    assert_eq!(codex.refused("fs/writeFile", json!({"path": path("x"), "dataBase64": "%"})), -32600);
    assert_eq!(codex.refused("fs/readFile", json!({"path": "relative"})), -32602);
    sandbox.link("root/link", path("a/b/c"));
    sandbox.link("root/broken", path("nowhere"));
    let found = codex.call("fs/getMetadata", json!({"path": path("link")}));
    assert_eq!(
        (&found["isFile"], &found["isSymlink"], &found["size"]),
        (&json!(true), &json!(true), &json!(1))
    );
    assert!(found["modifiedAtMs"].as_i64().unwrap() > 0);
    assert_eq!(codex.refused("fs/getMetadata", json!({"path": path("broken")})), -32004);
    assert_eq!(codex.refused("fs/readFile", json!({"path": path("link"), "followSymlinks": false})), -32600);
    let listed = codex.call("fs/readDirectory", json!({"path": sandbox.root()}));
    let mut names: Vec<_> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["fileName"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "link"], "a link that leads nowhere is left out");
    assert_eq!(codex.refused("fs/remove", json!({"path": path("none"), "force": false})), -32004);
    codex.call("fs/remove", json!({"path": path("none")}));
    codex.call("fs/remove", json!({"path": path("link")}));
    assert!(path("a/b/c").exists(), "a link goes alone");
    let copy = |to: &str, recursive: bool| json!({"sourcePath": path("a"), "destinationPath": path(to), "recursive": recursive});
    assert_eq!(codex.refused("fs/copy", copy("copy", false)), -32600);
    assert_eq!(codex.refused("fs/copy", copy("a/inside", true)), -32600);
    codex.call("fs/copy", copy("copy", true));
    assert_eq!(sandbox.read("root/copy/b/c"), "x");
}

/// Of the 256 MiB of `server.max_buffered_bytes`, a file needs four thirds of its size.
#[test]
fn a_file_of_a_hundred_mebibytes_is_read_as_a_whole() {
    let sandbox = Sandbox::new();
    let (_served, mut codex) = served(&sandbox);
    let path = sandbox.path("root/large");
    let size = 100 * 1024 * 1024 + 1;
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(b"end", size - 3).unwrap();
    let read = bytes(&codex.call("fs/readFile", json!({"path": path}))["dataBase64"]);
    assert_eq!((read.len() as u64, &read[read.len() - 3..]), (size, &b"end"[..]));
    assert!(read[..read.len() - 3].iter().all(|byte| *byte == 0));
    file.set_len(512 * 1024 * 1024 + 1).unwrap();
    let id = codex.request("fs/readFile", json!({"path": path}));
    let error = codex.answer(id).unwrap_err();
    assert_eq!(error["message"], "file is too large to read: limit is 536870912 bytes");
}

#[test]
fn requests_on_files_keep_their_order_without_waiting_for_answers() {
    let sandbox = Sandbox::new();
    let (_served, mut codex) = served(&sandbox);
    let path = sandbox.path("root/file");
    let mut asked = Vec::new();
    for round in 0..50 {
        codex.request("fs/writeFile", json!({"path": path, "dataBase64": base64(round.to_string())}));
        asked.push((round, codex.request("fs/readFile", json!({"path": path}))));
    }
    for (round, id) in asked {
        let read = codex.answer(id).unwrap();
        assert_eq!(bytes(&read["dataBase64"]), round.to_string().as_bytes());
    }
}

#[test]
fn blocks_are_read_and_written_and_replace_the_file_when_they_are_closed() {
    let sandbox = Sandbox::new();
    let (_served, mut codex) = served(&sandbox);
    let path = sandbox.write("root/file", "0123456789");
    codex.call("fs/open", json!({"handleId": "r", "path": path, "mode": "read"}));
    let block = |offset: u64, len: u64| json!({"handleId": "r", "offset": offset, "len": len});
    let read = codex.call("fs/readBlock", block(2, 4));
    assert_eq!((bytes(&read["chunk"]), &read["eof"]), (b"2345".to_vec(), &json!(false)));
    let read = codex.call("fs/readBlock", block(8, 4));
    assert_eq!((bytes(&read["chunk"]), &read["eof"]), (b"89".to_vec(), &json!(true)));
    assert_eq!(codex.refused("fs/readBlock", block(0, 0)), -32600);
    assert_eq!(codex.refused("fs/readBlock", json!({"handleId": "x", "offset": 0, "len": 1})), -32004);
    codex.call("fs/open", json!({"handleId": "w", "path": path, "mode": "replace"}));
    for (offset, text) in [(3, "def"), (0, "abc")] {
        codex.call("fs/writeBlock", json!({"handleId": "w", "offset": offset, "chunk": base64(text)}));
    }
    assert_eq!(sandbox.read("root/file"), "0123456789", "nothing is seen before the end");
    codex.call("fs/close", json!({"handleId": "w"}));
    codex.call("fs/close", json!({"handleId": "w"}));
    assert_eq!(sandbox.read("root/file"), "abcdef");
    assert_eq!(
        codex.refused(
            "fs/open",
            json!({"handleId": "n", "path": sandbox.path("root/no/file"), "mode": "replace"})
        ),
        -32004
    );
}

#[test]
fn a_tree_is_walked_within_its_bounds() {
    let sandbox = Sandbox::new();
    let (_served, mut codex) = served(&sandbox);
    for name in ["a/one", "a/b/two", ".hidden/three"] {
        sandbox.write(&format!("root/{name}"), "");
    }
    sandbox.link("root/a/loop", sandbox.root());
    let walk = |codex: &mut Codex, depth: u64, follow: bool| -> Vec<String> {
        let options = json!({"maxDepth": depth, "maxDirectories": 100, "maxEntries": 100,
            "followDirectorySymlinks": follow, "pruneHiddenDirectories": true});
        let found = codex.call("fs/walk", json!({"path": sandbox.root(), "options": options}));
        let root = format!("file://{}/", sandbox.root().display());
        let name = |entry: &Value| entry["path"].as_str().unwrap().strip_prefix(&root).unwrap().to_owned();
        let mut names: Vec<String> = found["entries"].as_array().unwrap().iter().map(name).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(walk(&mut codex, 0, false), [".hidden", "a"]);
    assert_eq!(walk(&mut codex, 6, false), [".hidden", "a", "a/b", "a/b/two", "a/one"]);
    assert_eq!(
        walk(&mut codex, 64, true),
        [".hidden", "a", "a/b", "a/b/two", "a/loop", "a/one"],
        "a circle is entered once"
    );
    let real = codex.call("fs/canonicalize", json!({"path": sandbox.path("root/a/loop/a/one")}));
    let root = sandbox.root().canonicalize().unwrap();
    assert_eq!(real["path"], format!("file://{}/a/one", root.display()));
}

#[test]
fn a_watch_reports_when_a_missing_path_appears() {
    let sandbox = Sandbox::new();
    let (_served, mut codex) = served(&sandbox);
    let missing = [sandbox.path("root/AGENTS.md"), sandbox.path("root/later/AGENTS.md")];
    let watch = json!({"watchId": 4, "missing": missing, "present": null});
    assert_eq!(codex.call("fs/watchMissing", watch)["watching"], true);
    sandbox.write("root/unrelated", "");
    sandbox.write("root/AGENTS.md", "hello");
    let told = codex.take(|message| message["method"] == "fs/missingChanged");
    assert_eq!(told["params"]["watchId"], 4);
    let there = json!({"watchId": 5, "missing": [sandbox.path("root/AGENTS.md")], "present": null});
    assert_eq!(codex.call("fs/watchMissing", there)["watching"], false, "there is nothing to wait for");
}

#[test]
fn a_tree_is_copied_without_special_files() {
    let sandbox = Sandbox::new();
    let (_served, mut codex) = served(&sandbox);
    sandbox.write("root/tree/a", "first");
    sandbox.write("root/tree/z/last", "last");
    let fifo = sandbox.path("root/tree/b");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let copy = |from: &str, recursive: bool| json!({"sourcePath": sandbox.path(from), "destinationPath": sandbox.path("root/copy"), "recursive": recursive});
    codex.call("fs/copy", copy("root/tree", true));
    assert_eq!(sandbox.read("root/copy/a"), "first");
    assert_eq!(sandbox.read("root/copy/z/last"), "last");
    assert!(!sandbox.path("root/copy/b").exists());
    let refusal = codex.ask("fs/copy", copy("root/tree/b", false)).unwrap_err();
    assert_eq!(refusal["message"], "fs/copy only supports regular files, directories, and symlinks");
}

fn restricted(sandbox: &Sandbox, entries: Value) -> Value {
    let root = format!("file://{}", sandbox.root().display());
    json!({
        "permissions": {"type": "managed", "network": "restricted",
            "file_system": {"type": "restricted", "entries": entries}},
        "cwd": root, "workspaceRoots": [root], "windowsSandboxLevel": "disabled",
    })
}

#[test]
fn a_sandbox_holds_for_files_and_for_processes_alike() {
    let sandbox = Sandbox::new();
    let (_served, mut codex) = served(&sandbox);
    let root = json!({"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"});
    let project = json!({"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"});
    let read_only = restricted(&sandbox, json!([root]));
    let workspace = restricted(&sandbox, json!([root, project]));
    let write = |name: &str, sandbox_object: &Value| json!({"path": sandbox.path(name), "dataBase64": base64("x"), "sandbox": sandbox_object});
    assert_eq!(codex.refused("fs/writeFile", write("root/a", &read_only)), -32603);
    assert_eq!(codex.refused("fs/writeFile", write("outside/a", &workspace)), -32603);
    codex.call("fs/writeFile", write("root/a", &workspace));
    let mut run = |process: &str, sandbox_object: &Value| {
        let line = format!(
            "echo inside > {}; echo out > {}; echo done",
            sandbox.path("root/b").display(),
            sandbox.path("outside/b").display()
        );
        let mut params = start(process, &["sh", "-c", &line]);
        (params["cwd"], params["sandbox"]) = (json!(sandbox.root()), sandbox_object.clone());
        let started = codex.call("process/start", params);
        assert_eq!(started["sandboxType"], "linuxSeccomp");
        codex.finish(process).1
    };
    run("p", &read_only);
    assert!(!sandbox.path("root/b").exists() && !sandbox.path("outside/b").exists());
    let mut unnamed = workspace.clone();
    for roots in [json!([]), Value::Null] {
        unnamed["workspaceRoots"] = roots.clone();
        run(&format!("without {roots}"), &unnamed);
        assert!(!sandbox.path("root/b").exists(), "{roots}");
    }
    run("q", &workspace);
    assert!(sandbox.path("root/b").exists() && !sandbox.path("outside/b").exists());
    let pattern = json!({"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "none"});
    let mut params = start("r", &["true"]);
    params["sandbox"] = restricted(&sandbox, json!([root, pattern]));
    let refusal = codex.ask("process/start", params).unwrap_err();
    assert_eq!(refusal["code"], -32600);
    assert!(refusal["message"].as_str().unwrap().contains("cannot be enforced"), "{refusal}");
}
