//! Any text as a command gets a decision without a panic, and a command that cannot be parsed is never allowed.
#![no_main]

use std::sync::LazyLock;

use daemon::config::{Config, ConfigArgs, Paths};
use engine::policy::{PolicyQuery, CommandLine, Decision, PolicyOperation, Verdict};
use libfuzzer_sys::fuzz_target;

const RULES: &str = r#"
[policy]
default = "allow"
[[policy.rules]]
name = "no-removal"
action = "deny"
argv = ["rm", "*"]
[[policy.rules]]
name = "no-privilege"
action = "deny"
class = "privilege"
"#;

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    Config::parse(RULES, std::path::Path::new("rules"), &ConfigArgs::default(), &Paths::default()).expect("rules")
});

fn decide(line: CommandLine<'_>) -> Decision {
    let operation = PolicyOperation::Run { line, cwd: std::path::Path::new("/work"), env: &[] };
    CONFIG.policy.decide(&PolicyQuery { face: "rexd", client: "fuzzer", caller: "uid:1000", operation })
}

fuzz_target!(|line: &str| {
    let judged = decide(CommandLine::Shell { line, login: false });
    let plain = line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    decide(CommandLine::Argv(&plain));
    let removes = decide(CommandLine::Shell { line: &format!("rm -rf x\n{line}"), login: false });
    assert_ne!(removes.verdict, Verdict::Allow, "{line:?} hides a command before it; alone it is {judged:?}");
});
