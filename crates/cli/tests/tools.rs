//! The tools through `rex call`: what models get to see, and what the next call still finds.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use mcp::McpWorkspace;
use mcp::raw_http::StatelessClient;
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

/// 1,000 lines in each of 100 runs, through one server.
#[test]
fn lines_of_both_streams_keep_their_order() {
    let place = McpWorkspace::open();
    let token = "the-token-of-a-caller";
    let server = place.serve_http_with(Some(token), &[mcp::PATIENT]);
    let client = StatelessClient::new(&server, token, json!({}));
    let command = "for i in {1..500}; do echo out $i; echo err $i >&2; done";
    let expected: Vec<_> = (1..=500).flat_map(|i| [format!("out {i}"), format!("err {i}")]).collect();
    // The first result describes the target.
    client.call("bash", json!({ "command": "true" }));
    for run in 1..=100 {
        let ran = client.call("bash", json!({ "command": command }));
        assert_eq!(output(&ran), expected.join("\n"), "run {run}");
    }
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
    let said = place.fails("bash", json!({ "command": "echo before; sleep 1000", "timeout_ms": 5_000 }));
    assert!(said.starts_with("[timed out: killed after timeout_ms = 5000"), "{said}");
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
    let whole = json!({ "process_id": ran["structuredContent"]["process_id"], "cursor": 0 });
    let page = place.ok("bash_output", whole);
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
    let page = place.ok("bash_output", json!({ "process_id": id, "until": "got one\n" }));
    assert_eq!(page["structuredContent"]["output"], "got one\n", "{page}");
    place.ok("bash_input", json!({ "process_id": id, "data": "two\n", "eof": true }));
    // Nothing matches, so the call waits for the end.
    let page = place.ok("bash_output", json!({ "process_id": id, "cursor": 8, "until": "never" }));
    assert_eq!(page["structuredContent"]["status"], "exited", "{page}");
    assert_eq!(page["structuredContent"]["output"], "got two\nend\n");
}

#[test]
fn a_process_in_the_background_is_ended_by_the_next_call() {
    let place = McpWorkspace::open();
    let command = "sleep 1000 & echo started; sleep 1000";
    let started = place.ok("bash", json!({ "command": command, "background": true }));
    let id = started["structuredContent"]["process_id"].clone();
    // Before that, there may be only the shell.
    place.ok("bash_output", json!({ "process_id": id, "cursor": 0, "until": "started" }));
    let killed = place.ok("kill", json!({ "process_id": id }));
    assert!(killed["structuredContent"]["killed"].as_array().unwrap().len() >= 2, "{killed}");
    let page = place.ok("bash_output", json!({ "process_id": id }));
    assert_eq!(page["structuredContent"]["status"], "killed", "{page}");
    assert!(place.fails("kill", json!({ "process_id": "p_nobody" })).contains("hint:"));
}

#[test]
fn a_call_waits_for_a_pattern_the_end_or_the_time_and_not_for_any_output() {
    let place = McpWorkspace::open();
    for fifo in ["go", "stop"] {
        assert!(place.command("mkfifo").arg(fifo).status().unwrap().success());
    }
    let command = "seq 1 500; echo building; cat go; echo ready; cat stop; exit 4";
    let started = place.ok("bash", json!({ "command": command, "background": true }));
    let id = started["structuredContent"]["process_id"].clone();
    let wait = |more: Value| {
        let mut arguments = json!({ "process_id": id });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        words(&place.ok("bash_output", arguments))
    };
    let said = wait(json!({ "until": "^build" }));
    assert!(
        said.starts_with("[no exit code yet, ") && said.contains(" is still running, until matched]\n"),
        "{said}"
    );
    assert!(said.ends_with("\n500\nbuilding"), "nothing else follows: {said}");
    let said = wait(json!({ "until": "ready", "wait_ms": 100 }));
    assert!(said.contains(", until did not match within 100 ms]\n"), "{said}");
    std::fs::write(place.sandbox.path("root/go"), "").unwrap();
    let said = wait(json!({ "until": "READY|ready" }));
    assert!(said.contains("until matched]\n") && said.ends_with("\nready"), "{said}");
    std::fs::write(place.sandbox.path("root/stop"), "").unwrap();
    let said = wait(json!({ "until": "never" }));
    assert!(
        said.starts_with("[exit code 4, ") && said.contains(" has ended, until did not match]\n"),
        "{said}"
    );
    let said = place.fails("bash_output", json!({ "process_id": id, "until": "(" }));
    assert!(
        said.contains("invalid regular expression in `until`") && said.contains("\nhint: escape"),
        "{said}"
    );
}

