//! `rex mcp install`: what it writes is what the programs themselves read.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use std::fs;

use mcp::{Place, REX, npm_program};
use serde_json::{Value, json};

/// What one of the programs says about its MCP servers.
fn says(place: &Place, program: &str, arguments: &[&str]) -> String {
    let mut command = place.command(npm_program(program));
    let node = mcp::node();
    let path = format!("{}:/usr/bin:/bin", node.parent().expect("a folder").display());
    // They look where the user's files are, which here is below the sandbox.
    command.env("PATH", path).env_remove("XDG_CONFIG_HOME").args(arguments);
    let run = command.output().expect("it runs");
    format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr))
}

fn installed(place: &Place, client: &str) {
    let mut command = place.command(REX);
    let run =
        command.env_remove("XDG_CONFIG_HOME").args(["mcp", "install", client, "--yes"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn codex_reads_what_was_written() {
    let place = Place::open();
    place.sandbox.write("home/.codex/config.toml", "# mine\nmodel = \"x\"\n");
    installed(&place, "codex");
    let said = says(&place, "codex", &["mcp", "get", "rex", "--json"]);
    let start = said.find('{').unwrap_or_else(|| panic!("{said}"));
    let read: Value = serde_json::Deserializer::from_str(&said[start..]).into_iter().next().unwrap().unwrap();
    assert_eq!(read["transport"]["command"], REX);
    assert_eq!(read["transport"]["args"], json!(["mcp"]));
    assert!(place.sandbox.read("home/.codex/config.toml").starts_with("# mine\nmodel = \"x\"\n"));
}

#[test]
fn claude_connects_to_what_was_written() {
    let place = Place::open();
    installed(&place, "claude");
    let said = says(&place, "claude", &["mcp", "get", "rex"]);
    assert!(said.contains("Connected") && said.contains(REX), "{said}");
}

#[test]
fn opencode_connects_to_what_was_written() {
    let place = Place::open();
    installed(&place, "opencode");
    let said = says(&place, "opencode", &["mcp", "list"]);
    assert!(said.contains("connected") && said.contains(REX), "{said}");
}

#[test]
fn with_json_one_line_says_what_was_done() {
    let place = Place::open();
    for (more, changed, written) in
        [("--dry-run", true, false), ("--yes", true, true), ("--yes", false, false)]
    {
        let mut command = place.command(REX);
        command.env_remove("XDG_CONFIG_HOME").args(["--json", "mcp", "install", "cursor", more]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&said["changed"], &said["written"]), (&json!(changed), &json!(written)), "{said}");
        assert!(said["file"].as_str().unwrap().ends_with("mcp.json"), "{said}");
    }
}

#[test]
fn everything_else_in_a_file_stays_and_twice_changes_nothing() {
    let place = Place::open();
    let commented =
        "{\n  // my servers\n  \"servers\": {\n    \"other\": { \"command\": \"x\" } // kept\n  }\n}\n";
    let file = place.sandbox.write("root/.vscode/mcp.json", commented);
    let install = ["mcp", "install", "vscode", "--project", "--yes"];
    let (status, shown, errors) = place.rex(&install);
    assert_eq!(status, 0, "{errors}");
    assert!(shown.contains("+    \"rex\": {"), "{shown}");
    let once = fs::read_to_string(&file).unwrap();
    assert!(once.contains("// my servers") && once.contains("// kept") && once.contains(REX), "{once}");
    let (status, said, _) = place.rex(&install);
    assert!(status == 0 && said.contains("is up to date"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), once);
}

#[test]
fn nothing_is_written_unless_somebody_says_yes() {
    let place = Place::open();
    for (arguments, expected) in [
        (&["mcp", "install", "claude", "--project"][..], 255),
        (&["mcp", "install", "claude", "--project", "--dry-run"], 0),
    ] {
        let (status, shown, errors) = place.rex(arguments);
        assert_eq!(status, expected, "{errors}");
        assert!(shown.contains("mcpServers"), "{shown}");
        assert!(!place.sandbox.path("root/.mcp.json").exists());
    }
}

#[test]
fn a_file_that_is_half_written_is_refused_with_the_place() {
    let place = Place::open();
    let broken = "{\n  \"mcpServers\": {\n    \"x\": {\n";
    place.sandbox.write("root/.mcp.json", broken);
    let (status, _, errors) = place.rex(&["mcp", "install", "claude", "--project", "--yes"]);
    assert_eq!(status, 255);
    assert!(errors.contains("line 4") && errors.contains("by hand"), "{errors}");
    assert_eq!(place.sandbox.read("root/.mcp.json"), broken);
    place.sandbox.write("root/.codex/config.toml", "a = 1\nb = [\n");
    let (status, _, errors) = place.rex(&["mcp", "install", "codex", "--project", "--yes"]);
    assert!(status == 255 && errors.contains("line"), "{errors}");
}
