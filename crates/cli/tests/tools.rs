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

/// The output in the result of a command that has ended, without the first line.
fn output(result: &Value) -> String {
    let words = words(result);
    let (first, output) = words.split_once('\n').expect("a first line");
    assert!(first.starts_with("[exit code ") && first.ends_with(" has ended]"), "{first}");
    output.to_owned()
}

#[test]
fn the_exit_code_and_both_streams_are_told() {
    let place = McpWorkspace::open();
    let ran = place.ok("bash", json!({ "command": "echo out; echo err >&2; exit 3" }));
    let id = ran["structuredContent"]["process_id"].as_str().unwrap();
    assert!(words(&ran).contains("\nout") && words(&ran).contains("\nerr"), "{ran}");
    assert!(words(&ran).starts_with(&format!("[exit code 3, process {id} has ended]\n")), "{ran}");
    let silent = place.ok("bash", json!({ "command": "true" }));
    assert!(words(&silent).starts_with("[exit code 0, process p_"), "{silent}");
    assert!(words(&silent).ends_with(" has ended]\n(no output)"), "{silent}");
}

#[test]
fn lines_of_both_streams_keep_their_order() {
    let place = McpWorkspace::open();
    let command = "for i in {1..300}; do echo out $i; echo err $i >&2; done";
    let expected: Vec<_> = (1..=300).flat_map(|i| [format!("out {i}"), format!("err {i}")]).collect();
    assert_eq!(output(&place.ok("bash", json!({ "command": command }))), expected.join("\n"));
}

#[test]
fn the_command_runs_in_bash_as_it_was_written() {
    let place = McpWorkspace::open();
    let ran = place
        .ok("bash", json!({ "command": "[[ abc == a* ]] && echo yes; tr '\\0' '|' < /proc/$$/cmdline" }));
    assert_eq!(output(&ran), "yes\nbash|-c|[[ abc == a* ]] && echo yes; tr '\\0' '|' < /proc/$$/cmdline|");
    let failed = place.ok("bash", json!({ "command": "no-such-command" }));
    assert!(words(&failed).starts_with("[exit code 127, "), "{failed}");
    assert!(words(&failed).ends_with("\nbash: line 1: no-such-command: command not found"), "{failed}");
    let unfinished = place.ok("bash", json!({ "command": "echo 'open" }));
    assert!(words(&unfinished).contains("bash: -c: line 1: unexpected EOF"), "{unfinished}");
}

