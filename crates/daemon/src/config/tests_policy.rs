//! Parsing of `[policy]` and `[environment]`.

use engine::policy::{CommandLine, PathAccess, PolicyOperation, PolicyQuery, Verdict};
use std::path::Path;

use super::tests::{read, refusal};

#[test]
fn an_invalid_rule_is_refused_with_line_and_column() {
    let table = [
        (
            "[policy]\ndefault = \"maybe\"",
            "c.toml:2:11: policy.default must be one of \"allow\", \"ask\", \"deny\"",
        ),
        (
            "[[policy.rules]]\naction = \"deny\"",
            "c.toml:1:1: rule \"rule 1\" needs one of argv, class and paths",
        ),
        ("[[policy.rules]]\nargv = [\"a\"]", "c.toml:1:1: rule \"rule 1\" needs an action"),
        (
            "[[policy.rules]]\naction = \"deny\"\nargv = [\"a\"]\nclass = \"build\"",
            "c.toml:1:1: rule \"rule 1\" has more than one of argv, class and paths",
        ),
        (
            "[[policy.rules]]\naction = \"deny\"\nclass = \"fun\"",
            "c.toml:3:9: policy.rules[0].class must be one of ",
        ),
        (
            "[[policy.rules]]\naction = \"deny\"\npaths = [\"/a\"]\ncwd = [\"/b\"]",
            "c.toml:1:1: rule \"rule 1\" has both paths and cwd",
        ),
        (
            "[[policy.rules]]\naction = \"deny\"\nargv = [\"a\", \"*\"]\naccess = \"read\"",
            "c.toml:4:10: rule \"rule 1\" has access but no paths",
        ),
        (
            "[[policy.rules]]\naction = \"deny\"\npaths = [\"/a/../b\"]",
            "c.toml:3:10: \"/a/../b\" matches no path",
        ),
        (
            "[[policy.rules]]\naction = \"deny\"\nclass = \"build\"\nfaces = []",
            "c.toml:4:9: policy.rules[0].faces is empty; omit it to match any",
        ),
        (
            "[[policy.rules]]\naction = \"deny\"\npaths = [\"/a\"]\nexamples_match = [{ eat = \"/a\" }]",
            "c.toml:4:19: an example of a rule on files must be a path, ",
        ),
        (
            "[[policy.rules]]\naction = \"deny\"\npaths = [\"/a\"]\nexamples_match = [\"/b\"]",
            "c.toml:1:1: rule \"rule 1\" does not match its example \"/b\"",
        ),
        (
            "[policy]\nfiles_default = \"maybe\"",
            "c.toml:2:17: policy.files_default must be one of \"allow\", \"ask\", \"deny\"",
        ),
        (
            "[policy.sudo]\nallow = [\"ls\"]",
            "c.toml:2:10: policy.sudo.allow must be an array of arrays of strings, not string",
        ),
    ];
    for (text, expected) in table {
        let found = refusal(text);
        assert!(found.starts_with(expected), "{text:?}\n  gave     {found}\n  expected {expected}");
    }
}

#[test]
fn rules_on_files_support_the_home_directory_and_conditions() {
    let text = r#"
[policy]
files_default = "ask"
[[policy.rules]]
name = "keys"
action = "deny"
paths = ["~/.ssh/**", "**/.env"]
faces = ["rexd"]
examples_match = ["~/.ssh/id", { write = "/a/.env" }]
examples_no_match = ["/a/env"]
[[policy.rules]]
action = "allow"
paths = ["/code/**"]
acess = "read"
"#;
    let config = read(text).unwrap();
    assert!(config.warnings[0].contains("did you mean access?"), "{:?}", config.warnings);
    let decide = |face, path: &str| {
        let touched = [PathAccess::read(Path::new(path))];
        let asked =
            PolicyQuery { face, client: "", caller: "uid:1", operation: PolicyOperation::Files(&touched) };
        config.policy.decide(&asked).verdict
    };
    assert_eq!(decide("rexd", "/home/u/.ssh/id"), Verdict::Deny);
    assert_eq!(decide("codex", "/home/u/.ssh/id"), Verdict::Ask);
    assert_eq!((decide("rexd", "/code/.env"), decide("rexd", "/code/a")), (Verdict::Deny, Verdict::Allow));
    let lines: Vec<_> = config.policy.settings().rules.iter().map(|rule| rule.line).collect();
    assert_eq!(lines, [Some(4), Some(11)]);
}

#[test]
fn rules_are_parsed_and_their_examples_tested() {
    let text = r#"
[policy]
default = "ask"
[[policy.rules]]
name = "no pushing"
action = "deny"
argv = ["git", "push", "*"]
reason = "people push"
examples_match = [["git", "push"], "cd x && git push -f"]
examples_no_match = ["git pull"]
[[policy.rules]]
action = "allow"
class = "read-only"
[policy.sudo]
allow = [["systemctl", "restart", "*"]]
[environment]
remove = ["*_SECRET"]
keep = ["MY_SECRET"]
set = { LANG = "C" }
"#;
    let config = read(text).unwrap();
    let decide = |line| {
        let line = CommandLine::Shell { line, login: false };
        let operation = PolicyOperation::Run { line, cwd: Path::new("/code"), env: &[] };
        config.policy.decide(&PolicyQuery { face: "rexd", client: "", caller: "uid:1", operation })
    };
    assert_eq!(decide("git push").verdict, Verdict::Deny);
    assert_eq!(decide("git push").reason, "people push");
    assert_eq!(decide("ls").verdict, Verdict::Allow);
    assert_eq!(decide("make").verdict, Verdict::Ask);
    assert_eq!(decide("sudo systemctl restart x").verdict, Verdict::Allow);
    assert!(!config.policy.environment().inherits("A_SECRET"));
    assert!(config.policy.environment().inherits("MY_SECRET"));
    let wrong = text.replace("\"git pull\"", "\"git push\"");
    assert_eq!(refusal(&wrong), "c.toml:4:1: rule \"no pushing\" matches its example \"git push\"");
}

#[test]
fn a_deny_rule_without_a_star_gets_a_warning() {
    let config = read("[[policy.rules]]\naction = \"deny\"\nargv = [\"rm\"]\n").unwrap();
    assert!(config.warnings[0].contains("end argv with \"*\""), "{:?}", config.warnings);
}
