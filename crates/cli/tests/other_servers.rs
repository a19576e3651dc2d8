//! Servers that are not ours: those that follow the protocol's examples and no more, and those that cannot read us.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

#[path = "support/server.rs"]
mod server;
mod support;

use std::fs::File;

use serde_json::Value;
use server::{ended, with_server};
use support::{rex, run};
use testkit::sandbox::Sandbox;

/// Answers as the examples of REXD v1 do: two limits, no name, events without numbers, text as text.
const EXAMPLES: &str = r##"
  *'"session.open"'*) answer '{"session_id":"s_1","protocol":"rexd/1","server_version":"0.1.0","capabilities":["exec","fs","events"],"limits":{"default_timeout_ms":30000,"max_output_bytes":1048576},"workspace_roots":["/srv/myapp"]}';;
  *'"exec.start"'*)
    answer '{"process_id":"p_1","started_at":"2026-02-25T10:00:00Z"}'
    say '{"jsonrpc":"2.0","method":"exec.stdout","params":{"session_id":"s_1","process_id":"p_1","seq":1,"data":" M README.md\n","encoding":"utf8"}}'
    say '{"jsonrpc":"2.0","method":"exec.exit","params":{"session_id":"s_1","process_id":"p_1","exit_code":0,"signal":null,"timed_out":false,"duration_ms":93,"bytes_stdout":12,"bytes_stderr":0}}';;
  *'"fs.read"'*) answer '{"path":"/srv/myapp/README.md","size":8,"mtime":1772013600000,"encoding":"utf8","content":"# Hello\n","truncated":false}';;
  *'"fs.write"'*)
    printf '%s\n' "$line" > written
    answer '{"path":"/srv/myapp/README.md","bytes_written":8,"mtime":1772013600000,"created":false}';;
  *'"session.close"'*) answer '{"ok":true}';;
"##;

#[test]
fn a_server_that_follows_the_examples_is_enough() {
    let sandbox = Sandbox::new();
    let ask = |arguments: &[&str]| {
        let output = ended(&mut with_server(&sandbox, EXAMPLES, arguments));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(ask(&["exec", "--", "git", "status", "--short"]), " M README.md\n");
    assert_eq!(ask(&["read", "README.md"]), "# Hello\n");
    let text = sandbox.write("outside/text", "# Hello\n");
    let mut writing = with_server(&sandbox, EXAMPLES, &["write", "README.md"]);
    let output = ended(writing.stdin(File::open(text).unwrap()));
    assert!(output.status.success(), "{output:?}");
    let written: Value = serde_json::from_str(&sandbox.read("root/written")).unwrap();
    let params = &written["params"];
    assert_eq!((&params["content"], &params["encoding"]), (&"# Hello\n".into(), &"utf8".into()), "{written}");
}

#[test]
fn a_list_of_processes_that_the_server_cut_is_reported_as_such() {
    let sandbox = Sandbox::new();
    let listed = r#"{"processes":[{"process_id":"p_1","argv":["make"],"cwd":"/","pid":1,"status":"running","started_at":"2026-01-01T00:00:00Z","detached":true,"face":"rexd","cursor":0}],"truncated":true}"#;
    let cases = format!("{EXAMPLES}\n*'\"exec.list\"'*) answer '{listed}';;");
    let output = ended(&mut with_server(&sandbox, &cases, &["ps", "--json"]));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&printed["truncated"], &printed["processes"][0]["argv"][0]), (&true.into(), &"make".into()));
    let output = ended(&mut with_server(&sandbox, &cases, &["ps"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains("make"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the list is truncated"), "{output:?}");
}

#[test]
fn a_server_of_another_version_is_told_by_it() {
    let sandbox = Sandbox::new();
    let cases = r#"*'"session.open"'*) answer '{"protocol":"rexd/9","sessions":["s_1"]}';;"#;
    let output = ended(&mut with_server(&sandbox, cases, &["read", "x"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("the server uses rexd/9, this client rexd/1") && said.contains("hint:"), "{said}");
}

#[test]
fn a_request_that_the_server_cannot_read_fails_and_is_not_waited_for() {
    let sandbox = Sandbox::new();
    for (code, message) in [(-32008, "the line is too long"), (-32700, "parse error")] {
        let cases = EXAMPLES.replace(
            r#"*'"fs.read"'*) answer"#,
            &format!(
                r#"*'"fs.read"'*) say '{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"{message}"}}}}';;
                   *'"none"'*) answer"#
            ),
        );
        let output = ended(&mut with_server(&sandbox, &cases, &["read", "README.md"]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.contains(message)), (Some(255), true), "{said}");
    }
}

#[test]
fn text_that_is_shorter_as_bytes_travels_so() {
    let sandbox = Sandbox::new();
    let zeros = vec![0; 12_000_000];
    let file = sandbox.write("outside/zeros", &zeros);
    let output = ended(rex(&sandbox, &["write", "copy"]).stdin(File::open(file).unwrap()));
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::read(sandbox.path("root/copy")).unwrap() == zeros);
}

#[test]
fn a_request_that_no_server_takes_is_not_sent() {
    let sandbox = Sandbox::new();
    let patch = sandbox.write("outside/patch", vec![b'a'; 70_000_000]);
    let output = ended(rex(&sandbox, &["patch"]).stdin(File::open(patch).unwrap()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("(limit 67108864)") && said.contains("hint:"), "{said}");
    assert!(run(&sandbox, &["exec", "--", "true"]).status.success());
}