#[test]
fn a_pattern_matches_output_already_shown_once_and_then_waits_for_new_output() {
    let place = McpWorkspace::open();
    assert!(place.command("mkfifo").arg("go").status().unwrap().success());
    let token = "the-token-of-a-caller";
    let server = place.serve_http_with(Some(token), &[mcp::PATIENT]);
    let client = StatelessClient::new(&server, token, json!({}));
    let command = "echo listening on 1; cat go; echo listening on 2; cat go";
    let started = client.call("bash", json!({ "command": command, "background": true }));
    let id = &started["structuredContent"]["process_id"];
    let wait = |until: &str, more: Value| {
        let mut arguments = json!({ "process_id": id, "until": until });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        words(&client.call("bash_output", arguments))
    };
    // The line is shown, by this call or by the one before.
    wait("on 1", json!({}));
    let said = wait("^listen", json!({}));
    assert!(
        said.contains(" is still running, until matched output already shown]\n(no new output)\n"),
        "{said}"
    );
    let last = "\n[already shown: listening on 1]\n[the same call again waits for a new match]";
    assert!(said.ends_with(last), "{said}");
    // With a cursor, only what follows it matches.
    let end = json!({ "cursor": "listening on 1\n".len(), "wait_ms": 1 });
    assert!(wait("[0-9]", end).contains(", until did not match within 1 ms"));
    let said = wait("^listen", json!({ "wait_ms": 1 }));
    assert!(said.contains(", until did not match within 1 ms]\n(no new output)"), "{said}");
    std::fs::write(place.sandbox.path("root/go"), "").unwrap();
    let said = wait("^listen", json!({}));
    assert!(said.contains(", until matched]\nlistening on 2"), "{said}");
    client.call("kill", json!({ "process_id": id }));
}

#[test]
fn progress_and_repeated_lines_are_collapsed_with_their_number() {
    let place = McpWorkspace::open();
    let command =
        "for i in {1..2000}; do printf '%s%%\\r' $i; done; echo done; yes same | head -n 100000; echo end";
    let ran = place.ok("bash", json!({ "command": command }));
    let shown = "done [2000 earlier states of this line omitted]\nsame\n[previous line repeated 99999 more times]\nend";
    assert_eq!(output(&ran), shown);
    let id = &ran["structuredContent"]["process_id"];
    let page = place.ok("bash_output", json!({ "process_id": id, "cursor": 0 }));
    assert!(words(&page).contains("]\ndone [2000 earlier states"), "{page}");
    let exact = page["structuredContent"]["output"].as_str().unwrap();
    assert!(exact.starts_with("1%\r2%\r3%\r"), "programs get every byte: {exact:.100}");
}

