//! Conversions from wire parameters to the engine's types. Pure, so that tables can test them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::LazyLock;

use engine::policy::Glob;
use wire::exec_server::v1::{EnvInherit, ExecEnvPolicy, ExecParams};

/// The variables that `inherit: core` keeps.
const CORE: [&str; 11] =
    ["PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"];
/// Names that look like secrets.
static SECRETS: LazyLock<Vec<Glob>> = LazyLock::new(|| globs(&["*KEY*", "*SECRET*", "*TOKEN*"]));

/// The environment of a process: the inherited variables that its policy keeps, its own, then the operator's. A confined
/// process gets a directory for temporary files.
pub(super) fn environment(
    params: &ExecParams,
    (ours, prescribed): (&[(OsString, OsString)], &BTreeMap<String, String>),
    temp: Option<&Path>,
) -> Vec<(OsString, OsString)> {
    let mut env: BTreeMap<OsString, OsString> = match &params.env_policy {
        Some(policy) => inherited(policy, ours),
        None => BTreeMap::new(),
    };
    env.extend(params.env.iter().map(|(name, value)| (name.into(), value.into())));
    env.extend(prescribed.iter().map(|(name, value)| (name.into(), value.into())));
    if let Some(temp) = temp {
        env.insert("TMPDIR".into(), temp.into());
    }
    // A variable without a name would make the start fail.
    env.into_iter().filter(|(name, _)| !name.is_empty()).collect()
}

fn inherited(policy: &ExecEnvPolicy, ours: &[(OsString, OsString)]) -> BTreeMap<OsString, OsString> {
    let (exclude, include_only) = (globs(&policy.exclude), globs(&policy.include_only));
    let is_core = |name: &str| CORE.iter().any(|core| core.eq_ignore_ascii_case(name));
    let is_inherited = |name: &OsString| match (policy.inherit, name.to_str()) {
        (EnvInherit::None, _) => false,
        (EnvInherit::All, None) => true,
        (EnvInherit::Core, None) => false,
        (EnvInherit::Core, Some(name)) if !is_core(name) => false,
        (_, Some(name)) => {
            let is_secret = !policy.ignore_default_excludes && any_matches(&SECRETS, name);
            !is_secret && !any_matches(&exclude, name)
        }
    };
    let mut env: BTreeMap<OsString, OsString> =
        ours.iter().filter(|(name, _)| is_inherited(name)).cloned().collect();
    env.extend(policy.r#set.iter().map(|(name, value)| (name.into(), value.into())));
    if !include_only.is_empty() {
        env.retain(|name, _| name.to_str().is_some_and(|name| any_matches(&include_only, name)));
    }
    env
}

/// Patterns on names with `*` and `?`, whatever the case. Sets and escapes are ordinary text in them.
fn globs(patterns: &[impl AsRef<str>]) -> Vec<Glob> {
    let escaped = |pattern: &str| pattern.to_ascii_uppercase().replace('\\', r"\\").replace('[', r"\[");
    patterns.iter().map(|pattern| Glob::new(escaped(pattern.as_ref()))).collect()
}

fn any_matches(globs: &[Glob], name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    globs.iter().any(|glob| glob.matches(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_made_in_the_documented_order() {
        let ours = [("PATH", "/bin"), ("API_KEY", "k"), ("HOME", "/h"), ("OTHER", "o"), ("path", "low")];
        let ours: Vec<(OsString, OsString)> =
            ours.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let prescribed = BTreeMap::from([("FIXED".to_owned(), "f".to_owned())]);
        let policy = |inherit| ExecEnvPolicy {
            inherit,
            ignore_default_excludes: false,
            exclude: vec!["oth*".to_owned()],
            r#set: [("SET_TOKEN".to_owned(), "s".to_owned())].into(),
            include_only: Vec::new(),
        };
        let names = |policy: Option<ExecEnvPolicy>| {
            let params = ExecParams {
                env_policy: policy,
                env: [("LAST".to_owned(), "l".to_owned())].into(),
                ..ExecParams::default()
            };
            let made = environment(&params, (&ours, &prescribed), None);
            made.iter().map(|(name, _)| name.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(None), "FIXED LAST");
        assert_eq!(names(Some(policy(EnvInherit::None))), "FIXED LAST SET_TOKEN");
        assert_eq!(names(Some(policy(EnvInherit::Core))), "FIXED HOME LAST PATH SET_TOKEN path");
        assert_eq!(names(Some(policy(EnvInherit::All))), "FIXED HOME LAST PATH SET_TOKEN path");
        let all =
            ExecEnvPolicy { ignore_default_excludes: true, exclude: Vec::new(), ..policy(EnvInherit::All) };
        assert_eq!(names(Some(all.clone())), "API_KEY FIXED HOME LAST OTHER PATH SET_TOKEN path");
        let some = ExecEnvPolicy { include_only: vec!["*PATH".to_owned()], ..all };
        assert_eq!(names(Some(some)), "FIXED LAST PATH path");
    }
}
