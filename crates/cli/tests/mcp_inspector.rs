//! `rex mcp` with the official inspector's command line.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use std::process::Command;

use mcp::{McpWorkspace, REX, npm_program};
use serde_json::Value;

/// The inspector, with the Node it needs.
fn inspector(place: &McpWorkspace) -> Command {
    let mut command = place.command(npm_program("mcp-inspector"));
    let node = mcp::node();
    let path = format!("{}:/usr/bin:/bin", node.parent().expect("a dir").display());
    command.env("PATH", path).arg("--cli");
    command
}

fn answer(command: &mut Command) -> Value {
    let run = command.output().expect("the inspector runs");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}\n{}", String::from_utf8_lossy(&run.stdout));
    serde_json::from_slice(&run.stdout).expect("JSON")
}

#[test]
fn it_lists_the_tools_and_finds_nothing_wrong_with_their_schemas() {
    let place = McpWorkspace::open();
    let listed = answer(inspector(&place).args(["--strict", "--method", "tools/list", REX, "mcp"]));
    assert_eq!(listed["tools"].as_array().expect("tools").len(), 12);
}

#[test]
fn it_calls_a_tool_on_stdio_and_over_http() {
    let place = McpWorkspace::open();
    let call = ["--method", "tools/call", "--tool-name", "bash", "--tool-arg", "command=echo from there"];
    let ran = answer(inspector(&place).args([REX, "mcp"]).args(call));
    let said = ran["content"][0]["text"].as_str().expect("a text");
    // The first result says where the tools work if the instructions could not wait for the target.
    let said: String = said.split_inclusive('\n').filter(|line| !line.starts_with("[target ")).collect();
    assert!(said.starts_with("[exit code 0, ") && said.ends_with("]\nfrom there"), "{ran}");
    assert_eq!(ran.get("structuredContent"), None, "{ran}");
    let server = place.serve_http(Some("a-token-of-ours"));
    let header = ["--header", "Authorization: Bearer a-token-of-ours"];
    let ran = answer(inspector(&place).arg(&server.url).args(call).args(header));
    assert_eq!(ran["structuredContent"]["output"], "from there\n", "{ran}");
}