#[test]
fn the_habits_of_models_are_accepted() {
    let place = McpWorkspace::open();
    let said = place.fails(
        "bash",
        json!({ "command": "sleep 1000", "timeout": 200, "description": "Sleeps", "run_in_background": false }),
    );
    assert!(said.starts_with("[timed out: killed after timeout_ms = 200"), "{said}");
    place.ok("write", json!({ "file_path": "a.txt", "content": "x\n" }));
    assert_eq!(words(&place.ok("read", json!({ "file_path": "a.txt" }))), "     1\tx\n");
    // The home directory is outside the roots, which the error names.
    let said = place.fails("read", json!({ "path": "~/secret" }));
    let home = place.sandbox.path("home/secret");
    assert!(said.contains(home.to_str().unwrap()) && said.contains("allowed roots"), "{said}");
    let said = words(&place.ok("bash", json!({ "command": "cat", "background": true })));
    let id = said.split("process ").nth(1).unwrap().split(' ').next().unwrap();
    let said = words(&place.ok("bash_output", json!({ "process_id": id, "until": "x", "timeout": 20 })));
    assert!(said.contains(", until did not match within 20 ms]"), "{said}");
    place.ok("kill", json!({ "process_id": id }));
    let (_, schemas, _) = place.rex(&["tools"]);
    for habit in ["file_path", "run_in_background", "\"timeout\"", "\"-i\"", "head_limit"] {
        assert!(!schemas.contains(habit), "{habit}");
    }
}

#[test]
fn the_arguments_of_another_agents_grep_are_accepted() {
    let place = McpWorkspace::open();
    place.sandbox.write("root/a.txt", "1\n2\nneedle\nNEEDLE\n5\n");
    place.sandbox.write("root/b.rs", "needle\n");
    let ran = place.ok("bash", json!({ "command": "cat a.txt" }));
    let process = format!("process:{}", ran["structuredContent"]["process_id"].as_str().unwrap());
    for path in ["a.txt", &process] {
        let grep = |more: Value| {
            let mut arguments = json!({ "pattern": "NEEDLE", "path": path, "-n": true });
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            words(&place.ok("grep", arguments)).replace(path, "P")
        };
        assert_eq!(grep(json!({})), "P:4: NEEDLE");
        assert_eq!(grep(json!({ "-i": true })), "P:3: needle\nP:4: NEEDLE");
        assert_eq!(grep(json!({ "-A": 1 })), "P:4: NEEDLE\nP-5- 5");
        assert_eq!(grep(json!({ "-B": 1 })), "P-3- needle\nP:4: NEEDLE");
        assert_eq!(grep(json!({ "-C": 1 })), "P-3- needle\nP:4: NEEDLE\nP-5- 5");
        let said = grep(json!({ "-i": true, "head_limit": 1 }));
        assert!(
            said.contains("P:3: needle") && !said.contains("NEEDLE\n") && said.contains("[next: grep "),
            "{said}"
        );
    }
    let grep = |arguments: Value| words(&place.ok("grep", arguments));
    assert_eq!(grep(json!({ "pattern": "needle", "glob": "*.rs" })), "b.rs:1: needle");
    let said = grep(json!({ "pattern": "needle", "output_mode": "files_with_matches", "head_limit": 1 }));
    assert!(said.contains("\na.txt\n") && !said.contains("b.rs\n"), "{said}");
    assert!(
        place.fails("grep", json!({ "pattern": "x", "type": "rust" })).contains("unknown argument `type`")
    );
}

