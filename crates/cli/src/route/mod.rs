//! Where work is done: which rule chooses the target, and what an alias stands for.

use client::Target;

use crate::failure::Failure;

/// Where work is done, and why there.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The target.
    pub target: Target,
    /// The alias it was chosen by, if by one.
    pub alias: Option<String>,
    /// Where commands and relative paths start there; the session's own directory otherwise.
    pub cwd: Option<String>,
    /// The rule that chose it.
    pub rule: Rule,
}

/// The rules, the first that says something decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// `-t`, or the alias before a path.
    Flag,
    /// `REX_TARGET`.
    Environment,
    /// A project file.
    Project(std::path::PathBuf),
    /// A path prefix of a target.
    Prefix(std::path::PathBuf),
    /// `rex target use`.
    Used,
    /// What the session used before.
    CarriedOver,
    /// Nothing else said anything.
    Default,
}

/// Chooses the target by the rules; `asked` is what `-t` says.
pub fn choose(asked: Option<&str>) -> Result<Choice, Failure> {
    let named = asked.map(str::to_owned).or_else(|| std::env::var("REX_TARGET").ok());
    let rule = if asked.is_some() { Rule::Flag } else { Rule::Default };
    let target = match named {
        Some(text) => text.parse::<Target>().map_err(|error| Failure::new(error.to_string()))?,
        None => Target::local(),
    };
    let cwd = match &target {
        Target::Local(_) => std::env::current_dir().ok().and_then(|path| path.to_str().map(str::to_owned)),
        _ => None,
    };
    Ok(Choice { target, alias: None, cwd, rule })
}

/// A path with the alias before it, as `ALIAS:PATH` and `:PATH` are written.
pub fn split_place(path: &str) -> Result<(Option<String>, String), Failure> {
    Ok((None, path.strip_prefix(':').unwrap_or(path).to_owned()))
}
