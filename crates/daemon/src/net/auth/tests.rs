//! Tests of the credentials: tokens of every source, certificates, and their revocation.

use super::*;
use crate::config::ConfigArgs;
use http::StatusCode;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(super) struct World {
    directory: tempfile::TempDir,
    pub(super) paths: Paths,
}

impl World {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = Some(directory.path().join("state/rexd"));
        Self { directory, paths: Paths { state, current: "/".into(), ..Paths::default() } }
    }

    pub(super) fn config(&self, text: &str) -> Config {
        let text = text.replace("DIR", &self.directory.path().display().to_string());
        Config::parse(&text, Path::new("c.toml"), &ConfigArgs::default(), &self.paths).unwrap()
    }

    fn auth(&self, text: &str) -> Result<Auth, AuthError> {
        Auth::new(&self.config(text), &self.paths)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

pub(super) fn hashed(name: &str, token: &str, rest: &str) -> String {
    use sha2::Digest as _;
    let hex: String = sha2::Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[auth.tokens]]\nname = \"{name}\"\nsha256 = \"{hex}\"\n{rest}\n")
}

fn in_file(name: &str) -> String {
    format!("[[auth.tokens]]\nname = \"{name}\"\nfile = \"DIR/{name}\"\n")
}

#[test]
fn a_token_determines_the_caller_and_its_scopes() {
    let world = World::new();
    world.write("me", "file-token\r\n", 0o600);
    let config = hashed("ci", "ci-token", "scopes = [\"read\"]") + &in_file("me");
    let auth = world.auth(&config).unwrap();
    let ci = auth.bearer("ci-token").unwrap();
    assert_eq!((&*ci.name, ci.scopes.names()), ("token:ci", vec!["read"]));
    assert!(ci.require(Scope::Read).is_ok());
    let rejected = ci.require(Scope::Exec).unwrap_err();
    assert_eq!((rejected.status, rejected.code, rejected.reason), (StatusCode::FORBIDDEN, -32001, "scope"));
    assert_eq!(rejected.message, "this needs the scope \"exec\", which token:ci does not have");
    let me = auth.bearer("file-token").unwrap();
    assert_eq!((&*me.name, me.scopes), ("token:me", Scopes::DEFAULT));
}

#[test]
fn every_invalid_token_has_its_reason() {
    let world = World::new();
    let auth = world.auth(&(hashed("ci", "good", "") + &hashed("none", "empty", "scopes = []"))).unwrap();
    for (token, status, reason) in [
        ("", 401, "no_token"),
        ("go od", 401, "malformed_token"),
        ("güt", 401, "malformed_token"),
        (&"x".repeat(5_000), 401, "malformed_token"),
        ("goo", 401, "wrong_token"),
        ("good ", 401, "malformed_token"),
        ("empty", 403, "scope"),
    ] {
        let rejected = auth.bearer(token).unwrap_err();
        assert_eq!(
            (rejected.status.as_u16(), rejected.code, rejected.reason),
            (status, -32001, reason),
            "{token}"
        );
    }
}

#[test]
fn tokens_of_the_environment_are_accepted() {
    let mut world = World::new();
    world.paths.token = Some(Secret::new("from-variable"));
    world.paths.token_file = Some(world.write("f", "from-file", 0o400));
    let auth = world.auth(&hashed("ci", "from-config", "")).unwrap();
    for (token, name) in
        [("from-variable", "token:env"), ("from-file", "token:env-file"), ("from-config", "token:ci")]
    {
        assert_eq!(&*auth.bearer(token).unwrap().name, name);
    }
    assert_eq!(auth.ensure_token().unwrap(), None, "a token is configured, so none is created");
    assert!(!format!("{auth:?}{:?}", world.paths).contains("from-"), "nothing prints a token");
    world.paths.token = Some(Secret::new("a b"));
    assert!(matches!(world.auth(""), Err(AuthError::Variable)));
    world.paths.token = Some(Secret::new("from-config"));
    let twins = world.auth(&hashed("ci", "from-config", "")).unwrap_err().to_string();
    assert!(twins.starts_with("token:env and token:ci are the same token"), "{twins}");
}

