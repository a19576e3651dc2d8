//! The tools through `rex call`: what models get to see, and what the next call still finds.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use std::time::{Duration, Instant};

use mcp::McpWorkspace;
use serde_json::{Value, json};

impl McpWorkspace {
    /// Calls a tool; its result, and the status of `rex`.
    fn call(&self, tool: &str, arguments: Value) -> (Value, i32) {
        let (status, out, errors) = self.rex(&["--json", "call", tool, &arguments.to_string()]);
        (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{errors}")), status)
    }

    /// The same, of a call that goes well.
    fn ok(&self, tool: &str, arguments: Value) -> Value {
        let (result, status) = self.call(tool, arguments);
        assert!(status == 0 && result["isError"] == false, "{result}");
        result
    }

    /// The same, of one that does not: what it says.
    fn fails(&self, tool: &str, arguments: Value) -> String {
        let (result, status) = self.call(tool, arguments);
        assert!(status == 1 && result["isError"] == true, "{result}");
        words(&result)
    }
}

fn words(result: &Value) -> String {
    let parts = result["content"].as_array().unwrap().iter().filter_map(|part| part["text"].as_str());
    parts.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_exit_code_and_both_streams_are_told() {
    let place = McpWorkspace::open();
    let ran = place.ok("bash", json!({ "command": "echo out; echo err >&2; exit 3" }));
    assert!(words(&ran).contains("out\n") && words(&ran).contains("err\n"), "{ran}");
    assert!(words(&ran).ends_with("[exit code 3]"), "{ran}");
    let silent = place.ok("bash", json!({ "command": "true" }));
    assert_eq!(words(&silent), "(no output)\n[exit code 0]");
}

#[test]
fn stdin_of_a_command_that_nobody_feeds_is_empty() {
    let place = McpWorkspace::open();
    place.sandbox.write("root/a.txt", "needle\n");
    let ran = place.ok("bash", json!({ "command": "cat; [ -c /dev/stdin ] && echo device" }));
    assert!(words(&ran).starts_with("device\n"), "{ran}");
    let text = place.ok("bash", json!({ "command": "cat <<EOF\nhere\nEOF" }));
    assert!(words(&text).starts_with("here\n"), "{text}");
}

#[test]
fn the_limit_that_ended_a_command_is_named() {
    let place = McpWorkspace::open();
    let said = place.fails("bash", json!({ "command": "echo before; sleep 1000", "timeout_ms": 300 }));
    assert!(said.contains("before\n") && said.contains("timeout_ms = 300"), "{said}");
    let place = McpWorkspace::with_config(
        "[limits]\nhard_timeout_ms = 400\nhard_output_bytes = 10000\nmax_output_bytes = 10000\n",
    );
    // Detached processes have no timeout of the host, so this one asks for more than it gets.
    let said = place.fails("bash", json!({ "command": "sleep 1000", "timeout_ms": 60_000 }));
    assert!(said.contains("hard_timeout_ms = 400"), "{said}");
    let said = place.fails("bash", json!({ "command": "yes" }));
    assert!(said.contains("hard_output_bytes = 10000"), "{said}");
}

#[test]
fn long_output_keeps_its_beginning_and_its_end_and_says_how_to_get_the_rest() {
    let place = McpWorkspace::open();
    let ran = place.ok("bash", json!({ "command": "seq -f 'Zeile %.0f ✓' 1 20000" }));
    let (said, seen) = (words(&ran), &ran["structuredContent"]);
    assert!(said.starts_with("Zeile 1 ✓\n") && said.contains("Zeile 20000 ✓\n[exit code 0]"), "{said}");
    assert!(said.len() < 34_000 && !said.contains('\u{fffd}'));
    let (from, to) = (seen["cut"]["from"].as_u64().unwrap(), seen["cut"]["to"].as_u64().unwrap());
    assert!(said.contains(&format!("{} bytes omitted", to - from)), "{said}");
    assert!(said.contains(&format!("\"cursor\":{from}")) && said.contains("process:p_"), "{said}");
    // Another program finds all of it, from any place.
    let id = &seen["process_id"];
    let page = place.ok("bash_output", json!({ "process_id": id, "cursor": from }));
    let output = page["structuredContent"]["output"].as_str().unwrap();
    let shown = said.lines().take_while(|line| !line.starts_with('[')).count();
    assert!(output.starts_with(&format!("Zeile {} ✓\n", shown + 1)), "{output:.100}");
    let found = place.ok(
        "grep",
        json!({ "pattern": "Zeile 12345 ", "path": format!("process:{}", id.as_str().unwrap()) }),
    );
    assert_eq!(found["structuredContent"]["matches"][0]["line"], 12345);
}

#[test]
fn output_that_is_no_text_is_shown_safely_and_can_be_had_exactly() {
    let place = McpWorkspace::open();
    let ran = place.ok("bash", json!({ "command": "printf 'a\\377\\000b'" }));
    assert!(words(&ran).contains("a\u{fffd}\0b") && words(&ran).contains("1 bytes are not UTF-8"), "{ran}");
    let page = place.ok("bash_output", json!({ "process_id": ran["structuredContent"]["process_id"] }));
    assert_eq!(page["structuredContent"]["output_base64"], "Yf8AYg==");
}

#[test]
fn a_process_in_the_background_is_found_by_the_next_call() {
    let place = McpWorkspace::open();
    let started = place.ok(
        "bash",
        json!({ "command": "while read line; do echo got $line; done; echo end", "background": true }),
    );
    let id = started["structuredContent"]["process_id"].clone();
    assert_eq!(started["structuredContent"]["status"], "running");
    place.ok("bash_input", json!({ "process_id": id, "data": "one\n" }));
    let page = place.ok("bash_output", json!({ "process_id": id }));
    assert_eq!(page["structuredContent"]["output"], "got one\n", "{page}");
    place.ok("bash_input", json!({ "process_id": id, "data": "two\n", "eof": true }));
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut page = json!({});
    // Each call waits for news itself.
    while page["structuredContent"]["status"] != "exited" {
        assert!(Instant::now() < deadline, "{page}");
        page = place.ok("bash_output", json!({ "process_id": id, "cursor": 8 }));
    }
    assert_eq!(page["structuredContent"]["output"], "got two\nend\n");
}

#[test]
fn a_process_in_the_background_is_ended_by_the_next_call() {
    let place = McpWorkspace::open();
    let started = place.ok("bash", json!({ "command": "sleep 1000 & sleep 1000", "background": true }));
    let id = started["structuredContent"]["process_id"].clone();
    let killed = place.ok("kill", json!({ "process_id": id }));
    assert!(killed["structuredContent"]["killed"].as_array().unwrap().len() >= 2, "{killed}");
    let page = place.ok("bash_output", json!({ "process_id": id }));
    assert_eq!(page["structuredContent"]["status"], "killed", "{page}");
    assert!(place.fails("kill", json!({ "process_id": "p_nobody" })).contains("hint:"));
}

#[test]
fn a_file_is_read_by_lines_and_a_directory_is_listed() {
    let place = McpWorkspace::open();
    let text: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
    place.sandbox.write("root/long.txt", text);
    let first = words(&place.ok("read", json!({ "path": "long.txt" })));
    assert!(first.starts_with("     1\tline 1\n") && first.contains("\"offset\":2001"), "{first:.200}");
    let last = words(&place.ok("read", json!({ "path": "long.txt", "offset": 4999 })));
    assert_eq!(last, "  4999\tline 4999\n  5000\tline 5000\n");
    assert!(place.fails("read", json!({ "path": "long.txt", "offset": 6000 })).contains("has 5000 lines"));
    assert!(words(&place.ok("read", json!({ "path": "." }))).contains("is a directory:\nlong.txt"));
    place.sandbox.write("root/empty", "");
    assert!(words(&place.ok("read", json!({ "path": "empty" }))).ends_with("is empty"));
    place.sandbox.write("root/data.bin", [0, 1, 2, 255]);
    assert!(place.fails("read", json!({ "path": "data.bin" })).contains("is not text (4 bytes)"));
}

#[test]
fn what_the_server_says_is_handed_on_as_it_is() {
    let place = McpWorkspace::open();
    let written = place.ok("write", json!({ "path": "a/b.txt", "content": "x\n" }));
    let path = place.sandbox.path("root/a/b.txt");
    assert_eq!(written["structuredContent"]["path"], json!(path));
    assert_eq!(written["structuredContent"]["created"], true);
    let link =
        written["content"].as_array().unwrap().iter().find(|part| part["type"] == "resource_link").unwrap();
    assert_eq!(link["uri"], format!("file://{}", path.display()));
    let stat = place.ok("stat", json!({ "path": "a/none" }));
    assert_eq!(stat["structuredContent"]["exists"], false);
    for (tool, arguments) in [("list", json!({ "path": "a" })), ("stat", json!({ "path": "a/b.txt" }))] {
        assert!(place.ok(tool, arguments)["structuredContent"].is_object(), "{tool}");
    }
}

#[test]
fn bad_calls_say_what_to_do() {
    let place = McpWorkspace::open();
    assert!(place.fails("nothing", json!({})).contains("the tools are bash, bash_output"));
    assert!(place.fails("bash", json!({ "cmd": "x" })).contains("unknown argument `cmd`"));
    assert!(place.fails("read", json!({ "path": "../outside/secret.txt" })).contains("hint: allowed roots"));
    assert!(
        place
            .fails("edit", json!({ "path": "x", "old_string": "", "new_string": "y" }))
            .contains("use write to create a file")
    );
    let (status, _, errors) = place.rex(&["call", "bash", "{"]);
    assert!(status == 255 && errors.contains("not a JSON object"), "{errors}");
}

#[test]
fn arguments_are_read_from_stdin() {
    let place = McpWorkspace::open();
    let arguments = place.sandbox.write("arguments.json", "{\"command\":\"echo from stdin\"}");
    let mut command = place.command(mcp::REX);
    command.args(["call", "bash", "-"]).stdin(std::fs::File::open(arguments).unwrap());
    let run = command.output().unwrap();
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "from stdin\n[exit code 0]\n");
}
