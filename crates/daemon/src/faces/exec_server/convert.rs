//! Conversions from wire parameters to the engine's types. Pure, so that tables can test them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use engine::RootedPath;
use engine::process::{ProcessSpec, Program, Stdin, TerminalSize};
use engine::sandbox::Confinement;
use wire::exec_server::v1::{EnvInherit, ExecEnvPolicy, ExecParams};

use super::ExecServer;
use crate::core::session::Face as _;

/// The size of a terminal; the protocol has no parameter for it.
const SIZE: TerminalSize = TerminalSize { cols: 80, rows: 24 };
/// The variables that `inherit: core` keeps.
const CORE: [&str; 11] =
    ["PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"];
/// Names that look like secrets.
const SECRETS: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

/// The process to start.
pub(super) fn spec(
    params: &ExecParams,
    (cwd, env): (RootedPath, Vec<(OsString, OsString)>),
    confinement: Option<Arc<Confinement>>,
) -> ProcessSpec {
    let ExecParams { argv, arg0, tty, pipe_stdin, .. } = params;
    ProcessSpec {
        program: Program::Argv(argv.clone()),
        arg0: arg0.clone(),
        cwd,
        env,
        terminal: tty.then_some(SIZE),
        stdin: if *pipe_stdin && !tty { Stdin::Open } else { Stdin::Empty },
        stop_after: None,
        output_limit: None,
        origin: Cow::Borrowed(ExecServer::NAME),
        confinement,
    }
}

/// The protocol's name for the sandbox of a process.
pub(super) fn sandbox_type(is_confined: bool) -> &'static str {
    if is_confined { "linuxSeccomp" } else { "none" }
}

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
    let is_core = |name: &str| CORE.iter().any(|core| core.eq_ignore_ascii_case(name));
    let is_inherited = |name: &OsString| match (policy.inherit, name.to_str()) {
        (EnvInherit::None, _) => false,
        (EnvInherit::All, None) => true,
        (EnvInherit::Core, None) => false,
        (EnvInherit::Core, Some(name)) if !is_core(name) => false,
        (_, Some(name)) => {
            let is_secret = !policy.ignore_default_excludes && any_matches(&SECRETS, name);
            !is_secret && !any_matches(&policy.exclude, name)
        }
    };
    let mut env: BTreeMap<OsString, OsString> =
        ours.iter().filter(|(name, _)| is_inherited(name)).cloned().collect();
    env.extend(policy.r#set.iter().map(|(name, value)| (name.into(), value.into())));
    if !policy.include_only.is_empty() {
        env.retain(|name, _| name.to_str().is_some_and(|name| any_matches(&policy.include_only, name)));
    }
    env
}

fn any_matches(patterns: &[impl AsRef<str>], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_ref().as_bytes(), name.as_bytes()))
}

/// Whether a pattern with `*` and `?` matches, whatever the case. Linear: it goes back to the last star only.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&text[place]) => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((before, from)) => {
                    star = Some((before, from + 1));
                    at = before + 1;
                    place = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whatever_the_case() {
        for (pattern, text, expected) in [
            ("*KEY*", "my_key_1", true),
            ("*KEY*", "KE", false),
            ("A?C", "abc", true),
            ("A?C", "abbc", false),
            ("*", "", true),
            ("", "x", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("*a*b*c", "xxaxxbxxcxx", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

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
