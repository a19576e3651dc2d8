//! Decisions on variables, global options and relatives of `sudo`.

use std::path::Path;

use super::tests::{no_rm, policy, rule, run, shell, texts};
use super::*;

/// A policy that allows only `ls` and `rg`.
fn only_ls() -> Policy {
    policy(Verdict::Deny, vec![rule(Verdict::Allow, &["ls", "*"]), rule(Verdict::Allow, &["rg", "*"])])
}

#[test]
fn variables_of_the_request_count_like_shell_text_that_sets_them() {
    let decide = |policy: &Policy, name: &str, value: Option<&str>| {
        let env = [(name.to_owned(), value.map(str::to_owned))];
        let words = texts(&["ls"]);
        let operation =
            PolicyOperation::Run { line: CommandLine::Argv(&words), cwd: Path::new("/code"), env: &env };
        policy.decide(&PolicyQuery { operation, ..run(CommandLine::Argv(&words)) }).verdict
    };
    for (name, value) in [
        ("PATH", Some("/tmp")),
        ("PATH", None),
        ("LD_PRELOAD", Some("x.so")),
        ("GIT_CONFIG_COUNT", Some("1")),
        ("BASH_ENV", Some("f")),
        ("RIPGREP_CONFIG_PATH", Some("f")),
        ("SOME_UNKNOWN_NAME", Some("1")),
        ("lower", Some("1")),
    ] {
        assert_eq!(decide(&only_ls(), name, value), Verdict::Deny, "{name}");
    }
    for name in ["LC_ALL", "TERM", "NO_COLOR", "CI"] {
        assert_eq!(decide(&only_ls(), name, Some("C")), Verdict::Allow, "{name}");
    }
    // A policy that allows by default refuses only values that run as code, or as a denied command.
    for (name, value, verdict) in [
        ("SOME_UNKNOWN_NAME", "1", Verdict::Allow),
        ("LD_PRELOAD", "x.so", Verdict::Deny),
        ("PAGER", "rm x", Verdict::Deny),
        ("PAGER", "cat", Verdict::Allow),
    ] {
        assert_eq!(decide(&no_rm(), name, Some(value)), verdict, "{name}={value}");
    }
    let mut named = rule(Verdict::Allow, &["ls", "*"]);
    named.env = vec![Glob::new("RUST_LOG"), Glob::new("MY_*")];
    let named = policy(Verdict::Deny, vec![named]);
    assert_eq!(decide(&named, "RUST_LOG", Some("debug")), Verdict::Allow);
    assert_eq!(decide(&named, "MY_FLAG", Some("1")), Verdict::Allow);
    assert_eq!(decide(&named, "PATH", Some("/tmp")), Verdict::Deny);
}

#[test]
fn a_line_that_may_set_a_variable_matches_no_rule_that_allows() {
    for line in [
        "echo $((PATH=5)); ls",
        "ls $((PATH=5))",
        "x='PATH=5'; ls $((x))",
        "ls $((x++))",
        "printf -v PATH /tmp; ls",
        "printf -vPATH /tmp; ls",
        "[[ PATH=5 -eq 5 ]]; ls",
        "x='PATH=5'; [[ $x -eq 5 ]]; ls",
        "[[ -v a[PATH=5] ]]; ls",
        "ls ${a[PATH=5]}",
        "ls ${a:PATH=5}",
        "ls ${#a[PATH=5]}",
        "ls ${a:0:PATH=5}",
        "ls ${!x}",
        "ls ${PATH:=/tmp}",
        "ls ${PATH=/tmp}",
        "read PATH; ls",
        "read -r -a PATH; ls",
        "read \"$x\"; ls",
        "mapfile -t PATH; ls",
        "getopts a PATH; ls",
        "let PATH=5; ls",
        "let x; ls",
        "unset PATH; ls",
        "declare -i x=PATH=5; ls",
        "declare -n x=PATH; x=5; ls",
        "export -n PATH; ls",
        "declare 'a[PATH=5]=1'; ls",
        "wait -p PATH; ls",
        "for PATH in /tmp; do ls; done",
        "select PATH in /tmp; do ls; done",
        "exec {PATH}>f; ls",
        "ls {PATH}>f",
        "set -a; RIPGREP_CONFIG_PATH=f; rg x",
        "RIPGREP_CONFIG_PATH=f rg x",
        "export RIPGREP_CONFIG_PATH=f; rg x",
        "UNKNOWN=1; ls",
        "unknown=1 ls",
        "env unknown=1 ls",
    ] {
        let only = policy(
            Verdict::Deny,
            [
                "ls", "rg", "echo", "printf", "[[", "read", "mapfile", "getopts", "let", "unset", "declare",
                "export", "wait", "exec", "set", "env",
            ]
            .iter()
            .map(|name| rule(Verdict::Allow, &[name, "*"]))
            .collect(),
        );
        assert_eq!(shell(&only, line), Verdict::Deny, "{line}");
    }
}