#[test]
fn a_path_may_start_with_the_home_directory() {
    let place = McpWorkspace::open();
    place.sandbox.write("home/sub/notes.txt", "noted\n");
    let call = |tool: &str, arguments: Value| {
        // Without a configuration, the working directory is served.
        let mut command = place.command(mcp::REX);
        command.current_dir(place.sandbox.path("home")).args(["call", tool, &arguments.to_string()]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(call("read", json!({ "path": "~/sub/notes.txt" })).trim(), "1\tnoted");
    let said = call("bash", json!({ "command": "pwd", "cwd": "~/sub" }));
    assert_eq!(said.lines().last(), place.sandbox.path("home/sub").to_str(), "{said}");
}

#[test]
fn grep_shows_context_files_counts_and_matches_across_lines() {
    let place = McpWorkspace::open();
    place.sandbox.write("root/src/a.rs", "one\nfn two() {\n    three\n}\n");
    place.sandbox.write("root/b.rs", "fn four() {}\nfn five() {}\n");
    let grep = |arguments: Value| words(&place.ok("grep", arguments));
    assert_eq!(grep(json!({ "pattern": "three" })), "src/a.rs:3:     three");
    let context = "src/a.rs-1- one\nsrc/a.rs:2: fn two() {\nsrc/a.rs-3-     three";
    assert_eq!(grep(json!({ "pattern": "two", "context": 1 })), context);
    assert_eq!(grep(json!({ "pattern": "^fn", "output_mode": "files" })), "b.rs\nsrc/a.rs");
    assert_eq!(grep(json!({ "pattern": "^fn", "output_mode": "count" })), "b.rs: 2\nsrc/a.rs: 1");
    let lines = "src/a.rs:2: fn two() {\nsrc/a.rs:3:     three\nsrc/a.rs:4: }";
    assert_eq!(grep(json!({ "pattern": "two.*\\n}", "multiline": true })), lines);
    let ran = place.ok("bash", json!({ "command": "printf 'one\\ntwo\\nthree\\n'" }));
    let path = format!("process:{}", ran["structuredContent"]["process_id"].as_str().unwrap());
    let found = grep(json!({ "pattern": "two", "path": path, "context": 1 }));
    assert_eq!(found, format!("{path}-1- one\n{path}:2: two\n{path}-3- three"));
    for (arguments, hint) in [
        (json!({ "pattern": "x", "path": "missing" }), "the path does not exist"),
        (json!({ "pattern": "a\\nb" }), "set multiline: true"),
        (json!({ "pattern": "(" }), "escape special characters"),
        (json!({ "pattern": "x", "output_mode": "lines" }), "use content, files or count"),
    ] {
        let said = place.fails("grep", arguments);
        assert!(said.contains("\nhint: ") && said.contains(hint), "{said}");
    }
}

#[test]
fn edits_and_patches_that_fit_several_places_name_their_lines() {
    let place = McpWorkspace::open();
    let text = "a\nsame\nb\nsame\n";
    place.sandbox.write("root/a.txt", text);
    let edit = |old: &str, new: &str| {
        place.fails("edit", json!({ "path": "a.txt", "old_string": old, "new_string": new }))
    };
    let said = edit("same", "other");
    assert!(said.starts_with("old_string occurs 2 times in a.txt, on lines 2, 4\nhint: "), "{said}");
    assert!(edit("same", "same").contains("hint: nothing to change"));
    assert!(edit("nothing", "x").contains("hint: read the file"));
    place.sandbox.write("root/latin.txt", b"gr\xfcn\n");
    let said = place.fails("edit", json!({ "path": "latin.txt", "old_string": "gr", "new_string": "x" }));
    assert!(said.contains("not UTF-8") && said.contains("iconv"), "{said}");
    let patch = |text: &str| place.call("patch", json!({ "patch_text": text }));
    let (refused, _) = patch("--- a/a.txt\n+++ b/a.txt\n@@ -9,1 +9,1 @@\n-same\n+other\n");
    let said = words(&refused);
    assert!(
        said.contains("fit 2 places") && said.contains("(lines 2, 4)") && said.contains("hint: "),
        "{said}"
    );
    assert_eq!(place.sandbox.read("root/a.txt"), text);
    let (patched, status) = patch(
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -4 +4 @@\n-same\n+other\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n",
    );
    assert_eq!(status, 0, "{patched}");
    assert_eq!(place.sandbox.read("root/a.txt"), "a\nsame\nb\nother\n");
    assert_eq!(place.sandbox.read("root/new.txt"), "new\n");
    let (refused, _) = patch("--- a/a.txt\nno diff\n");
    assert!(words(&refused).contains("hint: "), "{refused}");
    let stat = words(&place.ok("stat", json!({ "path": "a.txt" })));
    assert!(stat.contains(", modified 20") && stat.contains("Z") && !stat.contains("1970"), "{stat}");
}

#[test]
fn input_to_a_process_that_has_ended_says_so() {
    let place = McpWorkspace::open();
    let started = place.ok("bash", json!({ "command": "exit 7", "background": true }));
    let id = &started["structuredContent"]["process_id"];
    place.ok("bash_output", json!({ "process_id": id, "until": "never" }));
    let said = place.fails("bash_input", json!({ "process_id": id, "data": "x\n" }));
    assert!(
        said.contains("it has ended (exit code 7)") && said.contains("start it again with bash"),
        "{said}"
    );
    let started = place.ok("bash", json!({ "command": "exec sleep 1000", "background": true }));
    let id = &started["structuredContent"]["process_id"];
    place.ok("kill", json!({ "process_id": id, "signal": "USR1" }));
    place.ok("bash_output", json!({ "process_id": id, "until": "never" }));
    let said = place.fails("bash_input", json!({ "process_id": id, "data": "x\n" }));
    assert!(said.contains("it has ended (killed by signal USR1, exit code 138)"), "{said}");
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

/// Files that no tool returns whole.
fn write_much(place: &McpWorkspace) {
    place.sandbox.write("root/lines.txt", "x\n".repeat(40_000));
    place.sandbox.write("root/wide.txt", "needle of some length \n".repeat(10_000));
    place.sandbox.write("root/bad.txt", [&vec![0xff; 1_999][..], b"\n"].concat().repeat(100));
    for number in 0..1_200 {
        place.sandbox.write(&format!("root/many/{}-{number}", "n".repeat(100)), "needle\n");
    }
}

/// Clients spill or cut longer results, and the model loses the next call with them.
#[test]
fn no_result_exceeds_50000_bytes_or_1900_lines() {
    let place = McpWorkspace::open();
    write_much(&place);
    for (tool, arguments) in [
        ("bash", json!({ "command": "nl -ba lines.txt" })),
        ("bash", json!({ "command": "nl -ba wide.txt" })),
        ("bash", json!({ "command": "nl -ba bad.txt" })),
        ("bash", json!({ "command": "yes '' | head -n 30000 | nl -ba" })),
        ("read", json!({ "path": "lines.txt" })),
        ("read", json!({ "path": "lines.txt", "limit": 30_000 })),
        ("read", json!({ "path": "wide.txt" })),
        ("read", json!({ "path": "bad.txt" })),
        ("list", json!({ "path": "many" })),
        ("glob", json!({ "pattern": "many/*" })),
        ("grep", json!({ "pattern": "needle" })),
        ("grep", json!({ "pattern": "x", "path": "lines.txt" })),
        ("grep", json!({ "pattern": "x", "path": "lines.txt", "context": 50 })),
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

/// The description of the target counts: the first result of a caller has it, if no response with instructions came before.
#[test]
fn the_first_result_of_a_server_has_its_status_first_and_is_within_the_limits() {
    let place = McpWorkspace::open();
    write_much(&place);
    let tokens: Vec<String> = (0..5).map(|number| format!("the-token-of-caller-{number}")).collect();
    let server = place.serve_http_with(Some(&tokens.join(",")), &[mcp::PATIENT]);
    for (token, (tool, arguments)) in tokens.iter().zip([
        ("bash", json!({ "command": "nl -ba lines.txt" })),
        ("bash", json!({ "command": "nl -ba wide.txt" })),
        ("read", json!({ "path": "lines.txt" })),
        ("grep", json!({ "pattern": "needle" })),
        // Its text exceeds the limit without the description too.
        ("grep", json!({ "pattern": "x".repeat(60_000) })),
    ]) {
        let said = words(&StatelessClient::new(&server, token, json!({})).call(tool, arguments.clone()));
        let (bytes, lines) = (said.len(), said.lines().count());
        assert!(bytes <= 50_000 && lines <= 1_900, "{tool}: {bytes} bytes, {lines} lines");
        let mut lines = said.lines();
        let (first, second) = (lines.next().unwrap(), lines.next().unwrap());
        let described = if said.contains("\nno match for ") { first } else { second };
        assert!(first.starts_with('[') && described.starts_with("[target local, "), "{tool}: {said:.300}");
    }
}
