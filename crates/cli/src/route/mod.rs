//! Where work is done: which rule chooses the target, and what an alias stands for.

use std::path::PathBuf;

use client::Target;

use crate::failure::Failure;

/// Where work is done, and why there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The target.
    pub target: Target,
    /// The alias it was chosen by, if by one.
    pub alias: Option<String>,
    /// Where commands and relative paths start there; the session's own directory otherwise.
    pub cwd: Option<String>,
    /// The rule that chose it.
    pub rule: Rule,
    /// What is odd about it but no reason to refuse, for a person.
    pub warnings: Vec<String>,
}

/// The rules, the first that says something decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// `-t`, or the alias before a path.
    Flag,
    /// `REX_TARGET`.
    Environment,
    /// A project file.
    Project(PathBuf),
    /// A path prefix of a target.
    Prefix(PathBuf),
    /// `rex target use`.
    Used,
    /// What the session used before.
    CarriedOver,
    /// Nothing else said anything.
    Default,
}

/// A path as it is written on the command line: on this machine, or there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `PATH`: on this machine where both sides are possible.
    Here(String),
    /// `:PATH` or `ALIAS:PATH`: on the target that is named, or on the one the rules choose.
    There {
        /// The alias, if one stands before the path.
        alias: Option<String>,
        /// The path there.
        path: String,
    },
}

/// Chooses the target by the rules; `asked` is what `-t` says. Tells on stderr what is odd about it, and remembers
/// what was asked for where a runtime named its session.
pub fn choose(asked: Option<&str>) -> Result<Choice, Failure> {
    current(asked)
}

/// The same without a word and without remembering anything: for a server that looks before each call whether
/// `rex target use` has said something else meanwhile.
pub fn current(asked: Option<&str>) -> Result<Choice, Failure> {
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
    Ok(Choice { target, alias: None, cwd, rule, warnings: Vec::new() })
}

/// Which side a path is on. A colon counts only at the beginning, or after an alias that is registered.
pub fn place(text: &str) -> Result<Place, Failure> {
    Ok(match text.strip_prefix(':') {
        Some(path) => Place::There { alias: None, path: path.to_owned() },
        None => Place::Here(text.to_owned()),
    })
}

/// A path there with the alias before it, as `ALIAS:PATH`, `:PATH` and `PATH` are written where only the other side
/// is possible.
pub fn split_place(text: &str) -> Result<(Option<String>, String), Failure> {
    Ok(match place(text)? {
        Place::Here(path) => (None, path),
        Place::There { alias, path } => (alias, path),
    })
}