#[test]
fn ordinary_variables_of_a_shell_do_not_hinder_a_rule_that_allows() {
    let only = policy(
        Verdict::Deny,
        ["ls", "cat", "[", "echo", "read"].iter().map(|name| rule(Verdict::Allow, &[name, "*"])).collect(),
    );
    for line in [
        "for f in a b; do cat $f; done",
        "name=x; ls $name",
        "read -r line; echo $line",
        "LC_ALL=C ls",
        "echo ${x:-y} ${x#a} ${x:1:2} ${x: -1} ${#x} ${a[0]} ${a[@]} $((1 + 2))",
        "[ -n \"$x\" ] && [ $x -lt 2 ] && ls",
    ] {
        assert_eq!(shell(&only, line), Verdict::Allow, "{line}");
    }
}

#[test]
fn rules_that_refuse_match_behind_global_options() {
    let no_push = policy(
        Verdict::Allow,
        vec![rule(Verdict::Deny, &["git", "push", "*"]), rule(Verdict::Deny, &["kubectl", "delete", "*"])],
    );
    for line in [
        "git -C . push",
        "git --no-pager push",
        "git -P push origin",
        "git -C . -c user.name=x --no-pager push",
        "git --git-dir=x push",
        "git --git-dir x push",
        "kubectl -n prod delete pod x",
        "kubectl --context=a -n prod delete pod x",
    ] {
        assert_eq!(shell(&no_push, line), Verdict::Deny, "{line}");
    }
    for line in ["git status push", "git -C . status", "git log push", "kubectl -n prod get pods"] {
        assert_eq!(shell(&no_push, line), Verdict::Allow, "{line}");
    }
    let only_push = policy(Verdict::Deny, vec![rule(Verdict::Allow, &["git", "push", "*"])]);
    assert_eq!(
        shell(&only_push, "git -C /other push"),
        Verdict::Deny,
        "a rule that allows matches as written"
    );
}

#[test]
fn the_list_for_sudo_covers_its_relatives_and_options() {
    let settings = PolicySettings {
        sudo: Some(vec![ArgvPattern::new(&texts(&["systemctl", "restart", "app"])).unwrap()]),
        ..PolicySettings::default()
    };
    let listed = Policy::new(settings).unwrap();
    for line in
        ["sudo systemctl restart app", "sudo -n -u root systemctl restart app", "run0 systemctl restart app"]
    {
        assert_eq!(shell(&listed, line), Verdict::Allow, "{line}");
    }
    for line in [
        "sudo rm x",
        "sudoedit /etc/passwd",
        "sudo -e /etc/passwd",
        "PATH=/tmp sudo systemctl restart app",
        "sudo PATH=/tmp systemctl restart app",
        "sudo -R /tmp systemctl restart app",
        "sudo --chroot=/tmp systemctl restart app",
        "sudo -D /tmp systemctl restart app",
        "sudo-rs rm x",
        "run0 rm x",
        "run0",
        "doas rm x",
        "doas -s",
        "pkexec rm x",
        "pkexec",
    ] {
        assert_ne!(shell(&listed, line), Verdict::Allow, "{line}");
    }
}
