//! Tests of the rules: who wins, where commands start, who gets a token, and what counts as an alias before a path.

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
    "box": {"transport": "local", "workspaceRoots": ["/box", "/crate"]}
}}"#;

/// What a test changes about them.
type Change = fn(&mut Inputs);

/// Nothing says anything, in a directory without meaning.
fn silent() -> Inputs {
    Inputs {
        registry: Registry::parse(REGISTRY, Path::new("/config/rexd/targets.json")),
        directories: vec!["/plain".into()],
        places: Places { home: Some("/home/me".into()), ..Places::default() },
        ..Inputs::default()
    }
}

fn project(target: &str, cwd: Option<&str>) -> Result<Option<Project>, Failure> {
    let file = "/plain/.rex.toml".into();
    Ok(Some(Project { file, target: Some(target.to_owned()), cwd: cwd.map(str::to_owned) }))
}

/// Every rule says something else.
fn loud() -> Inputs {
    Inputs {
        asked: Some("ssh:flag".to_owned()),
        environment: Some("ssh:environment".to_owned()),
        project: project("ssh:project", None),
        used: Ok(Some("ssh:used".to_owned())),
        carried: Ok(Some("ssh:carried".to_owned())),
        directories: vec!["/home/me/web/src".into()],
        ..silent()
    }
}

/// ARCHITECTURE.md, invariant 51.
#[test]
fn the_first_rule_that_says_something_decides() {
    let mut inputs = loud();
    let hush: [(&str, &str, Change); 7] = [
        ("ssh:flag", "-t", |inputs| inputs.asked = None),
        ("ssh:environment", "REX_TARGET", |inputs| inputs.environment = None),
        ("ssh:project", "project file", |inputs| inputs.project = Ok(None)),
        ("ssh:deploy@web.example", "path prefix", |inputs| inputs.directories = vec!["/plain".into()]),
        ("ssh:used", "rex target use", |inputs| inputs.used = Ok(None)),
        ("ssh:carried", "carried over", |inputs| inputs.carried = Ok(None)),
        ("local", "default", |_| {}),
    ];
    for (target, rule, silence) in hush {
        assert_eq!(decide(&inputs).unwrap().choice.target.to_string(), target);
        let explained = explain(&inputs);
        let winners: Vec<&str> =
            explained.rules.iter().filter(|spoken| spoken.wins).map(|spoken| spoken.rule).collect();
        assert_eq!(winners, [rule], "what is shown is what is done");
        silence(&mut inputs);
    }
}

#[test]
fn a_rule_alone_is_enough() {
    let cases: [(&str, Change); 5] = [
        ("ssh:a", |inputs| inputs.asked = Some("ssh:a".to_owned())),
        ("ssh:b", |inputs| inputs.environment = Some("ssh:b".to_owned())),
        ("ssh:c", |inputs| inputs.project = project("ssh:c", None)),
        ("ssh:d", |inputs| inputs.used = Ok(Some("ssh:d".to_owned()))),
        ("ssh:e", |inputs| inputs.carried = Ok(Some("ssh:e".to_owned()))),
    ];
    for (target, say) in cases {
        let mut inputs = silent();
        say(&mut inputs);
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
        let inputs = Inputs { directories: vec![directory.into()], ..silent() };
        let choice = decide(&inputs).unwrap().choice;
        assert_eq!((choice.alias.as_deref(), choice.cwd.as_deref()), (alias, cwd), "{directory}");
    }
}

#[test]
fn the_name_the_shell_has_for_the_directory_counts_too() {
    let directories = vec!["/data/volumes/7".into(), "/home/me/mono/app/src".into()];
    let choice = decide(&Inputs { directories, ..silent() }).unwrap().choice;
    assert_eq!(choice.cwd.as_deref(), Some("/srv/mono/app/src"));
}

#[test]
fn two_targets_that_claim_a_directory_are_told_and_none_is_guessed() {
    let text = r#"{"targets": {"a": {"host": "a", "pathPrefixes": ["/x"]}, "b": {"host": "b", "pathPrefixes": ["/x/"]}}}"#;
    let registry = Registry::parse(text, Path::new("t"));
    let inputs = Inputs { registry, directories: vec!["/x/y".into()], ..silent() };
    let failure = decide(&inputs).unwrap_err();
    assert!(failure.message.contains("`a` and `b` both claim /x"), "{failure}");
    let asked = Inputs { asked: Some("a".to_owned()), ..inputs };
    assert_eq!(decide(&asked).unwrap().choice.alias.as_deref(), Some("a"));
}

