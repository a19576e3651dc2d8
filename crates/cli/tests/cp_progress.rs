//! The progress line of `rex cp` on a terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step ends the test")]

#[path = "support/server.rs"]
mod server;
mod support;

use std::fs;
use std::process::Command;

use server::with_server;
use sha2::{Digest as _, Sha256};
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;

/// The response to `session.open`: the hash at the end is SHA-256.
const OPENED: &str = r#"{"session_id":"s_1","protocol":"rexd/1","server_version":"0.2.0","capabilities":["exec","fs","events","fs.stat.hash","fs.read.hash","fs.write.hash","fs.write.permissions","fs.write.durable","fs.write.mtime"],"limits":{"default_timeout_ms":30000,"max_output_bytes":1048576,"max_file_read_bytes":600},"workspace_roots":["/srv"]}"#;

#[test]
fn the_progress_line_shows_the_verification_and_ends_at_the_whole_file() {
    let sandbox = Sandbox::new();
    // Two chunks of the length that the server allows.
    let content = "a".repeat(600);
    let hash = hex::encode(Sha256::digest(content.repeat(2)));
    let size = 2 * content.len();
    // The server answers with the hash when the test has seen the line.
    let pause = sandbox.path("pause");
    assert!(Command::new("mkfifo").arg(&pause).status().unwrap().success());
    let cases = format!(
        r#"
  *'"session.open"'*) answer '{OPENED}';;
  *'"fs.stat"'*'"hash":"'*) read -r _ < {}; answer '{{"path":"/srv/f","exists":true,"type":"file","size":{size},"mode":"-rw-------","mtime":1,"hash":"{hash}","hash_bytes":{size}}}';;
  *'"fs.stat"'*) answer '{{"path":"/srv/f","exists":true,"type":"file","size":{size},"mode":"-rw-------","mtime":1}}';;
  *'"fs.read"'*) answer '{{"path":"/srv/f","size":{size},"mtime":1,"encoding":"utf8","content":"{content}","truncated":true}}';;
  *'"session.close"'*) answer '{{"ok":true}}';;
"#,
        pause.display()
    );
    let mut screen = Screen::start(&with_server(&sandbox, &cases, &["cp", ":/srv/f", "copy"]), 100, 10);
    screen.shows("verifying");
    assert!(screen.text().contains("100%  1.2 KiB of 1.2 KiB"), "{}", screen.text());
    fs::write(&pause, "\n").unwrap();
    let (status, seen) = screen.end();
    assert!(status.success(), "{seen}");
    let line = seen.lines().find(|line| line.contains("100%")).unwrap_or_default();
    assert!(line.contains("1.2 KiB of 1.2 KiB") && line.trim_end().ends_with(" s"), "{seen}");
    assert!(!seen.contains("verifying"), "{seen}");
}
