//! Tests of the routing rules: precedence, working directory, tokens and `ALIAS:` prefixes.

use std::path::Path;

use client::target::BearerToken;

use super::*;
use crate::route::project::Project;

const REGISTRY: &str = r#"{"version": 1, "targets": {
    "web": {"transport": "ssh", "host": "web.example", "user": "deploy", "defaultCwd": "/srv/web",
            "pathPrefixes": ["/home/me/web", {"from": "/home/me/mono/app", "to": "/srv/mono/app/"}]},
    "mono": {"transport": "ssh", "host": "mono.example", "pathPrefixes": ["/home/me/mono", "~/tilde"]},
    "api": {"transport": "ws", "url": "ws://api.example/ws", "tokenFile": "/nowhere/token"},
    "open": {"transport": "http", "url": "http://open.example"},
    "inline": {"transport": "http", "url": "http://inline.example", "token": "in-the-file"},
    "box": {"transport": "local", "workspaceRoots": ["/box", "/crate"]},
    "host": {"transport": "hub", "host": "host-a"},
    "other": {"transport": "hub", "host": "host-b", "url": "https://hub.example"}
}}"#;

/// A change that a test makes to the inputs.
type Change = fn(&mut Inputs);

/// Inputs with which only the default rule applies.
fn default_inputs() -> Inputs {
    Inputs {
        registry: Registry::parse(REGISTRY, Path::new("/config/rexd/targets.json")),
        directories: vec!["/plain".into()],
        paths: Paths { home: Some("/home/me".into()), ..Paths::default() },
        ..Inputs::default()
    }
}

fn project(target: &str, cwd: Option<&str>) -> Result<Option<Project>, Failure> {
    let file = "/plain/.rex.toml".into();
    Ok(Some(Project { file, target: Some(target.to_owned()), cwd: cwd.map(str::to_owned) }))
}

/// Inputs with which every rule selects a different target.
fn all_rules_inputs() -> Inputs {
    Inputs {
        flag: Some("ssh:flag".to_owned()),
        environment: Some("ssh:environment".to_owned()),
        project: project("ssh:project", None),
        used: Ok(Some("ssh:used".to_owned())),
        carried_over: Ok(Some("ssh:carried".to_owned())),
        directories: vec!["/home/me/web/src".into()],
        ..default_inputs()
    }
}

/// ARCHITECTURE.md, invariant 51.
#[test]
fn the_first_rule_that_selects_a_target_wins() {
    let mut inputs = all_rules_inputs();
    let cases: [(&str, &str, Change); 7] = [
        ("ssh:flag", "-t", |inputs| inputs.flag = None),
        ("ssh:environment", "REX_TARGET", |inputs| inputs.environment = None),
        ("ssh:project", "project file", |inputs| inputs.project = Ok(None)),
        ("ssh:deploy@web.example", "path prefix", |inputs| inputs.directories = vec!["/plain".into()]),
        ("ssh:used", "rex target use", |inputs| inputs.used = Ok(None)),
        ("ssh:carried", "carried over", |inputs| inputs.carried_over = Ok(None)),
        ("local", "default", |_| {}),
    ];
    for (target, rule, disable) in cases {
        assert_eq!(decide(&inputs).unwrap().choice.target.to_string(), target);
        let explained = explain(&inputs);
        let winners: Vec<&str> =
            explained.rules.iter().filter(|rule| rule.wins).map(|rule| rule.rule).collect();
        assert_eq!(winners, [rule], "the explanation and the decision agree");
        disable(&mut inputs);
    }
}

#[test]
fn each_rule_selects_a_target_on_its_own() {
    let cases: [(&str, Change); 5] = [
        ("ssh:a", |inputs| inputs.flag = Some("ssh:a".to_owned())),
        ("ssh:b", |inputs| inputs.environment = Some("ssh:b".to_owned())),
        ("ssh:c", |inputs| inputs.project = project("ssh:c", None)),
        ("ssh:d", |inputs| inputs.used = Ok(Some("ssh:d".to_owned()))),
        ("ssh:e", |inputs| inputs.carried_over = Ok(Some("ssh:e".to_owned()))),
    ];
    for (target, set) in cases {
        let mut inputs = default_inputs();
        set(&mut inputs);
        assert_eq!(decide(&inputs).unwrap().choice.target.to_string(), target);
    }
}

