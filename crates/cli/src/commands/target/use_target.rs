//! `rex target use`: sets the default target.

use serde_json::json;

use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::route::{self, Inputs, Paths, state};

/// The name that clears the default.
const NONE: &str = "-";

pub(super) fn run(json: bool, name: &str) -> Result<CommandStatus, Failure> {
    let state = Paths::from_environment().state.ok_or_else(|| {
        Failure::new("cannot store the default target: HOME is not set")
            .hint("set HOME or XDG_STATE_HOME, or set REX_TARGET instead")
    })?;
    let message = match name {
        NONE => {
            state::set_used(&state, None)?;
            "default target cleared".to_owned()
        }
        name => {
            // An unknown name is refused now instead of by every later command.
            let decision = route::decide(&Inputs::gather(Some(name)))?;
            state::set_used(&state, Some(name))?;
            match decision.choice.alias {
                Some(alias) => format!("using {alias}  {}", decision.choice.target),
                None => format!("using {}", decision.choice.target),
            }
        }
    };
    match json {
        true => output::json_line(&json!({ "target": Some(name).filter(|name| *name != NONE) }))?,
        false => output::line(message)?,
    }
    note_overriding_rule();
    Ok(CommandStatus::OK)
}

/// Prints a note if a rule with a higher precedence selects the target in this directory.
fn note_overriding_rule() {
    let explanation = route::explain(&Inputs::gather(None));
    let winner = explanation.rules.iter().find(|rule| rule.wins);
    if let Some(winner) =
        winner.filter(|winner| ["REX_TARGET", "project file", "path prefix"].contains(&winner.rule))
    {
        let target = winner.target.as_deref().unwrap_or("an invalid target");
        output::note(format_args!(
            "in this directory the {} takes precedence: {target} (see `rex target show`)",
            winner.rule
        ));
    }
}