#[test]
fn sh_runs_the_command_where_there_is_no_bash_and_the_result_says_so() {
    let place = McpWorkspace::open();
    std::fs::create_dir(place.sandbox.path("bin")).unwrap();
    place.sandbox.link("bin/sh", "/bin/sh");
    let mut command = place.command(mcp::REX);
    command.env("PATH", place.sandbox.path("bin")).args(["call", "bash", "{\"command\":\"echo $0\"}"]);
    let run = command.output().unwrap();
    let printed = String::from_utf8(run.stdout).unwrap();
    assert!(printed.starts_with("[exit code 0, "), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    assert!(printed.ends_with(" has ended, run by sh because the target has no bash]\nsh\n"), "{printed}");
}

#[test]
fn stdin_of_a_command_that_nobody_feeds_is_empty() {
    let place = McpWorkspace::open();
    place.sandbox.write("root/a.txt", "needle\n");
    let ran = place.ok("bash", json!({ "command": "cat; [ -c /dev/stdin ] && echo device" }));
    assert_eq!(output(&ran), "device");
    let text = place.ok("bash", json!({ "command": "cat <<EOF\nhere\nEOF" }));
    assert_eq!(output(&text), "here");
}

#[test]
fn the_limit_that_ended_a_command_is_named() {
    let place = McpWorkspace::open();
    let said = place.fails("bash", json!({ "command": "echo before; sleep 1000", "timeout_ms": 300 }));
    assert!(said.starts_with("[timed out: killed after timeout_ms = 300"), "{said}");
    assert!(said.ends_with("\nbefore"), "{said}");
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
    assert!(said.starts_with("[exit code 0, ") && said.contains("]\nZeile 1 ✓\n"), "{said}");
    assert!(said.contains("\nZeile 20000 ✓\n[next: bash_output "), "{said}");
    assert!(said.len() < 34_000 && !said.contains('\u{fffd}'));
    let (from, to) = (seen["cut"]["from"].as_u64().unwrap(), seen["cut"]["to"].as_u64().unwrap());
    let first = said.lines().next().unwrap();
    assert!(
        first.ends_with(&format!(", {} of {} bytes of output omitted]", to - from, seen["end"])),
        "{first}"
    );
    assert!(said.contains(&format!("\n[{} bytes, ", to - from)), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains(&format!("\"cursor\":{from}")) && last.contains("process:p_"), "{last}");
    // Another program finds all of it, from any place.
    let id = &seen["process_id"];
    let page = place.ok("bash_output", json!({ "process_id": id, "cursor": from }));
    let output = page["structuredContent"]["output"].as_str().unwrap();
    let shown = said.lines().skip(1).take_while(|line| !line.starts_with('[')).count();
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
    assert!(first.starts_with("[lines 1 to 1800 of /"), "{first:.200}");
    assert!(first.contains(" bytes]\n     1\tline 1\n"), "{first:.200}");
    assert!(first.lines().last().unwrap().starts_with("[next: read {\"offset\":1801,"), "{first:.200}");
    let last = words(&place.ok("read", json!({ "path": "long.txt", "offset": 4999 })));
    assert_eq!(last, "  4999\tline 4999\n  5000\tline 5000\n");
    assert!(place.fails("read", json!({ "path": "long.txt", "offset": 6000 })).contains("has 5000 lines"));
    assert!(words(&place.ok("read", json!({ "path": "." }))).starts_with("this is a directory\n"));
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
    let printed = String::from_utf8(run.stdout).unwrap();
    assert!(printed.starts_with("[exit code 0, ") && printed.ends_with("]\nfrom stdin\n"), "{printed}");
}

/// Clients spill or cut longer results, and the model loses the next call with them.
#[test]
fn no_result_exceeds_50000_bytes_or_1900_lines() {
    let place = McpWorkspace::open();
    place.sandbox.write("root/lines.txt", "x\n".repeat(40_000));
    place.sandbox.write("root/wide.txt", "needle of some length \n".repeat(10_000));
    place.sandbox.write("root/bad.txt", [&vec![0xff; 1_999][..], b"\n"].concat().repeat(100));
    for number in 0..1_200 {
        place.sandbox.write(&format!("root/many/{}-{number}", "n".repeat(100)), "needle\n");
    }
    for (tool, arguments) in [
        ("bash", json!({ "command": "cat lines.txt" })),
        ("bash", json!({ "command": "cat wide.txt" })),
        ("bash", json!({ "command": "cat bad.txt" })),
        ("bash", json!({ "command": "yes | head -n 3000" })),
        ("read", json!({ "path": "lines.txt" })),
        ("read", json!({ "path": "lines.txt", "limit": 30_000 })),
        ("read", json!({ "path": "wide.txt" })),
        ("read", json!({ "path": "bad.txt" })),
        ("list", json!({ "path": "many" })),
        ("glob", json!({ "pattern": "many/*" })),
        ("grep", json!({ "pattern": "needle" })),
        ("grep", json!({ "pattern": "x", "path": "lines.txt" })),
    ] {
        let result = place.ok(tool, arguments.clone());
        let said = words(&result);
        let (bytes, lines) = (said.len(), said.lines().count());
        assert!(bytes <= 50_000 && lines <= 1_900, "{tool} {arguments}: {bytes} bytes, {lines} lines");
        let (first, last) = (said.lines().next().unwrap(), said.lines().last().unwrap());
        assert!(first.starts_with('[') && last.starts_with("[next: "), "{tool} {arguments}: {first}\n{last}");
        if tool == "bash" {
            let from = result["structuredContent"]["cursor"].as_u64().unwrap();
            let id = &result["structuredContent"]["process_id"];
            let page = words(&place.ok("bash_output", json!({ "process_id": id, "cursor": from })));
            let (bytes, lines) = (page.len(), page.lines().count());
            assert!(bytes <= 50_000 && lines <= 1_900, "{arguments}: {bytes} bytes, {lines} lines");
        }
    }
}
