//! Environment of commands: the variables that they inherit from the daemon.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::LazyLock;

use super::pattern::Glob;

/// Secrets of the daemon and variables that the service manager sets for it: with them a command could act as the
/// daemon. Commands never inherit them, not even if the configuration keeps them.
const DAEMON_SECRETS: &[&str] = &[
    "REXD_TOKEN",
    "REXD_TOKEN_FILE",
    "REX_TOKEN",
    "REX_TOKEN_FILE",
    "HOST_TOKEN",
    "HUB_TOKEN",
    "CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// Common names of variables whose value is a secret, as globs. Variables that only refer to a secret, such as
/// `KUBECONFIG` or `SSH_AUTH_SOCK`, are kept: removing them breaks tools and hides nothing.
#[rustfmt::skip]
const COMMON_SECRETS: &[&str] = &[
    "*_TOKEN", "*_SECRET", "*_SECRETS", "*_SECRET_KEY", "*_SECRET_ACCESS_KEY", "*_PASSWORD", "*_PASSWD",
    "*_PASSPHRASE", "*_PASS", "*_API_KEY", "*_APIKEY", "*_API_SECRET", "*_API_TOKEN",
    "*_ACCESS_KEY", "*_ACCESS_TOKEN", "*_AUTH_TOKEN", "*_PRIVATE_KEY", "*_ENCRYPTION_KEY", "*_SIGNING_KEY",
    "*_CREDENTIALS", "*_PAT", "*_WEBHOOK_URL", "*_CONNECTION_STRING", "*_DSN", "TOKEN", "SECRET", "PASSWORD",
    "PASSWD", "API_KEY", "APIKEY", "AWS_SESSION_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "NPM_TOKEN",
    "DATABASE_URL", "*_DATABASE_URL", "REDIS_URL", "MONGODB_URI", "MONGO_URL", "AMQP_URL", "PGPASSWORD",
    "MYSQL_PWD", "REDISCLI_AUTH", "SSHPASS", "SUDO_PASSWORD", "BORG_PASSPHRASE", "RESTIC_PASSWORD",
    "VAULT_TOKEN", "CARGO_REGISTRY_TOKEN", "CARGO_REGISTRIES_*_TOKEN", "TWINE_PASSWORD", "DOCKER_AUTH_CONFIG",
    "KUBE_TOKEN", "HTTP_AUTHORIZATION", "NETRC_PASSWORD",
];

/// Variables that match a glob above but hold no secret: they name a file or a program that asks for one.
const NOT_SECRETS: &[&str] =
    &["GOOGLE_APPLICATION_CREDENTIALS", "SSH_ASKPASS", "GIT_ASKPASS", "SUDO_ASKPASS"];

static COMMON_SECRET_GLOBS: LazyLock<Vec<Glob>> =
    LazyLock::new(|| COMMON_SECRETS.iter().map(|text| Glob::new(*text)).collect());

/// Rules on the variables that a command inherits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Globs on names that are not inherited.
    pub remove: Vec<Glob>,
    /// Whether common names of secrets are not inherited either.
    pub remove_secrets: bool,
    /// Globs on names that are inherited even if `remove` or a common name of a secret matches.
    pub keep: Vec<Glob>,
    /// Variables of every command; a request cannot change them.
    pub set: BTreeMap<String, String>,
}

impl Default for Environment {
    fn default() -> Self {
        Self { remove: Vec::new(), remove_secrets: true, keep: Vec::new(), set: BTreeMap::new() }
    }
}

impl Environment {
    /// The environment of a command: inherited variables, then those that the request sets or (`None`) removes, then `set`.
    pub fn apply(
        &self,
        inherited: impl IntoIterator<Item = (OsString, OsString)>,
        overrides: &BTreeMap<String, Option<String>>,
    ) -> Vec<(OsString, OsString)> {
        let decided = |name: &str| overrides.contains_key(name) || self.set.contains_key(name);
        let mut result: Vec<_> = inherited
            .into_iter()
            .filter(|(name, _)| {
                let name = name.to_string_lossy();
                self.inherits(&name) && !decided(&name)
            })
            .collect();
        let asked = overrides.iter().filter(|(name, _)| !self.set.contains_key(*name));
        result.extend(asked.filter_map(|(name, value)| Some((name.into(), value.as_ref()?.into()))));
        result.extend(self.set.iter().map(|(name, value)| (name.into(), value.into())));
        result
    }

