//! Rules on files, conditions and explanations.

use std::path::Path;

use proptest::prelude::*;

use super::tests::{argv, policy, rule, run, shell, texts};
use super::*;

fn on_paths(verdict: Verdict, access: RuleAccess, globs: &[&str]) -> Rule {
    let globs: Vec<_> = globs.iter().map(|text| PathGlob::new(text).unwrap()).collect();
    Rule::new("paths", verdict, Matcher::Paths { globs, access })
}

fn named(name: &str, rule: Rule) -> Rule {
    Rule { name: name.into(), ..rule }
}

fn files(policy: &Policy, touched: &[PathAccess<'_>]) -> Decision {
    policy.decide(&PolicyQuery {
        face: "rexd",
        client: "agent",
        caller: "uid:1000",
        operation: PolicyOperation::Files(touched),
    })
}

fn secrets() -> Policy {
    policy(
        Verdict::Allow,
        vec![
            named("example", on_paths(Verdict::Allow, RuleAccess::Any, &["**/.env.example"])),
            named("env", on_paths(Verdict::Deny, RuleAccess::Any, &["**/.env*", "/srv/app/secrets/**"])),
            named("removal", on_paths(Verdict::Ask, RuleAccess::Remove, &["/srv/**"])),
            named("etc", on_paths(Verdict::Deny, RuleAccess::Write, &["/etc/**"])),
        ],
    )
}

#[test]
fn the_first_rule_on_path_and_access_decides_on_files() {
    let policy = secrets();
    let read = |path: &str| files(&policy, &[PathAccess::read(Path::new(path))]).verdict;
    let write = |path: &str| files(&policy, &[PathAccess::write(Path::new(path))]).verdict;
    let remove = |path: &str| files(&policy, &[PathAccess::remove(Path::new(path))]).verdict;
    assert_eq!(read("/code/.env"), Verdict::Deny);
    assert_eq!(read("/code/.env.example"), Verdict::Allow);
    assert_eq!(read("/srv/app/secrets"), Verdict::Deny);
    assert_eq!(read("/srv/app/x/../secrets/key"), Verdict::Deny);
    assert_eq!(read("/srv/app/readme"), Verdict::Allow);
    assert_eq!((write("/srv/app/readme"), remove("/srv/app/readme")), (Verdict::Allow, Verdict::Ask));
    assert_eq!(
        (read("/etc/hosts"), write("/etc/hosts"), remove("/etc/hosts")),
        (Verdict::Allow, Verdict::Deny, Verdict::Deny)
    );
}

#[test]
fn the_strictest_verdict_on_any_file_wins() {
    let policy = secrets();
    let (free, asked, denied) = (Path::new("/code/a"), Path::new("/srv/a"), Path::new("/code/.env"));
    let decision =
        files(&policy, &[PathAccess::write(free), PathAccess::remove(asked), PathAccess::read(denied)]);
    assert_eq!((decision.verdict, &*decision.rule, decision.risk), (Verdict::Deny, "env", Risk::High));
    let decision = files(&policy, &[PathAccess::write(free), PathAccess::remove(asked)]);
    assert_eq!((decision.verdict, &*decision.rule), (Verdict::Ask, "removal"));
    assert_eq!(decision.reason, "rule \"removal\" matches `remove /srv/a`");
    assert_eq!(files(&policy, &[]).verdict, Verdict::Allow);
}

#[test]
fn a_recursive_access_is_refused_if_a_file_below_may_match() {
    let one =
        policy(Verdict::Allow, vec![on_paths(Verdict::Deny, RuleAccess::Any, &["/srv/app/secrets/**"])]);
    let tree = |path: &str| files(&one, &[PathAccess::remove(Path::new(path)).recursive()]).verdict;
    assert_eq!(
        (tree("/srv/app"), tree("/srv"), tree("/srv/app/secrets/x")),
        (Verdict::Deny, Verdict::Deny, Verdict::Deny)
    );
    assert_eq!((tree("/srv/app/logs"), tree("/home")), (Verdict::Allow, Verdict::Allow));
    // A recursive access is allowed only if everything below is.
    let settings = PolicySettings {
        rules: vec![on_paths(Verdict::Allow, RuleAccess::Any, &["/code/**", "/data/*"])],
        files_default: Verdict::Deny,
        ..PolicySettings::default()
    };
    let listed = Policy::new(settings).unwrap();
    let tree = |path: &str| files(&listed, &[PathAccess::remove(Path::new(path)).recursive()]).verdict;
    assert_eq!((tree("/code/x"), tree("/data/x"), tree("/")), (Verdict::Allow, Verdict::Deny, Verdict::Deny));
}

#[test]
fn files_are_allowed_unless_a_rule_or_the_default_restricts_them() {
    assert!(!Policy::default().restricts_files());
    assert!(!policy(Verdict::Deny, vec![rule(Verdict::Deny, &["rm", "*"])]).restricts_files());
    assert!(secrets().restricts_files());
    let settings = PolicySettings { files_default: Verdict::Ask, ..PolicySettings::default() };
    let asking = Policy::new(settings).unwrap();
    assert!(asking.restricts_files());
    let decision = files(&asking, &[PathAccess::write(Path::new("/a"))]);
    assert_eq!((decision.verdict, &*decision.rule, decision.risk), (Verdict::Ask, "default", Risk::Medium));
    // Rules on files do not apply to commands, not even to those that cannot be analyzed.
    assert_eq!(shell(&secrets(), "$x; cat /code/.env"), Verdict::Allow);
}

#[test]
fn conditions_restrict_a_rule_to_faces_clients_and_callers() {
    let glob = |text: &str| vec![Glob::new(text)];
    let mut pushing = rule(Verdict::Deny, &["git", "push", "*"]);
    pushing.conditions = Conditions {
        faces: glob("codex"),
        clients: glob("bot-*"),
        callers: glob("token:*"),
        cwd: Vec::new(),
    };
    let policy = policy(Verdict::Allow, vec![pushing]);
    let words = texts(&["git", "push"]);
    let ask = |face, client, caller, line| {
        let operation = PolicyOperation::Run { line, cwd: Path::new("/"), env: &[] };
        policy.decide(&PolicyQuery { face, client, caller, operation }).verdict
    };
    let push = || CommandLine::Argv(&words);
    assert_eq!(ask("codex", "bot-1", "token:ci", push()), Verdict::Deny);
    assert_eq!(ask("rexd", "bot-1", "token:ci", push()), Verdict::Allow);
    assert_eq!(ask("codex", "human", "token:ci", push()), Verdict::Allow);
    assert_eq!(ask("codex", "bot-1", "uid:0", push()), Verdict::Allow);
    // A line that cannot be analyzed is refused only to callers that a rule could refuse a command.
    let unseen = || CommandLine::Shell { line: "$x", login: false };
    assert_eq!(ask("codex", "bot-1", "token:ci", unseen()), Verdict::Deny);
    assert_eq!(ask("rexd", "bot-1", "token:ci", unseen()), Verdict::Allow);
}

#[test]
fn a_directory_that_changes_may_be_any_directory() {
    let mut making = rule(Verdict::Allow, &["make", "*"]);
    making.conditions.cwd = vec![PathGlob::new("/code/**").unwrap()];
    let allows = policy(Verdict::Deny, vec![making, rule(Verdict::Allow, &["cd", "*"])]);
    assert_eq!(argv(&allows, &["make"]), Verdict::Allow);
    assert_eq!(shell(&allows, "timeout 5 make"), Verdict::Allow);
    for line in ["cd /tmp && make", "env -C /tmp make", "pushd /tmp; make"] {
        assert_eq!(shell(&allows, line), Verdict::Deny, "{line}");
    }
    let mut removing = rule(Verdict::Deny, &["rm", "*"]);
    removing.conditions.cwd = vec![PathGlob::new("/srv/**").unwrap()];
    let denies = policy(Verdict::Allow, vec![removing]);
    assert_eq!(shell(&denies, "rm x"), Verdict::Allow);
    for line in
        ["cd /srv && rm x", "env -C /srv rm x", "(cd /srv; rm x)", "find /srv -execdir rm {} ';'", "$x"]
    {
        assert_eq!(shell(&denies, line), Verdict::Deny, "{line}");
    }
}

#[test]
fn risk_depends_on_the_classes_of_commands() {
    let of = |line: &str| {
        let line = CommandLine::Shell { line, login: false };
        risk(&PolicyOperation::Run { line, cwd: Path::new("/"), env: &[] })
    };
    assert_eq!((of("ls | wc"), of("cargo test")), (Risk::Low, Risk::Low));
    assert_eq!((of("curl x"), of("some-tool"), of("ls > f")), (Risk::Medium, Risk::Medium, Risk::Medium));
    assert_eq!(
        (of("ls; rm -rf x"), of("sudo ls"), of("$x"), of("((")),
        (Risk::High, Risk::High, Risk::High, Risk::High)
    );
}

#[test]
fn an_explanation_shows_every_command_and_the_rules_that_were_checked() {
    let rules = vec![
        rule(Verdict::Allow, &["git", "status"]),
        rule(Verdict::Ask, &["git", "push", "*"]),
        Rule::new("no builds", Verdict::Deny, Matcher::Class(Class::Build)),
    ];
    let policy = policy(Verdict::Allow, rules);
    let explained = policy.explain(&run(CommandLine::Shell { line: "ls && env git push", login: false }));
    let found: Vec<_> = explained.subjects.iter().map(|subject| subject.what.as_str()).collect();
    assert_eq!(found, ["ls", "env git push", "git push"]);
    let findings: Vec<_> = explained.subjects[2].steps.iter().map(|step| step.finding).collect();
    assert_eq!(findings, [Finding::OtherArguments, Finding::Decides]);
    assert_eq!(explained.subjects[0].steps.len(), 3);
    assert_eq!(explained.subjects[0].classes, ["read-only"]);
    assert_eq!((explained.decision.verdict, &*explained.decision.rule), (Verdict::Ask, "git push *"));
    let env = Path::new("/a/.env");
    let touched = [PathAccess::read(env)];
    let operation = PolicyOperation::Files(&touched);
    let explained = secrets().explain(&PolicyQuery { face: "rexd", client: "", caller: "", operation });
    let findings: Vec<_> = explained.subjects[0].steps.iter().map(|step| step.finding).collect();
    assert_eq!(findings, [Finding::OtherPath, Finding::Decides]);
}

/// A policy with all kinds of rules, to test the index.
fn mixed() -> Policy {
    policy(
        Verdict::Ask,
        vec![
            rule(Verdict::Allow, &["git", "status", "*"]),
            rule(Verdict::Deny, &["r*", "-rf", "*"]),
            Rule::new("reading", Verdict::Allow, Matcher::Class(Class::ReadOnly)),
            rule(Verdict::Deny, &["/usr/bin/git", "push", "*"]),
            rule(Verdict::Allow, &["git", "push", "*"]),
            named("a", on_paths(Verdict::Allow, RuleAccess::Read, &["/a/b/**", "**/c"])),
            named("b", on_paths(Verdict::Deny, RuleAccess::Any, &["/a/**", "/b/*/c"])),
            named("c", on_paths(Verdict::Ask, RuleAccess::Write, &["**/d", "**/*c*"])),
        ],
    )
}

proptest! {
    #[test]
    fn the_index_never_changes_a_decision(
        words in prop::collection::vec(prop::sample::select(vec![
            "git", "/usr/bin/git", "rm", "ls", "push", "status", "-rf", ";", "$x", "env", "sudo", "|",
        ]), 1..6),
    ) {
        let (policy, line) = (mixed(), words.join(" "));
        let query = run(CommandLine::Shell { line: &line, login: false });
        prop_assert_eq!(policy.decide(&query), policy.explain(&query).decision, "{}", line);
    }

    #[test]
    fn the_index_of_paths_never_changes_a_decision(
        path in "(/[a-d]{1,2}){0,4}", access in 0..3_usize, tree: bool,
    ) {
        let path = if path.is_empty() { "/" } else { &path };
        let touched = [PathAccess { path: Path::new(path), access: Access::NAMES[access].1, is_recursive: tree }];
        let operation = PolicyOperation::Files(&touched);
        let query = PolicyQuery { face: "rexd", client: "", caller: "", operation };
        prop_assert_eq!(mixed().decide(&query), mixed().explain(&query).decision, "{:?}", touched);
    }
}
