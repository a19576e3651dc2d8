//! Routing: the rules that choose the target, and the registry of aliases.

mod decide;
mod explain;
mod inputs;
pub mod paths;
pub mod project;
pub mod registry;
pub(crate) mod state;
pub(crate) mod suggest;
mod token;

use std::path::PathBuf;

use client::Target;

use crate::failure::Failure;
use crate::output;
pub use decide::{Credential, Decision, decide};
pub use explain::{Explanation, RuleExplanation, explain};
pub use inputs::Inputs;
pub use paths::Paths;
pub use registry::Registry;

/// The chosen target, and the rule that chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The target, with its token.
    pub target: Target,
    /// The alias that was resolved to it.
    pub alias: Option<String>,
    /// The directory where commands and relative paths start; otherwise the default of the session.
    pub cwd: Option<String>,
    /// The rule that chose it.
    pub rule: Rule,
    /// Warnings for the user, such as a token file that others can read.
    pub warnings: Vec<String>,
}

/// The routing rules in order of precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// `-t`, or the `ALIAS:` prefix of a path.
    Flag,
    /// The variable `REX_TARGET`.
    Environment,
    /// The project file at this path.
    Project(PathBuf),
    /// A path prefix of a target.
    Prefix(PathBuf),
    /// The default that `rex target use` set.
    Used,
    /// The target that this session used before.
    CarriedOver,
    /// No other rule applies: this machine.
    Default,
}

/// A path of the command line, local or on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathArg {
    /// `PATH`: local, where a command takes both kinds.
    Local(String),
    /// `:PATH` or `ALIAS:PATH`: on the named target, or on the one the rules choose.
    Remote {
        /// The alias before the colon, if any.
        alias: Option<String>,
        /// The path on the target.
        path: String,
    },
}

/// Chooses the target; `flag` is the value of `-t`. Prints warnings on stderr, and stores the flag for the agent
/// session if `REX_SESSION` is set.
pub fn choose(flag: Option<&str>) -> Result<Choice, Failure> {
    let inputs = Inputs::gather(flag);
    let choice = choose_from(&inputs)?;
    choice.warnings.iter().for_each(output::note);
    if let (Some(name), Some(session), Some(dir)) = (flag, &inputs.session, &inputs.paths.state)
        && let Err(error) = state::carry(dir, session, name)
    {
        output::note(format_args!("cannot store the target `{name}` of this session: {error}"));
    }
    Ok(choice)
}

/// Chooses the target of an `ALIAS:` prefix, which is not stored for the session.
pub fn choose_once(alias: &str) -> Result<Choice, Failure> {
    let choice = current(Some(alias))?;
    choice.warnings.iter().for_each(output::note);
    Ok(choice)
}

/// Whether a name is registered as an alias.
pub fn is_alias(name: &str) -> Result<bool, Failure> {
    Ok(inputs::registry(&Paths::from_environment())?.has(name))
}

/// Chooses the target without warnings and without storing anything: a server calls this before each request, so that
/// `rex target use` takes effect at once.
pub fn current(flag: Option<&str>) -> Result<Choice, Failure> {
    choose_from(&Inputs::gather(flag))
}

/// Chooses the target and reads its token.
pub fn choose_from(inputs: &Inputs) -> Result<Choice, Failure> {
    decide(inputs).and_then(|decision| token::admit(decision, &inputs.paths))
}

/// Parses a path. A colon separates an alias only if the path starts with it or the name before it is registered.
pub fn parse_path(text: &str) -> Result<PathArg, Failure> {
    parse_path_with(text, &|| inputs::registry(&Paths::from_environment()))
}

/// Parses a path of a command that works on targets only: `ALIAS:PATH`, `:PATH` or `PATH`. Returns the alias and the
/// path.
pub fn remote_path(text: &str) -> Result<(Option<String>, String), Failure> {
    Ok(match parse_path(text)? {
        PathArg::Local(path) => (None, path),
        PathArg::Remote { alias, path } => (alias, path),
    })
}

/// The registry is read only if there is a name to look up.
fn parse_path_with(text: &str, registry: &dyn Fn() -> Result<Registry, Failure>) -> Result<PathArg, Failure> {
    let here = || Ok(PathArg::Local(text.to_owned()));
    match text.split_once(':') {
        Some(("", path)) => Ok(PathArg::Remote { alias: None, path: path.to_owned() }),
        Some((name, path)) => {
            // `./a:b` and `/a:b` are paths, whatever is registered.
            if name.contains('/') || name.starts_with(['.', '~']) {
                return here();
            }
            match name == "local" || registry()?.has(name) {
                true => Ok(PathArg::Remote { alias: Some(name.to_owned()), path: path.to_owned() }),
                false => here(),
            }
        }
        None => here(),
    }
}

#[cfg(test)]
mod tests;