#[test]
fn commands_start_where_the_project_says_and_else_where_the_target_says() {
    let cases: [(&str, Option<&str>, Option<&str>); 5] = [
        ("web", Some("/srv/other"), Some("/srv/other")),
        ("web", None, Some("/srv/web")),
        ("local", Some("sub"), Some("/plain/sub")),
        ("local", None, Some("/plain")),
        ("box", None, Some("/box")),
    ];
    for (target, cwd, start) in cases {
        let inputs = Inputs { project: project(target, cwd), ..silent() };
        assert_eq!(decide(&inputs).unwrap().choice.cwd.as_deref(), start, "{target} {cwd:?}");
    }
    let inside = Inputs { asked: Some("box".to_owned()), directories: vec!["/crate/x".into()], ..silent() };
    assert_eq!(decide(&inside).unwrap().choice.cwd.as_deref(), Some("/crate/x"));
    let relative = Inputs { project: project("web", Some("sub")), ..silent() };
    assert!(decide(&relative).unwrap_err().message.contains("must be absolute"));
}

/// ARCHITECTURE.md, invariant 51.
#[test]
fn a_project_file_sends_our_token_nowhere() {
    let ours = || Some(BearerToken("ours".to_owned()));
    let proof = |inputs: Inputs| decide(&Inputs { token: ours(), ..inputs }).unwrap().token;
    let own = Some(Proof::File("/nowhere/token".into()));
    let environment = ours().map(Proof::Token);
    for name in ["http://elsewhere.example", "open"] {
        assert_eq!(proof(Inputs { project: project(name, None), ..silent() }), None, "{name}");
        assert_eq!(proof(Inputs { asked: Some(name.to_owned()), ..silent() }), environment, "{name}");
    }
    assert_eq!(proof(Inputs { project: project("api", None), ..silent() }), own);
    assert_eq!(proof(Inputs { asked: Some("api".to_owned()), ..silent() }), own, "its own counts more");
    assert_eq!(proof(Inputs { asked: Some("web".to_owned()), ..silent() }), None, "ssh takes none");
}

#[test]
fn a_token_in_the_registry_works_with_a_warning() {
    let inputs = Inputs { asked: Some("inline".to_owned()), ..silent() };
    let choice = choose_from(&inputs).unwrap();
    let Target::Url(url) = &choice.target else { panic!("{choice:?}") };
    assert_eq!(url.token, Some(BearerToken("in-the-file".to_owned())));
    assert!(choice.warnings[0].contains("tokenFile"), "{:?}", choice.warnings);
}

#[test]
fn a_token_file_is_read_and_an_open_one_is_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let text = format!(
        r#"{{"targets": {{"api": {{"transport": "http", "url": "http://h", "tokenFile": "{}"}}}}}}"#,
        file.display()
    );
    let registry = Registry::parse(&text, Path::new("t"));
    let inputs = Inputs { asked: Some("api".to_owned()), registry, ..silent() };
    assert!(choose_from(&inputs).unwrap_err().message.contains("cannot read the token in"));
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
fn what_cannot_be_read_counts_only_when_a_rule_gets_to_it() {
    let broken = || Failure::new("half-written");
    let inputs = Inputs { registry: Err(broken()), project: Err(broken()), ..silent() };
    assert!(decide(&inputs).is_err(), "nobody knows what the project would have said");
    let asked = |name: &str| decide(&Inputs { asked: Some(name.to_owned()), ..inputs.clone() });
    assert_eq!(asked("ssh:host").unwrap().choice.target.to_string(), "ssh:host");
    assert_eq!(asked("local").unwrap().choice.target, Target::local());
    assert_eq!(asked("web").unwrap_err().message, "half-written");
    let registry = Inputs { project: Ok(None), ..inputs };
    assert!(decide(&registry).is_err(), "nobody knows which target has claimed this directory");
}

#[test]
fn an_unknown_name_is_told_with_what_was_meant_and_who_said_it() {
    let said = |inputs: Inputs| decide(&inputs).unwrap_err();
    let failure = said(Inputs { asked: Some("wbe".to_owned()), ..silent() });
    assert!(failure.message.contains("unknown target `wbe`"), "{failure}");
    assert!(failure.hint.unwrap().contains("did you mean `web`?"));
    let failure = said(Inputs { environment: Some("nothing-like-it".to_owned()), ..silent() });
    assert!(failure.message.contains("REX_TARGET says it"), "{failure}");
    assert!(failure.hint.unwrap().contains("rex target add nothing-like-it ssh:HOST"));
    let failure = said(Inputs { asked: Some("codex:https://hub/x?token=SECRET".to_owned()), ..silent() });
    assert!(failure.message.contains("https://hub/x?token=…"), "{failure}");
    assert!(!format!("{failure:?}").contains("SECRET"), "{failure:?}");
    let failure = said(Inputs { asked: Some("hub:host-a".to_owned()), ..silent() });
    assert!(failure.message.contains("not in this version yet"), "{failure}");
}

#[test]
fn a_colon_counts_only_after_an_alias() {
    let place = |text: &str| place_among(text, &|| Registry::parse(REGISTRY, Path::new("t"))).unwrap();
    let there = |alias: Option<&str>, path: &str| Place::There {
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
        assert_eq!(place(text), Place::Here(text.to_owned()));
    }
}