    /// Whether commands inherit a variable of the daemon.
    pub fn inherits(&self, name: &str) -> bool {
        let named = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(name));
        let removed = || named(&self.remove) || (self.remove_secrets && is_common_secret(name));
        !DAEMON_SECRETS.contains(&name) && (!removed() || named(&self.keep))
    }
}

/// Whether this is a common name of a secret, in upper or lower case: some tools read both.
fn is_common_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    !NOT_SECRETS.contains(&name.as_str()) && COMMON_SECRET_GLOBS.iter().any(|glob| glob.matches(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// ARCHITECTURE.md, invariant 22.
    #[test]
    fn the_daemons_own_secrets_are_never_inherited() {
        let keep_all = Environment { keep: vec![Glob::new("*")], ..Environment::default() };
        for environment in [Environment::default(), keep_all] {
            let inherited =
                pairs(&[("PATH", "/bin"), ("REXD_TOKEN", "t"), ("HOST_TOKEN", "t"), ("REX_TOKEN", "t")]);
            assert!(!environment.inherits("CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN"));
            assert_eq!(environment.apply(inherited, &BTreeMap::new()), pairs(&[("PATH", "/bin")]));
        }
    }

    #[test]
    fn variables_of_the_service_manager_are_not_inherited() {
        let told =
            ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "WATCHDOG_USEC", "OTEL_EXPORTER_OTLP_HEADERS"];
        assert!(told.iter().all(|name| !Environment::default().inherits(name)));
        assert!(Environment::default().inherits("OTEL_EXPORTER_OTLP_ENDPOINT"));
    }

    #[test]
    fn common_secrets_are_not_inherited_unless_they_are_kept() {
        let secrets =
            ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "OPENAI_API_KEY", "DATABASE_URL"];
        let more =
            ["PGPASSWORD", "SSHPASS", "my_app_password", "DEPLOY_PRIVATE_KEY", "NPM_TOKEN", "GH_TOKEN"];
        let plain =
            ["PATH", "HOME", "KUBECONFIG", "SSH_AUTH_SOCK", "AWS_PROFILE", "SSH_ASKPASS", "PWD", "OLDPWD"];
        let usual = Environment::default();
        let off = Environment { remove_secrets: false, ..Environment::default() };
        let kept = Environment { keep: vec![Glob::new("*")], ..Environment::default() };
        for name in secrets.iter().chain(&more) {
            assert!(!usual.inherits(name) && off.inherits(name) && kept.inherits(name), "{name}");
        }
        for name in plain {
            assert!(usual.inherits(name), "{name}");
        }
        let asked = BTreeMap::from([("GITHUB_TOKEN".to_owned(), Some("mine".to_owned()))]);
        let given = usual.apply(pairs(&[("GITHUB_TOKEN", "the daemon's")]), &asked);
        assert_eq!(given, pairs(&[("GITHUB_TOKEN", "mine")]));
    }

    #[test]
    fn keep_overrides_remove() {
        let environment = Environment {
            remove: vec![Glob::new("*")],
            keep: vec![Glob::new("PATH"), Glob::new("LC_*")],
            ..Environment::default()
        };
        let inherited = pairs(&[("PATH", "/bin"), ("LC_ALL", "C"), ("AWS_SECRET", "x")]);
        assert_eq!(
            environment.apply(inherited, &BTreeMap::new()),
            pairs(&[("PATH", "/bin"), ("LC_ALL", "C")])
        );
    }

    /// ARCHITECTURE.md, invariant 22.
    #[test]
    fn a_request_sets_and_unsets_variables_but_the_configuration_overrides_it() {
        let set = BTreeMap::from([("PATH".to_owned(), "/usr/bin".to_owned())]);
        let environment = Environment { set, ..Environment::default() };
        let overrides = BTreeMap::from([
            ("PATH".to_owned(), Some("/tmp".to_owned())),
            ("HOME".to_owned(), None),
            ("NEW".to_owned(), Some(String::new())),
        ]);
        let inherited = pairs(&[("PATH", "/bin"), ("HOME", "/root"), ("TERM", "dumb")]);
        let expected = pairs(&[("TERM", "dumb"), ("NEW", ""), ("PATH", "/usr/bin")]);
        assert_eq!(environment.apply(inherited, &overrides), expected);
    }
}
