//! `rex target use`: the target from now on, unless something says otherwise.

use serde_json::json;

use crate::failure::{Failure, Status};
use crate::output;
use crate::route::{self, Inputs, Places, state};

/// What takes back an earlier choice.
const NONE: &str = "-";

pub(super) fn run(json: bool, name: &str) -> Result<Status, Failure> {
    let state = Places::from_environment().state.ok_or_else(|| {
        Failure::new("there is no place to remember a target: HOME is not set")
            .hint("set XDG_STATE_HOME, or name the target in REX_TARGET")
    })?;
    let said = match name {
        NONE => {
            state::set_used(&state, None)?;
            "no target is remembered".to_owned()
        }
        name => {
            // A name that stands for nothing is refused now, not by every command from now on.
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
        false => output::line(said)?,
    }
    tell_who_counts_more();
    Ok(Status::OK)
}

/// Somebody who has just chosen a target wants to know that another rule decides here.
fn tell_who_counts_more() {
    let explanation = route::explain(&Inputs::gather(None));
    let winner = explanation.rules.iter().find(|spoken| spoken.wins);
    if let Some(winner) =
        winner.filter(|winner| ["REX_TARGET", "project file", "path prefix"].contains(&winner.rule))
    {
        let says = winner.says.as_deref().unwrap_or("nothing that makes sense");
        output::remark(format_args!(
            "here the {} counts more and says {says} (rex target show)",
            winner.rule
        ));
    }
}