#[test]
fn an_unusable_token_file_is_rejected_with_its_reason() {
    let world = World::new();
    for mode in [0o640, 0o604, 0o620, 0o666] {
        world.write("me", "secret-token", mode);
        let error = world.auth(&in_file("me")).unwrap_err().to_string();
        assert!(error.contains(&format!("mode {mode:03o}")) && error.contains("chmod 600"), "{error}");
    }
    for text in ["", "\n", "two\nlines", "a b", "t\n\n", &"x".repeat(5_000)] {
        world.write("me", text, 0o600);
        let error = world.auth(&in_file("me")).unwrap_err().to_string();
        assert!(error.contains("expected one token"), "{text:?}: {error}");
    }
    std::fs::remove_file(world.directory.path().join("me")).unwrap();
    std::fs::create_dir(world.directory.path().join("me")).unwrap();
    let error = world.auth(&in_file("me")).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let mut world = World::new();
    world.paths.token_file = Some("/nowhere/token".into());
    let error = world.auth("").unwrap_err().to_string();
    assert_eq!(error, "token file /nowhere/token: no such file");
}

#[test]
fn without_a_token_one_is_created_and_reused() {
    let world = World::new();
    let auth = world.auth("").unwrap();
    let path = auth.ensure_token().unwrap().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let token = std::fs::read_to_string(&path).unwrap();
    assert_eq!(token.len(), 65, "32 bytes in hexadecimal and a line end");
    assert_eq!(&*auth.bearer(token.trim()).unwrap().name, "token:default");
    let next = world.auth("").unwrap();
    assert_eq!(next.ensure_token().unwrap(), Some(path.clone()));
    assert!(next.bearer(token.trim()).is_ok(), "the next daemon uses the same token");
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no other file is left");
    let homeless = Auth::new(&world.config(""), &Paths::default()).unwrap();
    assert!(matches!(homeless.ensure_token(), Err(AuthError::NoStateDir)));
}

#[test]
fn daemons_that_start_at_once_end_with_one_token() {
    let world = World::new();
    let tokens: Vec<String> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let path = own_token_file(&world.paths).unwrap();
                    own::open_or_create(&path).unwrap();
                    std::fs::read_to_string(path).unwrap()
                })
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert!(tokens.iter().all(|token| *token == tokens[0] && token.len() == 65));
}

/// ARCHITECTURE.md, invariant 36.
#[test]
fn ten_thousand_wrong_tokens_change_nothing() {
    let world = World::new();
    world.write("me", "good-token\n", 0o600);
    let auth = world.auth(&in_file("me")).unwrap();
    let caller = auth.bearer("good-token").unwrap();
    let changes = auth.changed();
    for number in 0..10_000 {
        assert_eq!(auth.bearer(&format!("good-token{number}")).unwrap_err().reason, "wrong_token");
    }
    assert!(!changes.has_changed().unwrap());
    assert_eq!(auth.bearer("good-token").unwrap(), caller);
    assert!(auth.is_valid(&caller));
}

/// ARCHITECTURE.md, invariant 35.
#[test]
fn a_reload_revokes_and_a_bad_one_changes_nothing() {
    let world = World::new();
    let both = hashed("a", "token-a", "") + &hashed("b", "token-b", "");
    let auth = world.auth(&both).unwrap();
    let (a, b) = (auth.bearer("token-a").unwrap(), auth.bearer("token-b").unwrap());
    let mut changes = auth.changed();
    auth.reload(&world.config(&hashed("b", "token-b", ""))).unwrap();
    assert!(changes.has_changed().unwrap(), "open connections are notified");
    assert!(!auth.is_valid(&a) && auth.is_valid(&b));
    assert_eq!(auth.bearer("token-a").unwrap_err().reason, "wrong_token");
    changes.mark_unchanged();
    world.write("me", "x", 0o644);
    assert!(auth.reload(&world.config(&in_file("me"))).is_err());
    assert!(auth.is_valid(&b) && !changes.has_changed().unwrap());
    auth.reload(&world.config(&hashed("b", "token-b", "scopes = [\"read\"]"))).unwrap();
    assert!(!auth.is_valid(&b), "its scopes have changed");
    assert!(auth.is_valid(&Caller::on_stdio()) && auth.is_valid(&Caller::user(7)));
}

#[test]
fn a_reload_without_tokens_falls_back_to_the_default_token_if_a_listener_needs_it() {
    let world = World::new();
    let auth = world.auth(&hashed("a", "token-a", "")).unwrap();
    auth.ensure_token().unwrap();
    auth.reload(&world.config("")).unwrap();
    let own = std::fs::read_to_string(own_token_file(&world.paths).unwrap()).unwrap();
    assert!(auth.bearer(own.trim()).is_ok());
    assert!(auth.bearer("token-a").is_err());
}

