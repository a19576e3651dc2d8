//! Environment: which variables of the daemon a command inherits.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::pattern::Glob;

/// Secrets of the daemon itself, and what the service manager tells it alone: a command that has them could speak as
/// the daemon. No command ever inherits them, whatever the operator keeps.
const OWN_SECRETS: &[&str] = &[
    "REXD_TOKEN",
    "REXD_TOKEN_FILE",
    "REX_TOKEN",
    "REX_TOKEN_FILE",
    "HOST_TOKEN",
    "HUB_TOKEN",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// Filters what a command inherits, and adds what the operator prescribes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// Names that are not inherited, as globs.
    pub remove: Vec<Glob>,
    /// Names that are inherited although `remove` matches them.
    pub keep: Vec<Glob>,
    /// Variables every command gets with exactly this value; not even a request changes them.
    pub set: BTreeMap<String, String>,
}

impl Environment {
    /// The environment of a command: what is inherited and not removed, then what the request sets or (`None`)
    /// unsets, then what the operator prescribes.
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

    /// Whether a variable of the daemon reaches its commands.
    pub fn inherits(&self, name: &str) -> bool {
        let named = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(name));
        !OWN_SECRETS.contains(&name) && (!named(&self.remove) || named(&self.keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn the_daemons_own_secrets_are_never_inherited() {
        let keep_all = Environment { keep: vec![Glob::new("*")], ..Environment::default() };
        for environment in [Environment::default(), keep_all] {
            let inherited =
                pairs(&[("PATH", "/bin"), ("REXD_TOKEN", "t"), ("HOST_TOKEN", "t"), ("REX_TOKEN", "t")]);
            assert_eq!(environment.apply(inherited, &BTreeMap::new()), pairs(&[("PATH", "/bin")]));
        }
    }

    #[test]
    fn what_the_service_manager_tells_the_daemon_stays_with_it() {
        let told =
            ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "WATCHDOG_USEC", "OTEL_EXPORTER_OTLP_HEADERS"];
        assert!(told.iter().all(|name| !Environment::default().inherits(name)));
        assert!(Environment::default().inherits("OTEL_EXPORTER_OTLP_ENDPOINT"));
    }

    #[test]
    fn keep_rescues_from_remove() {
        let environment = Environment {
            remove: vec![Glob::new("*")],
            keep: vec![Glob::new("PATH"), Glob::new("LC_*")],
            set: BTreeMap::new(),
        };
        let inherited = pairs(&[("PATH", "/bin"), ("LC_ALL", "C"), ("AWS_SECRET", "x")]);
        assert_eq!(
            environment.apply(inherited, &BTreeMap::new()),
            pairs(&[("PATH", "/bin"), ("LC_ALL", "C")])
        );
    }

    #[test]
    fn a_request_sets_and_unsets_but_the_operator_has_the_last_word() {
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