#[test]
fn the_longest_prefix_wins_and_a_mapping_moves_the_directory() {
    for (directory, alias, cwd) in [
        ("/home/me/web", Some("web"), Some("/srv/web")),
        ("/home/me/web/deep/er", Some("web"), Some("/srv/web")),
        ("/home/me/website", None, Some("/home/me/website")),
        ("/home/me/mono", Some("mono"), None),
        ("/home/me/mono/app", Some("web"), Some("/srv/mono/app/")),
        ("/home/me/mono/app/src/x", Some("web"), Some("/srv/mono/app/src/x")),
        ("/home/me/tilde/x", Some("mono"), None),
        ("/home/me", None, Some("/home/me")),
    ] {
        let inputs = Inputs { directories: vec![directory.into()], ..default_inputs() };
        let choice = decide(&inputs).unwrap().choice;
        assert_eq!((choice.alias.as_deref(), choice.cwd.as_deref()), (alias, cwd), "{directory}");
    }
}

#[test]
fn a_path_prefix_also_matches_the_directory_in_pwd() {
    let directories = vec!["/data/volumes/7".into(), "/home/me/mono/app/src".into()];
    let choice = decide(&Inputs { directories, ..default_inputs() }).unwrap().choice;
    assert_eq!(choice.cwd.as_deref(), Some("/srv/mono/app/src"));
}

#[test]
fn two_targets_with_the_same_prefix_are_an_error() {
    let text = r#"{"targets": {"a": {"host": "a", "pathPrefixes": ["/x"]}, "b": {"host": "b", "pathPrefixes": ["/x/"]}}}"#;
    let registry = Registry::parse(text, Path::new("t"));
    let inputs = Inputs { registry, directories: vec!["/x/y".into()], ..default_inputs() };
    let failure = decide(&inputs).unwrap_err();
    assert!(failure.message.contains("targets `a` and `b` both have it"), "{failure}");
    let asked = Inputs { flag: Some("a".to_owned()), ..inputs };
    assert_eq!(decide(&asked).unwrap().choice.alias.as_deref(), Some("a"));
}

#[test]
fn the_working_directory_comes_from_the_project_then_from_the_target() {
    let cases: [(&str, Option<&str>, Option<&str>); 5] = [
        ("web", Some("/srv/other"), Some("/srv/other")),
        ("web", None, Some("/srv/web")),
        ("local", Some("sub"), Some("/plain/sub")),
        ("local", None, Some("/plain")),
        ("box", None, Some("/box")),
    ];
    for (target, cwd, start) in cases {
        let inputs = Inputs { project: project(target, cwd), ..default_inputs() };
        assert_eq!(decide(&inputs).unwrap().choice.cwd.as_deref(), start, "{target} {cwd:?}");
    }
    let inside =
        Inputs { flag: Some("box".to_owned()), directories: vec!["/crate/x".into()], ..default_inputs() };
    assert_eq!(decide(&inside).unwrap().choice.cwd.as_deref(), Some("/crate/x"));
    let relative = Inputs { project: project("web", Some("sub")), ..default_inputs() };
    assert!(decide(&relative).unwrap_err().message.contains("must be absolute"));
}

/// ARCHITECTURE.md, invariant 51.
#[test]
fn a_project_file_cannot_send_the_users_token_to_another_address() {
    let ours = || Some(BearerToken("ours".to_owned()));
    let proof = |inputs: Inputs| decide(&Inputs { token: ours(), ..inputs }).unwrap().token;
    let own = Some(Credential::File("/nowhere/token".into()));
    let environment = ours().map(Credential::Token);
    for name in ["http://elsewhere.example", "open"] {
        assert_eq!(proof(Inputs { project: project(name, None), ..default_inputs() }), None, "{name}");
        assert_eq!(proof(Inputs { flag: Some(name.to_owned()), ..default_inputs() }), environment, "{name}");
    }
    assert_eq!(proof(Inputs { project: project("api", None), ..default_inputs() }), own);
    assert_eq!(
        proof(Inputs { flag: Some("api".to_owned()), ..default_inputs() }),
        own,
        "its own token takes precedence"
    );
    assert_eq!(proof(Inputs { flag: Some("web".to_owned()), ..default_inputs() }), None, "ssh uses no token");
}

/// ARCHITECTURE.md, invariant 51.
#[test]
fn a_hub_receives_its_sign_in_and_not_the_token_of_a_daemon() {
    let ours = || Some(BearerToken("ours".to_owned()));
    let proof = |inputs: Inputs| decide(&Inputs { token: ours(), ..inputs }).unwrap().token;
    let flag = |name: &str| Inputs { flag: Some(name.to_owned()), ..default_inputs() };
    for name in ["hub:host-a", "hub:", "host"] {
        assert_eq!(proof(flag(name)), Some(Credential::SignIn(None)), "{name}");
    }
    assert_eq!(proof(flag("other")), Some(Credential::SignIn(ours())), "the registry names the hub");
    for name in ["hub:host-a", "other"] {
        let project = Inputs { project: project(name, None), ..default_inputs() };
        assert_eq!(proof(project), Some(Credential::SignIn(None)), "{name}");
    }
    let choice = choose_from(&flag("hub:host-a")).unwrap();
    assert_eq!(choice.target.to_string(), "hub:host-a", "without a sign-in it can still be shown");
}