/// ARCHITECTURE.md, invariant 35.
#[test]
fn changing_or_removing_a_token_file_revokes_at_once() {
    let world = World::new();
    let path = world.write("me", "first", 0o600);
    let auth = world.auth(&in_file("me")).unwrap();
    let first = auth.bearer("first").unwrap();
    let changes = auth.changed();
    // The same length, in place, at the same time: only the content shows it.
    std::fs::write(&path, "other").unwrap();
    assert!(!auth.is_valid(&first));
    assert!(changes.has_changed().unwrap());
    assert!(auth.bearer("first").is_err());
    let other = auth.bearer("other").unwrap();
    world.write("me", "other", 0o644);
    assert!(!auth.is_valid(&other), "a file that others can read is not accepted");
    world.write("me", "other", 0o600);
    assert!(auth.is_valid(&other));
    std::fs::remove_file(&path).unwrap();
    assert!(!auth.is_valid(&other) && auth.bearer("other").is_err());
    world.write("me", "again", 0o600);
    assert!(auth.bearer("again").is_ok());
}

/// ARCHITECTURE.md, invariant 35.
#[tokio::test(start_paused = true)]
async fn removing_a_token_file_notifies_idle_connections() {
    let world = World::new();
    let path = world.write("me", "token", 0o600);
    let auth = world.auth(&in_file("me")).unwrap();
    let caller = auth.bearer("token").unwrap();
    let mut changes = auth.changed();
    let stop = CancellationToken::new();
    let watching = tokio::spawn({
        let (auth, stop) = (auth.clone(), stop.clone());
        async move { auth.watch_files(stop).await }
    });
    std::fs::remove_file(path).unwrap();
    changes.changed().await.unwrap();
    assert!(!auth.is_valid(&caller));
    stop.cancel();
    watching.await.unwrap();
}

fn certificate(common: &str, alternative: &[&str]) -> ClientCertificate {
    let names: Vec<String> = alternative.iter().map(|name| (*name).to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, common);
    let key = rcgen::KeyPair::generate().unwrap();
    ClientCertificate::verified(params.self_signed(&key).unwrap().der().to_vec())
}

#[test]
fn a_certificate_is_identified_by_its_names() {
    let world = World::new();
    let open = world.auth("").unwrap();
    let laptop = certificate("ignored", &["laptop.example.org", "other.example.org"]);
    let caller = open.certificate(&laptop).unwrap();
    assert_eq!((&*caller.name, caller.scopes), ("cert:laptop.example.org", Scopes::DEFAULT));
    assert_eq!(&*open.certificate(&certificate("Robot 7", &[])).unwrap().name, "cert:Robot 7");
    assert_eq!(open.certificate(&certificate("a\nb", &[])).unwrap_err().reason, "bad_certificate");
    assert_eq!(
        open.certificate(&ClientCertificate::verified(b"no certificate".to_vec())).unwrap_err().reason,
        "bad_certificate"
    );
    let listed = "[[auth.certificates]]\nname = \"other.example.org\"\nscopes = [\"read\"]\n";
    open.reload(&world.config(listed)).unwrap();
    assert!(!open.is_valid(&caller));
    let caller = open.certificate(&laptop).unwrap();
    assert_eq!((&*caller.name, caller.scopes.names()), ("cert:other.example.org", vec!["read"]));
    let rejected = open.certificate(&certificate("Robot 7", &[])).unwrap_err();
    assert_eq!((rejected.status, rejected.reason), (StatusCode::FORBIDDEN, "unknown_certificate"));
    assert!(open.ensure_token().unwrap().is_some());
    assert!(open.certificate(&laptop).is_ok(), "the default token keeps the certificates");
    assert!(open.is_valid(&caller));
}

/// ARCHITECTURE.md, invariant 36.
#[test]
fn tokens_are_reported_by_name_and_never_printed() {
    let mut world = World::new();
    world.paths.token = Some(Secret::new("short"));
    world.write("me", "file-token", 0o644);
    let text = hashed("ci", "ci-token", "scopes = [\"read\", \"admin\"]") + &in_file("me") + &in_file("gone");
    let found = report(&world.config(&text), &world.paths);
    let reported: Vec<(&str, bool)> = found.iter().map(|t| (t.name.as_str(), t.problem.is_some())).collect();
    assert_eq!(reported, [("env", true), ("ci", false), ("me", true), ("gone", true)]);
    let all = format!("{found:?}");
    assert!(all.contains("read + admin") && all.contains("mode 644") && all.contains("no such file"));
    assert!(!all.contains("short\"") && !all.contains("file-token"), "{all}");
    let none = report(&world.config(""), &Paths { token: None, ..world.paths.clone() });
    assert!(none[0].found.contains("`rexd serve` creates"), "{none:?}");
}
