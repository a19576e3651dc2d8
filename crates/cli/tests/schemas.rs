//! What `rex tools` prints: every form whole, and the same whatever targets there are.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

use serde_json::Value;
use testkit::sandbox::Sandbox;

const REX: &str = env!("CARGO_BIN_EXE_rex");
const NAMES: [&str; 12] = [
    "bash",
    "bash_output",
    "bash_input",
    "kill",
    "read",
    "write",
    "edit",
    "patch",
    "list",
    "glob",
    "grep",
    "stat",
];

fn tools(sandbox: &Sandbox, format: &str) -> Vec<u8> {
    let run = sandbox.command(REX).args(["tools", "--format", format]).output().expect("rex runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

#[test]
fn every_form_names_every_tool_with_a_closed_schema() {
    let sandbox = Sandbox::new();
    for (format, name, schema) in [
        ("openai", "/function/name", "/function/parameters"),
        ("anthropic", "/name", "/input_schema"),
        ("json-schema", "/name", "/inputSchema"),
    ] {
        let all: Vec<Value> = serde_json::from_slice(&tools(&sandbox, format)).unwrap();
        let names: Vec<_> = all.iter().map(|tool| tool.pointer(name).unwrap().as_str().unwrap()).collect();
        assert_eq!(names, NAMES, "{format}");
        for tool in &all {
            let schema = tool.pointer(schema).unwrap();
            assert_eq!(schema["type"], "object", "{tool}");
            assert_eq!(schema["additionalProperties"], false, "{tool}");
            let properties = schema["properties"].as_object().unwrap();
            assert!(properties.values().all(|property| property["description"].is_string()), "{tool}");
            for required in schema["required"].as_array().unwrap() {
                assert!(properties.contains_key(required.as_str().unwrap()), "{tool}");
            }
        }
    }
}

#[test]
fn the_arguments_are_those_that_were_agreed() {
    let sandbox = Sandbox::new();
    let all: Vec<Value> = serde_json::from_slice(&tools(&sandbox, "json-schema")).unwrap();
    let arguments = |name: &str| {
        let tool = all.iter().find(|tool| tool["name"] == name).unwrap();
        let required: Vec<_> = tool["inputSchema"]["required"].as_array().unwrap().iter().collect();
        let mark = |key: &String| match required.iter().any(|name| name.as_str() == Some(key)) {
            true => key.clone(),
            false => format!("{key}?"),
        };
        tool["inputSchema"]["properties"].as_object().unwrap().keys().map(mark).collect::<Vec<_>>().join(" ")
    };
    for (name, expected) in [
        ("bash", "background? command cwd? detach? timeout_ms?"),
        ("bash_output", "cursor? process_id until? wait_ms?"),
        ("bash_input", "data eof? process_id"),
        ("kill", "process_id signal?"),
        ("read", "limit? offset? path"),
        ("write", "content path"),
        ("edit", "new_string old_string path replace_all?"),
        ("patch", "patch_text"),
        ("list", "path?"),
        ("glob", "path? pattern"),
        ("grep", "context? include? multiline? output_mode? path? pattern"),
        ("stat", "path"),
    ] {
        assert_eq!(arguments(name), expected, "{name}");
    }
}

#[test]
fn schemas_are_the_same_bytes_for_one_target_and_for_ten() {
    let sandbox = Sandbox::new();
    let registry = |count: usize| {
        let targets: serde_json::Map<String, Value> = (0..count)
            .map(|n| {
                (format!("host-{n}"), serde_json::json!({ "transport": "ssh", "host": format!("h{n}") }))
            })
            .collect();
        let text = serde_json::json!({ "targets": targets }).to_string();
        sandbox.write("home/config/rexd/targets.json", text);
    };
    for format in ["openai", "anthropic", "json-schema"] {
        registry(1);
        let one = tools(&sandbox, format);
        registry(10);
        assert_eq!(one, tools(&sandbox, format), "{format}");
        assert!(!String::from_utf8(one).unwrap().contains("host-"), "{format} names a host");
    }
}