#[test]
fn a_token_in_the_registry_works_with_a_warning() {
    let inputs = Inputs { flag: Some("inline".to_owned()), ..default_inputs() };
    let choice = choose_from(&inputs).unwrap();
    let Target::Url(url) = &choice.target else { panic!("{choice:?}") };
    assert_eq!(url.token, Some(BearerToken("in-the-file".to_owned())));
    assert!(choice.warnings[0].contains("tokenFile"), "{:?}", choice.warnings);
}

#[test]
fn a_token_file_is_read_with_a_warning_if_others_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let text = format!(
        r#"{{"targets": {{"api": {{"transport": "http", "url": "http://h", "tokenFile": "{}"}}}}}}"#,
        file.display()
    );
    let registry = Registry::parse(&text, Path::new("t"));
    let inputs = Inputs { flag: Some("api".to_owned()), registry, ..default_inputs() };
    assert!(choose_from(&inputs).unwrap_err().message.contains("cannot read the token file"));
    std::fs::write(&file, "secret\n").unwrap();
    for (mode, warnings) in [(0o600, 0), (0o640, 1)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let choice = choose_from(&inputs).unwrap();
        let Target::Url(url) = &choice.target else { panic!("{choice:?}") };
        assert_eq!(url.token, Some(BearerToken("secret".to_owned())));
        assert_eq!(choice.warnings.len(), warnings, "{mode:o}");
    }
}

/// ARCHITECTURE.md, invariant 51.
#[test]
fn an_unreadable_input_fails_only_when_a_rule_needs_it() {
    let broken = || Failure::new("half-written");
    let inputs = Inputs { registry: Err(broken()), project: Err(broken()), ..default_inputs() };
    assert!(decide(&inputs).is_err(), "the project file could set a target");
    let decide_flag = |name: &str| decide(&Inputs { flag: Some(name.to_owned()), ..inputs.clone() });
    assert_eq!(decide_flag("ssh:host").unwrap().choice.target.to_string(), "ssh:host");
    assert_eq!(decide_flag("local").unwrap().choice.target, Target::local());
    assert_eq!(decide_flag("web").unwrap_err().message, "half-written");
    let registry = Inputs { project: Ok(None), ..inputs };
    assert!(decide(&registry).is_err(), "the registry could have a prefix for this directory");
}

#[test]
fn an_unknown_target_is_reported_with_a_suggestion_and_its_source() {
    let failure_of = |inputs: Inputs| decide(&inputs).unwrap_err();
    let failure = failure_of(Inputs { flag: Some("wbe".to_owned()), ..default_inputs() });
    assert!(failure.message.contains("unknown target `wbe`"), "{failure}");
    assert!(failure.hint.unwrap().contains("did you mean `web`?"));
    let failure = failure_of(Inputs { environment: Some("nothing-like-it".to_owned()), ..default_inputs() });
    assert!(failure.message.contains("set by REX_TARGET"), "{failure}");
    assert!(failure.hint.unwrap().contains("rex target add nothing-like-it ssh:HOST"));
    let failure =
        failure_of(Inputs { flag: Some("codex:https://hub/x?token=SECRET".to_owned()), ..default_inputs() });
    assert!(failure.message.contains("https://hub/x?token=…"), "{failure}");
    assert!(!format!("{failure:?}").contains("SECRET"), "{failure:?}");
    let failure = failure_of(Inputs { flag: Some("hub:host a".to_owned()), ..default_inputs() });
    assert!(failure.message.contains("expected the id or name of a host"), "{failure}");
}

#[test]
fn a_colon_separates_only_a_registered_alias() {
    let place = |text: &str| parse_path_with(text, &|| Registry::parse(REGISTRY, Path::new("t"))).unwrap();
    let there = |alias: Option<&str>, path: &str| PathArg::Remote {
        alias: alias.map(str::to_owned),
        path: path.to_owned(),
    };
    assert_eq!(place("web:/srv/x"), there(Some("web"), "/srv/x"));
    assert_eq!(place("web:a:b"), there(Some("web"), "a:b"));
    assert_eq!(place("web:"), there(Some("web"), ""));
    assert_eq!(place("local:/x"), there(Some("local"), "/x"));
    assert_eq!(place(":/srv/x"), there(None, "/srv/x"));
    for text in
        ["/srv/x", "a", "./web:x", "../web:x", "/web:x", "C:\\x", "notes:2024", "x/web:y", "~/web:x", ""]
    {
        assert_eq!(place(text), PathArg::Local(text.to_owned()));
    }
}
