//! The policy against real shells: whatever a shell runs when it is given a text, the policy has seen before.
//!
//! Random texts are given to every shell of this machine with nothing on its `PATH` but a marker called `rm`. If the
//! marker ran, a policy that denies `rm` must not have allowed the text.

#![expect(clippy::unwrap_used, reason = "a test whose tools fail has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use engine::policy::{
    ArgvPattern, Asked, CommandLine, Matcher, Operation, Policy, PolicySettings, Rule, Verdict,
};
use proptest::prelude::*;

#[rustfmt::skip]
const PARTS: &[&str] = &[
    "rm", "rm x", "rm x\n", "rm x;", "\nrm x\n", " ", " ", " ", "\n", "\n", ";", "&", "&&", "||", "|", "(", ")", "{ ", "; }", "<", ">",
    "<<", "<<-", "<<<", "EOF", "\nEOF\n", "\n\tEOF\n", ": <<EOF\n", ": <<'EOF'\n", ": <<-EOF\n", ": <<E\\OF\n", "E", "'", "'", "\"",
    "\"", "`", "`", "$", "$(", "\"$(", ")\"", "$((", "$((1<<", "((1<<", "))", "${", "${x:-", "${x#", "}", "\\", "\\\n", "#", "=", "x=",
    "x=(", "x", "if true; then ", "else ", "; fi", "for x in 1; do ", "; done", "while ", "case x in x) ", "x) ", ";;", ";; esac", "!",
    "~", "*", "1", "2", "[", "]", "[[ ", " ]]", "time ", "function f ", "f() ", "f", "eval ", "true", "true ", "echo ", ": ", "exec ",
    "command ", "&>", ">&", "2>&1", "\t", "$'", "@", "{rm,x}", "r", "m", "set -- rm;", "\"$@\"", "$x", "trap ", " EXIT", "((", "+",
    "a[", ",", "x='rm x';", "x='a[$(rm)]';", "alias f=rm\n", "\r", "\u{b}", "\u{a0}",
];

/// Texts near the border between running and only mentioning `rm`, to be changed at random.
#[rustfmt::skip]
const SEEDS: &[&str] = &[
    "echo a &>b rm x", "echo 'rm x'", "echo \"rm x\"", ": <<EOF\nrm x\nEOF\n", ": <<'EOF'\n$(rm x)\nEOF\n", ": <<-EOF\n\trm x\n\tEOF\n",
    ": <<A <<B\nA\nrm x\nB\n", "((x<<2))\nrm x\n2", "echo $((1<<2))\n: rm x\n2", "echo $'a\\'; rm x; '", "# rm x\n:", "echo a # rm x",
    "echo a#; : rm x", "x='rm x'; : $x", "x='a[$(rm x)]'; : $((x))", "case rm in rm) : ;; esac", "case x in rm x) : ;; esac", ": ${x:-rm x}",
    ": \"${x:-'rm x'}\"", ": `: rm x`", ": \"`: \\\"rm x\\\"`\"", "f() { : rm x; }; f", "for rm in 1; do : $rm; done", "[[ a && rm ]]",
    "x=(rm x)", "echo \\\nrm x", "echo a\\; rm x", "echo a \\| rm x", ": > rm", ": 2>&1 rm x", "echo {rm,x}", "alias f=rm\n: f", "trap ': rm x' EXIT",
    "eval ': rm x'", "set -- rm; : $@", "if :; then : rm x; fi", "echo $(: rm x)", "time : rm x", "! : rm x", "{ : rm x; }", "( : rm x )", "cat <(: rm x)",
    ": \"a\\\"; rm x\"", "x=1 : rm x", "exec 3>a; : rm x", ": <<< 'rm x'", ": \"$(: \"rm x\")\"", "echo ${#x} rm x", ": '\n' rm x", "a=b\\\n: rm x",
];

/// A seed with a few parts put in, taken out or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(PARTS));
    (prop::sample::select(SEEDS), prop::collection::vec(change, 0..4)).prop_map(|(seed, changes)| {
        let mut text: Vec<char> = seed.chars().collect();
        for (at, way, part) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + 1 + usize::from(way == 3)).min(text.len());
            let put: Vec<char> = if way < 2 { part.chars().collect() } else { Vec::new() };
            text.splice(at..if way == 0 { at } else { end }, put);
        }
        text.into_iter().collect()
    })
}

fn no_rm() -> Policy {
    let matcher = Matcher::Argv(ArgvPattern::new(&["rm".to_owned(), "*".to_owned()]).unwrap());
    let rule = Rule::new("no rm", Verdict::Deny, matcher);
    Policy::new(PolicySettings { rules: vec![rule], ..PolicySettings::default() }).unwrap()
}

fn shells() -> Vec<PathBuf> {
    ["/bin/dash", "/bin/bash", "/bin/ksh", "/bin/mksh", "/bin/busybox"]
        .map(PathBuf::from)
        .into_iter()
        .filter(|p| p.exists())
        .collect()
}

/// Whether the shell ran the marker.
fn runs_marker(shell: &Path, text: &str, directory: &Path) -> bool {
    let marker = directory.join("marker");
    let work = directory.join("work");
    fs::remove_dir_all(&work).unwrap_or_default();
    fs::create_dir(&work).unwrap();
    let mut command = Command::new("/usr/bin/timeout");
    command.args(["-s", "KILL", "2"]).arg(shell);
    if shell.ends_with("busybox") {
        command.arg("sh");
    }
    let status = command
        .args(["-c", text])
        .env_clear()
        .env("PATH", directory.join("bin"))
        .env("MARKER", &marker)
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.unwrap();
    fs::remove_file(&marker).is_ok()
}

fn with_marker() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("bin")).unwrap();
    let rm = directory.path().join("bin/rm");
    fs::write(&rm, "#!/bin/sh\n: > \"$MARKER\"\n").unwrap();
    fs::set_permissions(&rm, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

#[test]
fn what_a_shell_runs_the_policy_has_seen() {
    let directory = with_marker();
    let (policy, shells) = (no_rm(), shells());
    let cases = std::env::var("POLICY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    let mixed = prop::collection::vec(prop::sample::select(PARTS), 1..12).prop_map(|parts| parts.concat());
    let texts = prop_oneof![1 => mixed, 4 => mutated()];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        max_global_rejects: 1_000_000,
        ..ProptestConfig::default()
    });
    runner
        .run(&texts, |text| {
            prop_assume!(text.contains('r') && text.contains('m'));
            let operation = Operation::Run {
                line: CommandLine::Shell { line: &text, login: false },
                cwd: Path::new("/work"),
            };
            let asked = Asked { face: "rexd", client: "agent", caller: "uid:1000", operation };
            let verdict = policy.decide(&asked).verdict;
            if verdict == Verdict::Allow {
                for shell in &shells {
                    prop_assert!(
                        !runs_marker(shell, &text, directory.path()),
                        "{} runs {text:?}",
                        shell.display()
                    );
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_marker_itself_works() {
    let directory = with_marker();
    for shell in shells() {
        assert!(runs_marker(&shell, "rm x", directory.path()), "{}", shell.display());
        assert!(!runs_marker(&shell, "echo rm", directory.path()), "{}", shell.display());
    }
}
