//! Where work is done: which rule chooses the target, and what an alias stands for.

mod decide;
mod explain;
mod inputs;
pub(crate) mod near;
pub mod places;
pub mod project;
pub mod registry;
pub(crate) mod state;
mod token;

use std::path::PathBuf;

use client::Target;

use crate::failure::Failure;
use crate::output;
pub use decide::{Decision, Proof, decide};
pub use explain::{Explanation, Spoken, explain};
pub use inputs::Inputs;
pub use places::Places;
pub use registry::Registry;

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
    let inputs = Inputs::gather(asked);
    let choice = choose_from(&inputs)?;
    choice.warnings.iter().for_each(output::remark);
    if let (Some(name), Some(session), Some(folder)) = (asked, &inputs.session, &inputs.places.state)
        && let Err(error) = state::carry(folder, session, name)
    {
        output::remark(format_args!("cannot remember `{name}` for this session: {error}"));
    }
    Ok(choice)
}

/// The same for an alias that stands before a path: it holds for this one time and is not remembered.
pub fn choose_once(alias: &str) -> Result<Choice, Failure> {
    let choice = current(Some(alias))?;
    choice.warnings.iter().for_each(output::remark);
    Ok(choice)
}

/// The same without a word and without remembering anything: for a server that looks before each call whether
/// `rex target use` has said something else meanwhile.
pub fn current(asked: Option<&str>) -> Result<Choice, Failure> {
    choose_from(&Inputs::gather(asked))
}

/// Decides, and fetches the token of the target that was chosen.
pub fn choose_from(inputs: &Inputs) -> Result<Choice, Failure> {
    decide(inputs).and_then(token::admit)
}

/// Which side a path is on. A colon counts only at the beginning, or after an alias that is registered.
pub fn place(text: &str) -> Result<Place, Failure> {
    place_among(text, &|| inputs::registry(&Places::from_environment()))
}

/// A path there with the alias before it, as `ALIAS:PATH`, `:PATH` and `PATH` are written where only the other side
/// is possible.
pub fn split_place(text: &str) -> Result<(Option<String>, String), Failure> {
    Ok(match place(text)? {
        Place::Here(path) => (None, path),
        Place::There { alias, path } => (alias, path),
    })
}

/// The registry is read only if there is a name to look up.
fn place_among(text: &str, registry: &dyn Fn() -> Result<Registry, Failure>) -> Result<Place, Failure> {
    let here = || Ok(Place::Here(text.to_owned()));
    match text.split_once(':') {
        Some(("", path)) => Ok(Place::There { alias: None, path: path.to_owned() }),
        Some((name, path)) => {
            // `./a:b` and `/a:b` are paths whatever is registered.
            if name.contains('/') || name.starts_with(['.', '~']) {
                return here();
            }
            match name == "local" || registry()?.has(name) {
                true => Ok(Place::There { alias: Some(name.to_owned()), path: path.to_owned() }),
                false => here(),
            }
        }
        None => here(),
    }
}

#[cfg(test)]
mod tests;
