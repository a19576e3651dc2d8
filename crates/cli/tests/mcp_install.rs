//! `rex mcp install`: what it writes is what the programs themselves read.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use std::fs;

use mcp::{McpWorkspace, REX, npm_program};
use serde_json::{Value, json};

/// What one of the programs says about its MCP servers.
fn says(place: &McpWorkspace, program: &str, arguments: &[&str]) -> String {
    let mut command = place.command(npm_program(program));
    let node = mcp::node();
    let path = format!("{}:/usr/bin:/bin", node.parent().expect("a dir").display());
    // They look where the user's files are, which here is below the sandbox.
    command.env("PATH", path).env_remove("XDG_CONFIG_HOME").args(arguments);
    // Claude Code waits so long for a server.
    command.env("MCP_TIMEOUT", "300000");
    let run = command.output().expect("it runs");
    format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr))
}

fn installed(place: &McpWorkspace, client: &str) {
    let mut command = place.command(REX);
    let run =
        command.env_remove("XDG_CONFIG_HOME").args(["mcp", "install", client, "--yes"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn codex_reads_what_was_written() {
    let place = McpWorkspace::open();
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
    let place = McpWorkspace::open();
    installed(&place, "claude");
    let said = says(&place, "claude", &["mcp", "get", "rex"]);
    assert!(said.contains("Connected") && said.contains(REX), "{said}");
}

#[test]
fn opencode_connects_to_what_was_written() {
    let place = McpWorkspace::open();
    let patient = json!({ "experimental": { "mcp_timeout": 300_000 } });
    place.sandbox.write("home/.config/opencode/opencode.json", patient.to_string());
    installed(&place, "opencode");
    let said = says(&place, "opencode", &["mcp", "list"]);
    assert!(said.contains("connected") && said.contains(REX), "{said}");
}

/// `rex` where the programs look for their files: below the sandbox.
fn rex(place: &McpWorkspace, arguments: &[&str]) -> (i32, String, String) {
    let mut command = place.command(REX);
    let run = command.env_remove("XDG_CONFIG_HOME").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (run.status.code().unwrap(), text(&run.stdout), text(&run.stderr))
}

#[test]
fn the_own_tools_of_an_agent_are_turned_off_and_on_again() {
    for (client, servers, settings, set) in [
        ("claude", ".claude.json", ".claude/settings.json", "\"Monitor\""),
        ("codex", ".codex/config.toml", ".codex/config.toml", "view_image = false"),
        ("opencode", ".config/opencode/opencode.json", ".config/opencode/opencode.json", "\"bash\": false"),
        ("gemini", ".gemini/settings.json", ".gemini/settings.json", "\"run_shell_command\""),
        ("zed", ".config/zed/settings.json", ".config/zed/settings.json", "\"default_profile\": \"rex\""),
    ] {
        let place = McpWorkspace::open();
        let (servers, settings) = (format!("home/{servers}"), format!("home/{settings}"));
        let before = match client {
            "codex" => "model = \"x\"\n",
            "claude" => "{\n  \"permissions\": {\n    \"deny\": [\"Read\"]\n  }\n}\n",
            _ => "{\n  // mine\n  \"a\": 1\n}\n",
        };
        place.sandbox.write(&settings, before);
        let (status, shown, errors) = rex(&place, &["mcp", "install", client, "--only", "--dry-run"]);
        assert!(status == 0 && shown.contains(set), "{client}: {shown}{errors}");
        assert_eq!(place.sandbox.read(&settings), before, "{client}");
        let (status, _, errors) = rex(&place, &["mcp", "install", client, "--only", "--yes"]);
        assert_eq!(status, 0, "{errors}");
        let is_named = errors.contains("no setting that turns off `apply_patch`");
        assert_eq!(is_named, client == "codex", "{client}: {errors}");
        assert!(
            place.sandbox.read(&servers).contains(REX) && place.sandbox.read(&settings).contains(set),
            "{client}"
        );
        let (status, said, _) = rex(&place, &["mcp", "install", client, "--only", "--yes"]);
        assert!(status == 0 && said.contains("is up to date"), "{client}: {said}");
        let (status, _, errors) = rex(&place, &["mcp", "uninstall", client, "--yes"]);
        assert_eq!(status, 0, "{errors}");
        assert!(!place.sandbox.read(&servers).contains(REX), "{client}");
        let plain = |text: &str| text.replace([' ', '\n'], "");
        assert_eq!(plain(&place.sandbox.read(&settings)), plain(before), "{client}");
        let (status, said, _) = rex(&place, &["mcp", "uninstall", client, "--yes"]);
        assert!(status == 0 && said.contains("is up to date"), "{client}: {said}");
    }
}

#[test]
fn a_record_is_removed_although_no_file_changes() {
    let place = McpWorkspace::open();
    let run = |arguments: &[&str]| {
        let (status, _, errors) = rex(&place, arguments);
        assert_eq!(status, 0, "{errors}");
    };
    let settings = "home/.codex/config.toml";
    run(&["mcp", "install", "codex", "--only", "--yes"]);
    place.sandbox.write(settings, "[features]\nshell_tool = true\n");
    run(&["mcp", "uninstall", "codex", "--dry-run"]);
    run(&["mcp", "uninstall", "codex", "--yes"]);
    // The user's own setting is not one of the record that was removed.
    place.sandbox.write(settings, "[features]\nshell_tool = false\n");
    run(&["mcp", "install", "codex", "--yes"]);
    run(&["mcp", "uninstall", "codex", "--yes"]);
    assert!(place.sandbox.read(settings).contains("shell_tool = false"));
}

#[test]
fn the_last_of_two_installations_turns_the_own_tools_on_again() {
    for (client, settings, set) in [
        ("claude", "home/.claude/settings.json", "\"Bash\""),
        ("codex", "home/.codex/config.toml", "shell_tool = false"),
    ] {
        for [first, last] in [["rex", "web"], ["web", "rex"]] {
            let place = McpWorkspace::open();
            let run = |command: &str, name: &str, more: &[&str]| {
                let arguments = [&["mcp", command, client, "--name", name, "--yes"], more].concat();
                let (status, _, errors) = rex(&place, &arguments);
                assert_eq!(status, 0, "{errors}");
                place.sandbox.read(settings)
            };
            run("install", "rex", &["--only"]);
            run("install", "web", &["--only"]);
            assert!(run("uninstall", first, &[]).contains(set), "{client}: {first}");
            assert!(!run("uninstall", last, &[]).contains(set), "{client}: {last}");
        }
    }
}

#[test]
fn two_agents_that_share_a_file_have_their_own_records() {
    let place = McpWorkspace::open();
    for arguments in [
        ["mcp", "install", "claude", "--project", "--only", "--yes"].as_slice(),
        &["mcp", "install", "copilot", "--project", "--yes"],
        &["mcp", "uninstall", "copilot", "--project", "--yes"],
    ] {
        let (status, _, errors) = place.rex(arguments);
        assert_eq!(status, 0, "{errors}");
    }
    assert!(place.sandbox.read("root/.claude/settings.json").contains("\"Bash\""));
    let (status, _, errors) = place.rex(&["mcp", "uninstall", "claude", "--project", "--yes"]);
    assert_eq!(status, 0, "{errors}");
    assert!(!place.sandbox.read("root/.claude/settings.json").contains("\"Bash\""));
}

#[test]
fn agents_without_such_a_setting_are_named() {
    for client in ["cursor", "vscode", "windsurf", "copilot"] {
        let place = McpWorkspace::open();
        let (status, shown, errors) = rex(&place, &["mcp", "install", client, "--only", "--yes"]);
        assert!(status == 0 && shown.contains("wrote "), "{client}: {errors}");
        assert!(errors.contains("no setting that turns off its own shell"), "{client}: {errors}");
    }
    let (status, _, errors) =
        rex(&McpWorkspace::open(), &["mcp", "install", "windsurf", "--project", "--yes"]);
    assert!(status == 255 && errors.contains("without --project"), "{errors}");
}

#[test]
fn two_targets_are_installed_side_by_side_and_an_unknown_one_is_refused() {
    let place = McpWorkspace::open();
    let (status, _, errors) = rex(&place, &["target", "add", "web", "ssh:web-1"]);
    assert_eq!(status, 0, "{errors}");
    for (target, name) in [("local", "rex"), ("web", "web")] {
        let arguments = ["-t", target, "mcp", "install", "cursor", "--name", name, "--yes"];
        let (status, _, errors) = rex(&place, &arguments);
        assert_eq!(status, 0, "{errors}");
    }
    let file = || serde_json::from_str::<Value>(&place.sandbox.read("home/.cursor/mcp.json")).unwrap();
    assert_eq!(file()["mcpServers"]["rex"]["args"], json!(["-t", "local", "mcp"]));
    assert_eq!(file()["mcpServers"]["web"]["args"], json!(["-t", "web", "mcp"]));
    let (status, _, errors) = rex(&place, &["mcp", "uninstall", "cursor", "--name", "web", "--yes"]);
    assert_eq!(status, 0, "{errors}");
    assert_eq!(file()["mcpServers"].as_object().unwrap().len(), 1);
    for refused in [
        ["-t", "nowhere", "mcp", "install", "cursor", "--name", "x", "--yes"],
        ["-t", "web", "mcp", "install", "cursor", "--name", "a b", "--yes"],
    ] {
        let (status, _, errors) = rex(&place, &refused);
        assert!(status == 255 && errors.contains("hint"), "{errors}");
    }
    assert_eq!(file()["mcpServers"].as_object().unwrap().len(), 1);
}

#[test]
fn with_json_one_line_says_what_was_done() {
    let place = McpWorkspace::open();
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
    let place = McpWorkspace::open();
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
    let place = McpWorkspace::open();
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
    let place = McpWorkspace::open();
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
